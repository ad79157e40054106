"""The pyramid vision transformer, version 1, with a searched attention.

Source: Wang et al. 2021, "Pyramid vision transformer"; its code has the class token in the last stage. AttnZero's
copy has none and classifies the mean of the tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from timm.layers import PatchEmbed, calculate_drop_path_rates, trunc_normal_
from torch import Tensor, nn

from attnbench.nn.attention import FrameAttention, GraphFunction, Grid
from attnbench.nn.blocks import Block, init_linears
from attnbench.nn.padding import Size, padded
from attnbench.nn.stages import for_one_attention, need_one_each, pyramid_grids, searched_blocks

EPS = 1e-6


@dataclass(frozen=True)
class PVTConfig:
    """PVT v1; tuples have one value a stage, and each stage after the first has half the rows and columns.

    searched: see `searched_blocks`. reductions: how much coarser than the queries' grid the keys and values of the
    softmax blocks are; searched blocks see every token, for a graph needs as many keys as queries.
    """

    image_size: Size
    padded_size: Size
    patch_size: Size
    widths: tuple[int, ...]
    n_heads: tuple[int, ...]
    depths: tuple[int, ...]
    mlp_ratios: tuple[float, ...]
    searched: str
    reductions: tuple[int, ...]
    class_token: bool = True
    local: bool = True
    drop_path: float = 0.0
    n_channels: int = 1
    n_classes: int = 10

    @property
    def grids(self) -> tuple[Grid, ...]:
        """The tokens of each stage. Raises: ValueError where a stage cannot be halved."""
        return pyramid_grids(self.padded_size, self.patch_size, len(self.depths), prefix=int(self.class_token))

    def build(self, graph: GraphFunction) -> nn.Module:
        need_one_each(
            len(self.depths),
            widths=self.widths,
            n_heads=self.n_heads,
            mlp_ratios=self.mlp_ratios,
            reductions=self.reductions,
        )
        searched = searched_blocks(self.searched, self.depths)
        drop_paths = calculate_drop_path_rates(self.drop_path, list(self.depths), stagewise=True)
        stages = []
        size, patch_size, n_channels = self.padded_size, self.patch_size, self.n_channels
        for i, grid in enumerate(self.grids):
            width, n_heads = self.widths[i], self.n_heads[i]
            blocks = [
                Block(
                    width,
                    FrameAttention(width, n_heads, for_one_attention(graph), grid, local=self.local)
                    if is_searched
                    else ReducedAttention(width, n_heads, grid, self.reductions[i]),
                    self.mlp_ratios[i],
                    drop_path,
                    EPS,
                )
                for is_searched, drop_path in zip(searched[i], drop_paths[i], strict=True)
            ]
            embed = PatchEmbed(size, patch_size, n_channels, width, norm_layer=nn.LayerNorm)
            stages.append(Stage(embed, grid, width, blocks))
            size, patch_size, n_channels = (grid.rows, grid.cols), (2, 2), width
        model = PVT(stages, self.widths[-1], self.n_classes)
        init_linears(model)
        return padded(model, self.image_size, self.padded_size)


class PVT(nn.Module):
    """Stages, then the class token, or the mean of the tokens where there is none, to the classifier."""

    def __init__(self, stages: list[Stage], width: int, n_classes: int):
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.norm = nn.LayerNorm(width, eps=EPS)
        self.head = nn.Linear(width, n_classes)
        self.has_class_token = stages[-1].cls_token is not None

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, channels, rows, cols) to logits (B, classes)."""
        x = images
        for stage in self.stages:
            x = stage(x)
        # The norm is by token: behind the class token it costs 1/N, and in front of a mean it must stay.
        pooled = self.norm(x[:, 0]) if self.has_class_token else self.norm(x.flatten(2).mT).mean(1)
        return self.head(pooled)

    def get_classifier(self) -> nn.Module:
        return self.head


class Stage(nn.Module):
    """Patches of an image, learned positions, blocks, and back to an image; with a class token, to tokens."""

    def __init__(self, patch_embed: PatchEmbed, grid: Grid, width: int, blocks: list[Block]):
        super().__init__()
        self.patch_embed = patch_embed
        self.grid = grid
        self.cls_token = nn.Parameter(trunc_normal_(torch.empty(1, 1, width), std=0.02)) if grid.prefix else None
        self.pos_embed = nn.Parameter(trunc_normal_(torch.empty(1, grid.n_tokens, width), std=0.02))
        self.blocks = nn.Sequential(*blocks)

    def forward(self, image: Tensor) -> Tensor:
        """(B, channels, rows, cols) to (B, C, grid rows, grid cols), or to (B, 1 + N, C) with a class token."""
        x = self.patch_embed(image)
        if self.cls_token is not None:
            x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        x = self.blocks(x + self.pos_embed)
        return x if self.cls_token is not None else x.mT.unflatten(2, (self.grid.rows, self.grid.cols))


class ReducedAttention(nn.Module):
    """PVT's own softmax attention: keys and values on a grid `reduction` times coarser than the queries'."""

    def __init__(self, width: int, n_heads: int, grid: Grid, reduction: int):
        super().__init__()
        if width % n_heads:
            raise ValueError(
                f"width {width} does not split into {n_heads} heads; use a width that is a multiple of the heads."
            )
        if reduction > 1 and grid.prefix:
            raise ValueError(f"reduction {reduction} has no place for the class token of {grid}; use 1 in that stage.")
        if grid.rows % reduction or grid.cols % reduction:
            raise ValueError(f"reduction {reduction} leaves tokens of {grid} out; use one that divides rows and cols.")
        self.n_heads = n_heads
        self.grid = grid
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.reduce = nn.Conv2d(width, width, kernel_size=reduction, stride=reduction) if reduction > 1 else None
        self.norm = nn.LayerNorm(width) if reduction > 1 else None
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (B, N, C) to tokens (B, N, C)."""
        q = self.q(x).unflatten(2, (self.n_heads, -1)).transpose(1, 2)
        if self.reduce is not None and self.norm is not None:
            image = x.mT.unflatten(2, (self.grid.rows, self.grid.cols))
            x = self.norm(self.reduce(image).flatten(2).mT)
        k, v = self.kv(x).unflatten(2, (2, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))
