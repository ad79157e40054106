"""The transformer block of the pyramids that timm does not have, and a last stage that ends in a class token."""

from __future__ import annotations

import torch
from timm.layers import DropPath, Mlp, trunc_normal_
from torch import Tensor, nn


class Block(nn.Module):
    """Pre-norm block: x + attention(norm(x)), then x + mlp(norm(x)), each with stochastic depth."""

    def __init__(self, width: int, attention: nn.Module, mlp_ratio: float, drop_path: float, eps: float):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=eps)
        self.attn = attention
        self.norm2 = nn.LayerNorm(width, eps=eps)
        self.mlp = Mlp(width, round(width * mlp_ratio))
        self.drop_path = DropPath(drop_path) if drop_path else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (B, N, C) to tokens (B, N, C)."""
        x = x + self.drop_path(self.attn(self.norm1(x)))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class ClassTokenBlocks(nn.Sequential):
    """Blocks over a class token in front of the patches, of which the class token alone comes back."""

    def __init__(self, width: int, blocks: list[Block]):
        super().__init__(*blocks)
        self.cls_token = nn.Parameter(trunc_normal_(torch.empty(1, 1, width), std=0.02))

    def forward(self, x: Tensor) -> Tensor:
        """Patches (B, N, C) to the class token (B, 1, C)."""
        return super().forward(torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1))[:, :1]


def init_linears(model: nn.Module) -> None:
    """Weights of linear layers from a normal distribution of deviation 0.02 cut off at 2, biases zero, as in ViT."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
