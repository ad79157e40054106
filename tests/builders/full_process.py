"""The training builder with a full backbone, a recipe and data sets made tiny, for tests in one process or in several.

Run as `torchrun --nproc-per-node 2 -m tests.builders.full_process DATASET ARGUMENTS OF builders train`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import builders.train
from attnbench.nn.datasets import SOURCES
from attnbench.nn.frozen import FROZEN, run_hash
from attnbench.nn.full import FULL
from attnbench.nn.recipes import BACKBONE_CHANGES, RECIPE_CHANGES, RECIPES
from attnbench.nn.vit import DeepViTConfig
from tests.nn import tiny_images

PROTOCOL, BACKBONE = "cifar100-300e", "deit-tiny"
TINY = DeepViTConfig(
    image_size=(16, 16), patch_size=(8, 8), width=16, n_heads=2, depth=2, mlp_ratio=2.0, n_channels=3, n_classes=3
)
SHORT: dict[str, Any] = {
    "n_classes": 3,
    "n_val_per_class": 3,
    "epochs": 2,
    "warmup_epochs": 1,
    "batch_size": 8,
    "learning_rate": 2e-3,
    "clip_norm": 1.0,
    "precision": "fp32",
}


def changes(dataset: Path) -> Iterator[tuple[MutableMapping[Any, Any], str, Any]]:
    """Registry, name, and what stands there in these tests."""
    yield SOURCES, "cifar-100", tiny_images.with_sums("cifar-100", dataset, "cifar-100-binary.tar.gz")
    yield RECIPES, PROTOCOL, replace(RECIPES[PROTOCOL], **SHORT)
    yield RECIPE_CHANGES, PROTOCOL, {BACKBONE: {}}
    yield BACKBONE_CHANGES, PROTOCOL, {}
    yield FULL, BACKBONE, TINY


def main(dataset: Path, argv: list[str]) -> int:
    for registry, name, value in changes(dataset):
        registry[name] = value
    FROZEN.pop(PROTOCOL, None)
    assert run_hash(PROTOCOL, BACKBONE)
    return builders.train.main([*argv, "--dataset", str(dataset)])


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
