"""The frame around a searched attention: proj(merge(graph(q, k, v)) + depthwise3x3(v)).

Source: AttnZero's attention modules (Li et al., 2024), a frame that goes back to Agent Attention (Han et al., 2023).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

GraphFunction = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Grid:
    """How tokens lie on the image: `prefix` tokens without a place, then rows x cols patches in row order."""

    rows: int
    cols: int
    prefix: int = 0

    @property
    def n_tokens(self) -> int:
        return self.prefix + self.rows * self.cols


class SplitHeads(torch.autograd.Function):
    """(B, N, 3C) to q, k, v (B, H, N, C/H), each contiguous, and the patches of raw v (B, N - prefix, C).

    What views and a copy would do; the backward pass writes all four gradients into one tensor, where autograd would
    stack and add them through three more of that size.
    """

    @staticmethod
    def forward(qkv: Tensor, n_heads: int, prefix: int) -> tuple[Tensor, ...]:
        width = qkv.shape[2] // 3
        q, k, v = qkv.unflatten(2, (3, n_heads, -1)).permute(2, 0, 3, 1, 4)
        return q.contiguous(), k.contiguous(), v.contiguous(), qkv[:, prefix:, 2 * width :].contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, ctx.n_heads, ctx.prefix = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return JoinHeads.apply(*grads, ctx.n_heads, ctx.prefix), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], qkv: Tensor, n_heads: int, prefix: int) -> Any:
        parts = SplitHeads.apply(as_batch(info, in_dims[0], qkv), n_heads, prefix)
        return tuple(part.unflatten(0, (info.batch_size, -1)) for part in parts), (0, 0, 0, 0)


class JoinHeads(torch.autograd.Function):
    """The adjoint of SplitHeads, and its backward pass: q, k, v side by side as (B, N, 3C), patches added to v.

    Each is linear and the other's gradient, so that gradients of gradients exist.
    """

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, patches: Tensor, n_heads: int, prefix: int) -> Tensor:
        batch, _, n_tokens, head_width = q.shape
        whole = q.new_empty(batch, n_tokens, 3, n_heads, head_width)
        for place, part in zip(whole.permute(2, 0, 3, 1, 4), (q, k, v), strict=True):
            place.copy_(part)
        whole = whole.flatten(2)
        whole[:, prefix:, 2 * n_heads * head_width :] += patches
        return whole

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        *_, ctx.n_heads, ctx.prefix = inputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return *SplitHeads.apply(grad, ctx.n_heads, ctx.prefix), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        parts = [as_batch(info, dim, part) for dim, part in zip(in_dims, inputs[:4], strict=False)]
        return JoinHeads.apply(*parts, *inputs[4:]).unflatten(0, (info.batch_size, -1)), 0


def as_batch(info: Any, dim: int | None, x: Tensor) -> Tensor:
    """vmap's dimension in front of the samples, and the two as one; what has no such dimension is repeated."""
    x = x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
    return x.flatten(0, 1)


def attend(graph: GraphFunction, qkv: Tensor, n_heads: int, prefix: int) -> tuple[Tensor, Tensor]:
    """qkv (B, N, 3C) to the graph's result with its heads merged (B, N, C), and the patches of raw v."""
    q, k, v, patches = SplitHeads.apply(qkv, n_heads, prefix)
    attended = graph(q, k, v)
    if attended.shape != v.shape:
        raise ValueError(
            f"the graph returned shape {tuple(attended.shape)} for q, k, v of {tuple(v.shape)}; "
            "an attention graph must keep (batch, heads, tokens, width)."
        )
    return attended.transpose(1, 2).flatten(2), patches


class FrameAttention(nn.Module):
    """AttnZero's attention module around `graph`, a pure function of q, k, v.

    q, k, v reach the graph contiguous, (B, heads, N, width / heads); it returns that shape. The local branch, a
    depthwise 3x3 convolution of raw v, sees patches only; `local=False` leaves it out.
    """

    def __init__(self, width: int, n_heads: int, graph: GraphFunction, grid: Grid, *, local: bool = True):
        super().__init__()
        if width % n_heads:
            raise ValueError(
                f"width {width} does not split into {n_heads} heads; use a width that is a multiple of the heads."
            )
        self.n_heads = n_heads
        self.graph = graph
        self.grid = grid
        self.qkv = nn.Linear(width, 3 * width)
        self.local = nn.Conv2d(width, width, kernel_size=3, padding=1, groups=width) if local else None
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (B, N, C) to tokens (B, N, C). Raises: ValueError if N or the graph's result does not fit."""
        if x.shape[1] != self.grid.n_tokens:
            raise ValueError(
                f"the attention got {x.shape[1]} tokens but was built for {self.grid.n_tokens} ({self.grid}); "
                "build the backbone for this image size."
            )
        merged, patches = attend(self.graph, self.qkv(x), self.n_heads, self.grid.prefix)
        if self.local is not None:
            merged = merged + nn.functional.pad(self.convolve(self.local, patches), (0, 0, self.grid.prefix, 0))
        return self.proj(merged)

    def graph_sizes(self) -> list[tuple[int, int, int]]:
        """What the graph runs on for one image: heads, tokens and head width, once for each kind of window.

        The heads are those of all windows of the kind together.
        """
        return [(self.n_heads, self.grid.n_tokens, self.proj.in_features // self.n_heads)]

    def convolve(self, local: nn.Module, patches: Tensor) -> Tensor:
        """The depthwise 3x3 convolution of patches (B, rows * cols, C) on their grid."""
        image = patches.unflatten(1, (self.grid.rows, self.grid.cols)).permute(0, 3, 1, 2)  # channels last: no copy
        return local(image).permute(0, 2, 3, 1).flatten(1, 2)
