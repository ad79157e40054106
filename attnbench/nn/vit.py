"""timm's VisionTransformer with a searched attention: DeiT, micro and full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from attnbench.nn.attention import FrameAttention, GraphFunction, Grid
from attnbench.nn.padding import patch_grid
from attnbench.nn.stages import searched_blocks


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
        """The tokens of every block, the class token first. Raises: ValueError where patches would leave pixels out."""
        return Grid(*patch_grid(self.image_size, self.patch_size), prefix=1)

    def build(self, graph: GraphFunction) -> nn.Module:
        return vision_transformer(self, graph, [True] * self.depth, 0.0)


@dataclass(frozen=True)
class DeepViTConfig(ViTConfig):
    """A ViT of which some blocks may keep softmax, with stochastic depth. searched: see `searched_blocks`."""

    searched: str = "A"
    drop_path: float = 0.0

    def build(self, graph: GraphFunction) -> nn.Module:
        (searched,) = searched_blocks(self.searched, (self.depth,))
        return vision_transformer(self, graph, searched, self.drop_path)


def vision_transformer(
    config: ViTConfig, graph: GraphFunction, searched: Sequence[bool], drop_path: float
) -> VisionTransformer:
    grid = config.grid
    model = VisionTransformer(
        img_size=config.image_size,
        patch_size=config.patch_size,
        in_chans=config.n_channels,
        num_classes=config.n_classes,
        embed_dim=config.width,
        depth=config.depth,
        num_heads=config.n_heads,
        mlp_ratio=config.mlp_ratio,
        drop_path_rate=drop_path,
        fc_norm=True,  # the last norm after pooling: the same function of the class token, at 1/N of the cost
    )
    for block, is_searched in zip(model.blocks, searched, strict=True):
        if is_searched:
            block.attn = FramedForTimm(config.width, config.n_heads, graph, grid, local=config.local)
    model.init_weights(needs_reset=False)
    return model


class FramedForTimm(FrameAttention):
    """FrameAttention with the signature that timm's blocks call; a graph has no masks."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """Tokens (B, N, C) to the same. Raises: ValueError for a mask."""
        if attn_mask is not None or is_causal:
            raise ValueError("attention graphs take no mask; call the backbone without attn_mask and is_causal.")
        return super().forward(x)
