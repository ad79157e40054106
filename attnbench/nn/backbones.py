"""Backbones with a searched attention: a name leads to a frozen config, a config and a seed to a model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from attnbench.nn.attention import FrameAttention, GraphFunction, Grid
from attnbench.nn.cswin import CSwinConfig
from attnbench.nn.pvt import PVTConfig
from attnbench.nn.swin import SwinConfig


@dataclass(frozen=True)
class ViTConfig:
    """timm's VisionTransformer with the attention of every block swapped; the class token is classified."""

    image_size: tuple[int, int]
    patch_size: tuple[int, int]
    width: int
    n_heads: int
    depth: int
    mlp_ratio: float
    local: bool = True
    n_channels: int = 1
    n_classes: int = 10

    @property
    def grid(self) -> Grid:
        rows, cols = (side // patch for side, patch in zip(self.image_size, self.patch_size, strict=True))
        return Grid(rows, cols, prefix=1)

    def build(self, graph: GraphFunction) -> nn.Module:
        model = VisionTransformer(
            img_size=self.image_size,
            patch_size=self.patch_size,
            in_chans=self.n_channels,
            num_classes=self.n_classes,
            embed_dim=self.width,
            depth=self.depth,
            num_heads=self.n_heads,
            mlp_ratio=self.mlp_ratio,
            fc_norm=True,  # the last norm after pooling: the same function of the class token, at 1/N of the cost
        )
        for block in model.blocks:
            block.attn = FramedForTimm(self.width, self.n_heads, graph, self.grid, local=self.local)
        model.init_weights(needs_reset=False)
        return model


class FramedForTimm(FrameAttention):
    """FrameAttention with the signature that timm's blocks call; a graph has no masks."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        if attn_mask is not None or is_causal:
            raise ValueError("attention graphs take no mask; call the backbone without attn_mask and is_causal.")
        return super().forward(x)


class BackboneConfig(Protocol):
    """A frozen dataclass that holds everything about a backbone but the graph; its values enter protocol hashes."""

    @property
    def image_size(self) -> tuple[int, int]: ...

    @property
    def n_channels(self) -> int: ...

    @property
    def n_classes(self) -> int: ...

    def build(self, graph: GraphFunction) -> nn.Module: ...


# The micro sizes. Padding to 32 pixels gives the pyramids 8 x 8 patches, then 4 x 4.
BACKBONES: dict[str, BackboneConfig] = {
    "deit": ViTConfig(image_size=(28, 28), patch_size=(7, 7), width=32, n_heads=4, depth=3, mlp_ratio=2.0),
    "pvt": PVTConfig(
        image_size=(28, 28),
        padded_size=(32, 32),
        patch_size=(4, 4),
        widths=(24, 48),
        n_heads=(3, 6),
        depths=(1, 1),
        mlp_ratios=(2.0, 2.0),
        searched="AA",
        reductions=(2, 1),
    ),
    "swin": SwinConfig(
        image_size=(28, 28),
        padded_size=(32, 32),
        patch_size=(4, 4),
        width=24,
        n_heads=(3, 6),
        depths=(1, 1),
        mlp_ratio=2.0,
        searched="AA",
        searched_window=(4, 4),
        window=(4, 4),
        local=False,
    ),
    "cswin": CSwinConfig(
        image_size=(28, 28),
        padded_size=(32, 32),
        patch_size=4,
        widths=(24, 48),
        n_heads=(2, 4),
        depths=(1, 1),
        mlp_ratio=2.0,
        searched="AA",
        searched_splits=(2, 2),
        splits=(2, 2),
    ),
}


def backbone_config(name: str) -> BackboneConfig:
    """The frozen config of a backbone. Raises: ValueError (the message lists the known names)."""
    if name not in BACKBONES:
        raise ValueError(f"unknown backbone {name!r}; known: {', '.join(BACKBONES)}.")
    return BACKBONES[name]


def build_backbone(name: str, graph: GraphFunction, seed: int) -> nn.Module:
    """A model on the CPU whose weights depend on the backbone and the seed only, never on the graph.

    timm draws weights from torch's global generator; its state is put back afterwards.
    """
    return seeded(seed, lambda: backbone_config(name).build(graph))


def seeded(seed: int, build: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return build()
