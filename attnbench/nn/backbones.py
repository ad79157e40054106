"""Backbones with a searched attention: a name leads to a frozen config, a config and a seed to a model."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import nn

from attnbench.nn.attention import GraphFunction
from attnbench.nn.cswin import CSwinWithClassToken
from attnbench.nn.full import FULL
from attnbench.nn.pvt import PVTConfig
from attnbench.nn.swin import SwinWithClassToken
from attnbench.nn.vit import ViTConfig as ViTConfig


class BackboneConfig(Protocol):
    """A frozen dataclass that holds everything about a backbone but the graph; its values enter protocol hashes."""

    @property
    def image_size(self) -> tuple[int, int]: ...

    @property
    def n_channels(self) -> int: ...

    @property
    def n_classes(self) -> int: ...

    def build(self, graph: GraphFunction) -> nn.Module: ...


# The micro sizes. Padding to 32 pixels gives the pyramids 8 x 8 patches, then 4 x 4, where all have a class token: a
# mean of tokens hides from the classifier whether attention mixed them.
BACKBONES: dict[str, BackboneConfig] = {
    "deit": ViTConfig(image_size=(28, 28), patch_size=(7, 7), width=32, n_heads=4, depth=3, mlp_ratio=2.0),
    "pvt": PVTConfig(
        image_size=(28, 28),
        padded_size=(32, 32),
        patch_size=(4, 4),
        widths=(16, 32),
        n_heads=(2, 4),
        depths=(1, 2),
        mlp_ratios=(2.0, 2.0),
        searched="AA",
        reductions=(2, 1),
    ),
    "swin": SwinWithClassToken(
        image_size=(28, 28),
        padded_size=(32, 32),
        patch_size=(4, 4),
        width=16,
        n_heads=(2, 4),
        depths=(1, 2),
        mlp_ratio=2.0,
        searched="AA",
        searched_window=(4, 4),
        window=(4, 4),
    ),
    "cswin": CSwinWithClassToken(
        image_size=(28, 28),
        padded_size=(32, 32),
        patch_size=4,
        widths=(16, 32),
        n_heads=(2, 4),
        depths=(1, 2),
        mlp_ratio=2.0,
        searched="AA",
        searched_splits=(2, 4),
        splits=(2, 4),
    ),
}


def backbone_config(name: str) -> BackboneConfig:
    """The frozen config of a backbone, micro or full. Raises: ValueError (the message lists the known names)."""
    known: dict[str, BackboneConfig] = {**BACKBONES, **FULL}
    if name not in known:
        raise ValueError(f"unknown backbone {name!r}; known: {', '.join(known)}.")
    return known[name]


def build_backbone(name: str, graph: GraphFunction, seed: int) -> nn.Module:
    """A model on the CPU whose weights depend on the backbone and the seed only, never on the graph.

    timm draws weights from torch's global generator; its state is put back afterwards.
    """
    return seeded(seed, lambda: backbone_config(name).build(graph))


def seeded(seed: int, build: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return build()
