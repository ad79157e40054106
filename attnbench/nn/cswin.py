"""The CSwin transformer with a searched attention inside its cross-shaped windows.

Source: Dong et al. 2022, "CSWin transformer": half of the heads attend in horizontal stripes, half in vertical ones;
its depthwise convolution of v inside each stripe (LePE) is the frame's local branch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from timm.layers import calculate_drop_path_rates
from timm.models.swin_transformer import window_partition, window_reverse
from torch import Tensor, nn

from attnbench.nn.attention import FrameAttention, GraphFunction, Grid, attend
from attnbench.nn.blocks import Block, ClassTokenBlocks, init_linears
from attnbench.nn.padding import Size, padded, require_size
from attnbench.nn.stages import for_one_attention, need_one_each, pyramid_grids, searched_blocks

EPS = 1e-5


@dataclass(frozen=True)
class CSwinConfig:
    """CSwin; tuples have one value a stage, and each stage after the first has half the rows and columns.

    searched: see `searched_blocks`. searched_splits and splits: how wide the stripes of the searched and of the
    softmax blocks are; a stripe as wide as the grid's both sides is the whole grid for all heads.
    """

    image_size: Size
    padded_size: Size
    patch_size: int
    widths: tuple[int, ...]
    n_heads: tuple[int, ...]
    depths: tuple[int, ...]
    mlp_ratio: float
    searched: str
    searched_splits: tuple[int, ...]
    splits: tuple[int, ...]
    local: bool = True
    drop_path: float = 0.0
    n_channels: int = 1
    n_classes: int = 10
    class_token: ClassVar[bool] = False

    @property
    def grids(self) -> tuple[Grid, ...]:
        """The tokens of each stage. Raises: ValueError where a stage cannot be halved."""
        patch_size = (self.patch_size, self.patch_size)
        return pyramid_grids(self.padded_size, patch_size, len(self.depths), prefix=int(self.class_token))

    def build(self, graph: GraphFunction) -> nn.Module:
        need_one_each(
            len(self.depths),
            widths=self.widths,
            n_heads=self.n_heads,
            searched_splits=self.searched_splits,
            splits=self.splits,
        )
        searched = searched_blocks(self.searched, self.depths)
        drop_paths = calculate_drop_path_rates(self.drop_path, list(self.depths), stagewise=True)
        stages = []
        patch_size, n_channels = self.patch_size, self.n_channels
        for i, grid in enumerate(self.grids):
            width, n_heads = self.widths[i], self.n_heads[i]
            blocks = [
                Block(
                    width,
                    CrossFrame(
                        width, n_heads, for_one_attention(graph), grid, self.searched_splits[i], local=self.local
                    )
                    if is_searched
                    else CrossSoftmax(width, n_heads, grid, self.splits[i]),
                    self.mlp_ratio,
                    drop_path,
                    EPS,
                )
                for is_searched, drop_path in zip(searched[i], drop_paths[i], strict=True)
            ]
            stages.append(Stage(ConvEmbed(n_channels, width, patch_size), grid, blocks))
            patch_size, n_channels = 2, width
        model = CSwin(stages, self.padded_size, self.widths[-1], self.n_classes)
        init_linears(model)
        return padded(model, self.image_size, self.padded_size)


@dataclass(frozen=True)
class CSwinWithClassToken(CSwinConfig):
    """CSwin with a class token in its last stage, which must be one window.

    The class token is classified in place of the mean of the tokens.
    """

    class_token: ClassVar[bool] = True


class CSwin(nn.Module):
    """Stages, then the mean of the tokens, or the class token, to the classifier."""

    def __init__(self, stages: list[Stage], image_size: Size, width: int, n_classes: int):
        super().__init__()
        self.image_size = image_size
        self.stages = nn.Sequential(*stages)
        self.norm = nn.LayerNorm(width, eps=EPS)
        self.head = nn.Linear(width, n_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, channels, rows, cols) to logits (B, classes). Raises: ValueError for images of another size."""
        require_size(images, self.image_size)
        return self.head(self.norm(self.stages(images).flatten(2).mT).mean(1))

    def get_classifier(self) -> nn.Module:
        return self.head


class Stage(nn.Module):
    """Overlapping patches of an image, blocks, and back to an image (B, C, grid rows, grid cols), or to (B, C, 1, 1)
    with a class token.
    """

    def __init__(self, patch_embed: ConvEmbed, grid: Grid, blocks: list[Block]):
        super().__init__()
        self.patch_embed = patch_embed
        self.size = (1, 1) if grid.prefix else (grid.rows, grid.cols)
        width = patch_embed.proj.out_channels
        self.blocks = ClassTokenBlocks(width, blocks) if grid.prefix else nn.Sequential(*blocks)

    def forward(self, image: Tensor) -> Tensor:
        return self.blocks(self.patch_embed(image)).mT.unflatten(2, self.size)


