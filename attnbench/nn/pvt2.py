"""timm's PVT v2 with a searched attention."""

from __future__ import annotations

from dataclasses import dataclass

from timm.models.pvt_v2 import PyramidVisionTransformerV2
from torch import Tensor, nn

from attnbench.nn.attention import FrameAttention, GraphFunction, Grid
from attnbench.nn.blocks import init_linears
from attnbench.nn.padding import Size
from attnbench.nn.stages import for_one_attention, need_one_each, searched_blocks


@dataclass(frozen=True)
class PVT2Config:
    """timm's PVT v2: overlapping patches, a convolution in every MLP, mean pooling. Tuples have one value a stage.

    searched: see `searched_blocks`. reductions: of the softmax blocks; searched ones see every token.
    """

    image_size: Size
    widths: tuple[int, ...]
    n_heads: tuple[int, ...]
    depths: tuple[int, ...]
    mlp_ratios: tuple[float, ...]
    searched: str
    reductions: tuple[int, ...]
    local: bool = True
    drop_path: float = 0.0
    n_channels: int = 1
    n_classes: int = 10

    @property
    def grids(self) -> tuple[Grid, ...]:
        """The tokens of each stage: a patch every 4 pixels, then every 2 tokens, and one for the rest."""
        return tuple(Grid(*(-(-side // (4 * 2**i)) for side in self.image_size)) for i in range(len(self.depths)))

    def build(self, graph: GraphFunction) -> nn.Module:
        need_one_each(
            len(self.depths),
            widths=self.widths,
            n_heads=self.n_heads,
            mlp_ratios=self.mlp_ratios,
            reductions=self.reductions,
        )
        searched = searched_blocks(self.searched, self.depths)
        model = PyramidVisionTransformerV2(
            in_chans=self.n_channels,
            num_classes=self.n_classes,
            depths=self.depths,
            embed_dims=self.widths,
            num_heads=self.n_heads,
            sr_ratios=self.reductions,
            mlp_ratios=self.mlp_ratios,
            drop_path_rate=self.drop_path,
        )
        for stage, flags, grid, width, n_heads in zip(
            model.stages, searched, self.grids, self.widths, self.n_heads, strict=True
        ):
            for block, is_searched in zip(stage.blocks, flags, strict=True):
                if is_searched:
                    block.attn = GridFrame(width, n_heads, for_one_attention(graph), grid, local=self.local)
                    init_linears(block.attn)
        return model


class GridFrame(FrameAttention):
    """FrameAttention with the signature that timm's blocks call."""

    def forward(self, x: Tensor, feat_size: Size | None = None) -> Tensor:
        """Tokens (B, N, C) to the same. Raises: ValueError for another grid than the one that it was built for."""
        if feat_size is not None and tuple(feat_size) != (self.grid.rows, self.grid.cols):
            raise ValueError(
                f"the attention got tokens on a grid of {tuple(feat_size)} but was built for {self.grid}; build the "
                "backbone for this image size."
            )
        return super().forward(x)
