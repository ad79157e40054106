"""timm's Swin transformer with a searched attention inside its windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from timm.layers import DropPath
from timm.models.swin_transformer import SwinTransformer, SwinTransformerBlock, SwinTransformerStage
from torch import Tensor, nn

from attnbench.nn.attention import FrameAttention, GraphFunction, Grid
from attnbench.nn.blocks import Block, ClassTokenBlocks
from attnbench.nn.padding import Size, padded, patch_grid
from attnbench.nn.stages import for_one_attention, need_one_each, searched_blocks

EPS = 1e-5


@dataclass(frozen=True)
class SwinConfig:
    """timm's Swin; tuples have one value a stage, and each stage after the first has twice the width.

    searched: see `searched_blocks`. searched_window: of the searched blocks, cut down to the stage's grid; it must
    divide it, and it never shifts, for the border of a padded grid and a shifted window are masks, which a graph does
    not take. Searched blocks have no relative position bias. window: of the softmax blocks, which are timm's own.
    local: the frame's depthwise convolution inside each window.
    """

    image_size: Size
    padded_size: Size
    patch_size: Size
    width: int
    n_heads: tuple[int, ...]
    depths: tuple[int, ...]
    mlp_ratio: float
    searched: str
    searched_window: Size
    window: Size
    local: bool = True
    drop_path: float = 0.0
    n_channels: int = 1
    n_classes: int = 10
    class_token: ClassVar[bool] = False

    def build(self, graph: GraphFunction) -> nn.Module:
        need_one_each(len(self.depths), n_heads=self.n_heads)
        searched = searched_blocks(self.searched, self.depths)
        patch_grid(self.padded_size, self.patch_size)
        model = SwinTransformer(
            img_size=self.padded_size,
            patch_size=self.patch_size,
            in_chans=self.n_channels,
            num_classes=self.n_classes,
            embed_dim=self.width,
            depths=self.depths,
            num_heads=self.n_heads,
            window_size=self.window,
            mlp_ratio=self.mlp_ratio,
            drop_path_rate=self.drop_path,
        )
        for stage, flags in zip(model.layers, searched, strict=True):
            for block, is_searched in zip(stage.blocks, flags, strict=True):
                if is_searched:
                    search_in(block, for_one_attention(graph), self.searched_window, local=self.local)
        if self.class_token:
            model.layers[-1] = self.class_stage(model.layers[-1], graph, all(searched[-1]))
        model.init_weights(needs_reset=False)
        return padded(model, self.image_size, self.padded_size)

    def class_stage(self, stage: SwinTransformerStage, graph: GraphFunction, all_searched: bool) -> ClassStage:
        """timm's last stage with a class token. Raises: ValueError where its blocks have no place for one."""
        rows, cols = stage.blocks[0].input_resolution
        if not all_searched or self.searched_window[0] < rows or self.searched_window[1] < cols:
            raise ValueError(
                f"searched = {self.searched!r} with searched_window = {self.searched_window} leaves the class token of "
                f"the last stage's {rows} x {cols} tokens without a place: search the whole stage (A), with a window "
                "that covers it."
            )
        width, n_heads, grid = stage.blocks[0].dim, self.n_heads[-1], Grid(rows, cols, prefix=1)
        blocks = [
            Block(
                width,
                FrameAttention(width, n_heads, for_one_attention(graph), grid, local=self.local),
                self.mlp_ratio,
                block.drop_path1.drop_prob if isinstance(block.drop_path1, DropPath) else 0.0,
                EPS,
            )
            for block in stage.blocks
        ]
        return ClassStage(stage.downsample, ClassTokenBlocks(width, blocks))


@dataclass(frozen=True)
class SwinWithClassToken(SwinConfig):
    """Swin with a class token in its last stage, which must be searched as a whole and be one window.

    The class token is classified in place of the mean of the tokens.
    """

    class_token: ClassVar[bool] = True


class ClassStage(nn.Module):
    """A last stage in the place of timm's, from a map of patches to a map of the class token alone."""

    def __init__(self, downsample: nn.Module, blocks: ClassTokenBlocks):
        super().__init__()
        self.downsample = downsample
        self.blocks = blocks

    def forward(self, x: Tensor) -> Tensor:
        """(B, rows, cols, C) to (B, 1, 1, C'), where C' is what the downsampling makes of C."""
        return self.blocks(self.downsample(x).flatten(1, 2)).unsqueeze(1)


def search_in(block: SwinTransformerBlock, graph: GraphFunction, window: Size, *, local: bool) -> None:
    """Put the searched attention into a block of timm's, over windows that do not shift.

    Raises: ValueError where the windows do not divide the block's grid.
    """
    rows, cols = block.input_resolution
    high, wide = min(window[0], rows), min(window[1], cols)
    if rows % high or cols % wide:
        raise ValueError(
            f"a grid of {rows} x {cols} tokens does not split into windows of {high} x {wide}, and a graph takes no "
            "mask for the rest; use a searched_window that divides the grid."
        )
    block.target_shift_size = (0, 0)
    block.set_input_size(block.input_resolution, (high, wide))
    n_windows = rows // high * (cols // wide)
    block.attn = WindowFrame(block.dim, block.attn.num_heads, graph, Grid(high, wide), n_windows, local=local)


class WindowFrame(FrameAttention):
    """FrameAttention that timm's blocks call with the windows of an image as further samples."""

    def __init__(
        self, width: int, n_heads: int, graph: GraphFunction, grid: Grid, n_windows: int, *, local: bool = True
    ):
        super().__init__(width, n_heads, graph, grid, local=local)
        self.n_windows = n_windows

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Windows (B * windows, N, C) to the same. Raises: ValueError for a mask."""
        if mask is not None:
            raise ValueError("attention graphs take no mask; a searched block must not shift its windows.")
        return super().forward(x)

    def graph_sizes(self) -> list[tuple[int, int, int]]:
        return [(self.n_windows * heads, tokens, width) for heads, tokens, width in super().graph_sizes()]