class ConvEmbed(nn.Module):
    """Patches that overlap their neighbours: one every `patch_size` pixels, 2 * patch_size - 1 wide; then a norm."""

    def __init__(self, n_channels: int, width: int, patch_size: int):
        super().__init__()
        self.proj = nn.Conv2d(
            n_channels, width, kernel_size=2 * patch_size - 1, stride=patch_size, padding=patch_size // 2
        )
        self.norm = nn.LayerNorm(width, eps=EPS)

    def forward(self, image: Tensor) -> Tensor:
        """(B, channels, rows, cols) to tokens (B, N, C)."""
        return self.norm(self.proj(image).flatten(2).mT)


class CrossFrame(FrameAttention):
    """AttnZero's frame over cross-shaped windows: `split` columns wide for the first half of the heads, `split` rows
    high for the second; one window for all heads where `split` covers the grid. The local branch stays inside them.
    """

    def __init__(self, width: int, n_heads: int, graph: GraphFunction, grid: Grid, split: int, *, local: bool = True):
        super().__init__(width, n_heads, graph, grid, local=local)
        self.windows = windows(grid, split)
        if n_heads % len(self.windows):
            raise ValueError(
                f"{n_heads} heads do not halve into vertical and horizontal stripes; use an even number of heads."
            )

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (B, N, C) to tokens (B, N, C). Raises: ValueError if N or the graph's result does not fit."""
        if len(self.windows) == 1:
            return super().forward(x)
        if x.shape[1] != self.grid.n_tokens:
            raise ValueError(
                f"the attention got {x.shape[1]} tokens but was built for {self.grid.n_tokens} ({self.grid}); "
                "build the backbone for this image size."
            )
        parts = self.qkv(x).unflatten(2, (3, len(self.windows), -1)).unbind(3)
        merged = [self.in_windows(part.flatten(2), branch) for branch, part in enumerate(parts)]
        return self.proj(torch.cat(merged, dim=2))

    def in_windows(self, qkv: Tensor, branch: int) -> Tensor:
        """A branch's q, k, v of the whole grid (B, N, 3C') to the sum of graph and convolution (B, N, C')."""
        size, (rows, cols) = self.windows[branch], (self.grid.rows, self.grid.cols)
        cut = window_partition(qkv.unflatten(1, (rows, cols)), size)
        merged, patches = attend(self.graph, cut.flatten(1, 2), self.n_heads // len(self.windows), 0)
        if self.local is not None:
            weight, bias = (value.chunk(len(self.windows))[branch] for value in (self.local.weight, self.local.bias))
            image = patches.unflatten(1, size).permute(0, 3, 1, 2)
            local = nn.functional.conv2d(image, weight, bias, padding=1, groups=len(weight))
            merged = merged + local.permute(0, 2, 3, 1).flatten(1, 2)
        return window_reverse(merged, size, rows, cols).flatten(1, 2)

    def graph_sizes(self) -> list[tuple[int, int, int]]:
        [(heads, tokens, width)] = super().graph_sizes()
        if len(self.windows) == 1:
            return [(heads, tokens, width)]
        # heads / branches in each of tokens / area windows
        return [
            (heads // len(self.windows) * tokens // math.prod(size), math.prod(size), width) for size in self.windows
        ]


class CrossSoftmax(CrossFrame):
    """CSwin's own attention, which is this frame around softmax."""

    def __init__(self, width: int, n_heads: int, grid: Grid, split: int):
        super().__init__(width, n_heads, softmax, grid, split)

    def graph_sizes(self) -> list[tuple[int, int, int]]:
        return []  # no searched graph runs here


def windows(grid: Grid, split: int) -> tuple[Size, ...]:
    """Rows and columns of a vertical and of a horizontal stripe, or of the one window that is the grid.

    Raises: ValueError where stripes leave tokens out.
    """
    if split >= max(grid.rows, grid.cols):
        return ((grid.rows, grid.cols),)
    if grid.prefix:
        raise ValueError(f"the class token of {grid} lies in no stripe; use a split that covers rows and columns.")
    if grid.rows % split or grid.cols % split:
        raise ValueError(
            f"{grid} does not split into stripes {split} wide; use a split that divides rows and columns, or one of "
            "at least both for a single window."
        )
    return (grid.rows, split), (split, grid.cols)


def softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1) @ v
