"""`AutoFormerSpace` and `PiTSpace`: which subnets a search chooses from, and whether a subnet is one of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

from attnbench.errors import InvalidSubnet
from attnbench.space.subnet import HEAD_DIM, N_STAGES, AutoFormerSubnet, PiTSubnet, Subnet, listed, number
from attnbench.space.subnet_cost import FRAMES, Frame


@dataclass(frozen=True)
class AutoFormerSpace:
    """One width and one depth for the net, heads and MLP ratio for every layer; `frame_name` is a key of `FRAMES`."""

    name: str
    frame_name: str
    embed_dims: tuple[int, ...]
    heads: tuple[int, ...]
    mlp_ratios: tuple[float, ...]
    depths: tuple[int, ...]
    head_dim: int = HEAD_DIM

    @property
    def frame(self) -> Frame:
        return FRAMES[self.frame_name]

    @property
    def size(self) -> int:
        """Number of subnets."""
        per_layer = len(self.heads) * len(self.mlp_ratios)
        return len(self.embed_dims) * sum(per_layer**depth for depth in self.depths)

    @property
    def smallest(self) -> AutoFormerSubnet:
        """The least of every coordinate."""
        return self._even(min(self.embed_dims), min(self.depths), min(self.heads), min(self.mlp_ratios))

    @property
    def largest(self) -> AutoFormerSubnet:
        """The most of every coordinate: what a supernet has to hold."""
        return self._even(max(self.embed_dims), max(self.depths), max(self.heads), max(self.mlp_ratios))

    def _even(self, width: int, depth: int, heads: int, ratio: float) -> AutoFormerSubnet:
        return AutoFormerSubnet(width, (heads,) * depth, (ratio,) * depth, self.head_dim)

    def __contains__(self, subnet: object) -> bool:
        return _misfit(self, subnet) is None


@dataclass(frozen=True)
class PiTSpace:
    """One base width and MLP ratio for the net, heads and depth for every stage.

    A stage's heads are a multiple of those before it: other products of the choices have no depthwise pooling.
    """

    name: str
    frame_name: str
    base_dims: tuple[int, ...]
    heads: tuple[int, ...]
    mlp_ratios: tuple[float, ...]
    depths: tuple[tuple[int, ...], ...]

    @property
    def frame(self) -> Frame:
        return FRAMES[self.frame_name]

    @cached_property
    def head_triples(self) -> tuple[tuple[int, ...], ...]:
        """Heads of the three stages, in a fixed order."""
        return tuple(h for h in product(self.heads, repeat=N_STAGES) if not h[1] % h[0] and not h[2] % h[1])

    @cached_property
    def depth_triples(self) -> tuple[tuple[int, ...], ...]:
        """Depths of the three stages, in a fixed order."""
        return tuple(product(*self.depths))

    @property
    def size(self) -> int:
        """Number of subnets."""
        return len(self.base_dims) * len(self.mlp_ratios) * len(self.head_triples) * len(self.depth_triples)

    @property
    def smallest(self) -> PiTSubnet:
        """The least of every coordinate."""
        depths = tuple(map(min, self.depths))
        return PiTSubnet(min(self.base_dims), depths, (min(self.heads),) * N_STAGES, min(self.mlp_ratios))

    @property
    def largest(self) -> PiTSubnet:
        """The most of every coordinate."""
        depths = tuple(map(max, self.depths))
        return PiTSubnet(max(self.base_dims), depths, (max(self.heads),) * N_STAGES, max(self.mlp_ratios))

    def __contains__(self, subnet: object) -> bool:
        return _misfit(self, subnet) is None


SubnetSpace = AutoFormerSpace | PiTSpace


def require_in(space: SubnetSpace, subnet: Subnet) -> None:
    """Raises: InvalidSubnet, naming the coordinate, the layer or stage, and the choices, unless the space holds it."""
    problem = _misfit(space, subnet)
    if problem is not None:
        raise InvalidSubnet(f"not in the space {space.name}: {problem}")


def _misfit(space: SubnetSpace, subnet: object) -> str | None:
    if isinstance(space, AutoFormerSpace):
        if not isinstance(subnet, AutoFormerSubnet):
            return f"it holds AutoFormer subnets, got {type(subnet).__name__}"
        choices: list[tuple[str, float, tuple[float, ...]]] = [
            ("embed_dim", subnet.embed_dim, space.embed_dims),
            ("head_dim", subnet.head_dim, (space.head_dim,)),
            ("depth", subnet.depth, space.depths),
            *((f"heads of layer {i}", n, space.heads) for i, n in enumerate(subnet.heads)),
            *((f"mlp ratio of layer {i}", r, space.mlp_ratios) for i, r in enumerate(subnet.mlp_ratios)),
        ]
    else:
        if not isinstance(subnet, PiTSubnet):
            return f"it holds PiT subnets, got {type(subnet).__name__}"
        choices = [
            ("base_dim", subnet.base_dim, space.base_dims),
            ("mlp_ratio", subnet.mlp_ratio, space.mlp_ratios),
            *((f"depth of stage {i}", n, space.depths[i]) for i, n in enumerate(subnet.depths)),
            *((f"heads of stage {i}", n, space.heads) for i, n in enumerate(subnet.heads)),
        ]
    for coordinate, value, allowed in choices:
        if value not in allowed:
            return f"{coordinate} is {number(value)}, expected one of {listed(allowed)}"
    return None
