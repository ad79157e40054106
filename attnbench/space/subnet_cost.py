"""Parameters and multiply-adds of a subnet in its frame, by formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from attnbench.space.subnet import AutoFormerSubnet, PiTSubnet, Subnet


@dataclass(frozen=True)
class Frame:
    """What surrounds a subnet and is not searched: the image, its patches, the positions and the classes.

    max_distance: relative positions between patches are told apart up to this distance in each direction; None is
    without relative positions. pooling: the head sees the mean of the patches, or the class token. PiT has neither
    option: no relative positions, and the class token.
    Source: AutoFormer's released options `--relative_position` and `--gp`.
    """

    image_size: int = 224
    patch_size: int = 16
    stride: int = 16
    n_channels: int = 3
    n_classes: int = 1000
    max_distance: int | None = 14
    pooling: Literal["mean", "class"] = "mean"

    @property
    def side(self) -> int:
        """Patches along one side of the image."""
        return (self.image_size - self.patch_size) // self.stride + 1


FRAMES = {
    "autoformer": Frame(),
    "pit": Frame(stride=8, max_distance=None, pooling="class"),
    "autoformer-micro": Frame(image_size=28, patch_size=7, stride=7, n_channels=1, n_classes=10, max_distance=3),
    "pit-micro": Frame(28, patch_size=7, stride=3, n_channels=1, n_classes=10, max_distance=None, pooling="class"),
}


class SubnetCost(NamedTuple):
    """Trainable parameters, and multiply-adds of one image."""

    params: int
    macs: int


def subnet_cost(subnet: Subnet, frame: Frame) -> SubnetCost:
    """Parameters and multiply-adds; products of matrices and convolutions count, sums and norms do not.

    The products with relative positions count as the released code runs them, N^2 times the head width twice.
    """
    return _COSTS[type(subnet)](subnet, frame)


def _autoformer(subnet: AutoFormerSubnet, frame: Frame) -> SubnetCost:
    width, n = subnet.embed_dim, frame.side**2 + 1
    params, macs = _stem(width, frame)
    params += n * width
    tables = 0 if frame.max_distance is None else 4 * (2 * frame.max_distance + 2) * subnet.head_dim
    for heads, hidden in zip(subnet.heads, subnet.hidden_dims, strict=True):
        inner = heads * subnet.head_dim
        block = _block(width, inner, hidden, n)
        params += block.params + tables
        macs += block.macs + (2 * n * n * inner if tables else 0)
    return SubnetCost(params, macs)


def _pit(subnet: PiTSubnet, frame: Frame) -> SubnetCost:
    params, macs = _stem(subnet.widths[0], frame, head_width=subnet.widths[-1])
    side, before = frame.side, subnet.widths[0]
    params += side**2 * before
    for stage, (width, depth) in enumerate(zip(subnet.widths, subnet.depths, strict=True)):
        if stage:
            side = (side + 1) // 2
            params += 10 * width + before * width + width  # depthwise 3x3 with bias; linear for the class token
            macs += side**2 * 9 * width + before * width
        block = _block(width, width, int(width * subnet.mlp_ratio), side**2 + 1)
        params += depth * block.params
        macs += depth * block.macs
        before = width
    return SubnetCost(params, macs)


_COSTS: dict[type[Subnet], Callable[..., SubnetCost]] = {AutoFormerSubnet: _autoformer, PiTSubnet: _pit}


def _stem(width: int, frame: Frame, head_width: int | None = None) -> SubnetCost:
    """Patch embedding, class token, last norm and head."""
    head_width = width if head_width is None else head_width
    pixels = frame.n_channels * frame.patch_size**2
    return SubnetCost(
        params=(pixels + 1) * width + width + 2 * head_width + (head_width + 1) * frame.n_classes,
        macs=frame.side**2 * pixels * width + head_width * frame.n_classes,
    )


def _block(width: int, inner: int, hidden: int, n: int) -> SubnetCost:
    """Two norms; q, k, v of `inner` units and the projection; the MLP; `n` tokens."""
    return SubnetCost(
        params=4 * width + 3 * inner * (width + 1) + (inner + 1) * width + (width + 1) * hidden + (hidden + 1) * width,
        macs=n * 4 * width * inner + 2 * n * n * inner + 2 * n * width * hidden,
    )
