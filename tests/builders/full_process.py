"""The training builder with a full backbone, a recipe and data sets made tiny, for tests in one process or in several.

`python -m tests.builders.full_process DATASET ARGUMENTS OF builders train` is the builder in one process; behind
torchrun it is that in several. With `--two` in front it is what torchrun does for two processes, by torchrun's own
launcher, but these are forked after all was imported, where torchrun has each import it anew.
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


def two_processes(dataset: Path, argv: list[str]) -> None:
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        run_id="test",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        start_method="fork",
        max_restarts=0,
    )
    codes = elastic_launch(config, main)(dataset, argv)
    assert codes == {0: 0, 1: 0}, codes


if __name__ == "__main__":
    if sys.argv[1] == "--two":
        two_processes(Path(sys.argv[2]), sys.argv[3:])
    else:
        raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
