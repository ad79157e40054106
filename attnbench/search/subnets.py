"""Subnets as candidates of a search: those of a named space inside a parameter window, or the stored ones alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import product
from random import Random

from attnbench.errors import InvalidSubnet
from attnbench.space.subnet import AutoFormerSubnet, PiTSubnet, Subnet
from attnbench.space.subnet_cost import subnet_cost
from attnbench.space.subnet_named import PARAM_WINDOWS, ParamWindow
from attnbench.space.subnet_sample import Uniform, crossover, mutate, sample, sample_within
from attnbench.space.subnet_spaces import AutoFormerSpace, SubnetSpace, require_in

# Spaces up to this size are listed, one by one, where their functions have to be known.
MAX_LISTED = 100_000
MAX_TRIES = 100


class SubnetCandidates:
    """The `Space` of subnets that a search may choose: of a named space, inside a parameter window.

    window: bounds of the parameters in the space's frame, both inside; None for no bounds. only: the subnets to choose
    from, such as those of a table; by default every subnet of the space. uniform: as in `sample`, for spaces that are
    not given by `only`. net_prob, gene_prob: chances of a mutation as in `mutate`; AutoFormer's paper has the two the
    other way round (0.2 and 0.4).
    Raises: InvalidSubnet where nothing is left to choose from, or a subnet of `only` lies outside the space.
    """

    def __init__(
        self,
        space: SubnetSpace,
        *,
        window: ParamWindow | tuple[int, int] | None = None,
        only: Iterable[Subnet] | None = None,
        uniform: Uniform = "coordinates",
        net_prob: float = 0.4,
        gene_prob: float = 0.2,
    ):
        self.space = space
        self.window = None if window is None else ParamWindow(*window)
        self.uniform, self.net_prob, self.gene_prob = uniform, net_prob, gene_prob
        least, most = (self.params(end) for end in (space.smallest, space.largest))
        self._listed: dict[str, Subnet] | None = None
        if only is not None:
            given = {subnet.key: subnet for subnet in only}
            for subnet in given.values():
                require_in(space, subnet)
            # By key, so that one seed means one search whatever the row order of a table.
            self._listed = {key: given[key] for key in sorted(given) if self._is_inside(given[key])}
            if not self._listed:
                bounds = "" if self.window is None else f" with {_bounds(self.window)}"
                raise InvalidSubnet(f"none of the {len(given):,} subnets given is one of {space.name}{bounds}")
        elif self.window is not None and (self.window.max_params < least or self.window.min_params > most):
            raise InvalidSubnet(
                f"no subnet of {space.name} has {_bounds(self.window)}; the space reaches from {least:,} to {most:,}"
            )
        self.window_binds = self.window is not None and not (least in self.window and most in self.window)

    def empty(self) -> str:
        """Why nothing is left to choose from."""
        bounds = "these" if self.window is None else _bounds(self.window)
        return f"no subnet of {self.space.name} has {bounds}; widen the window"

    def params(self, subnet: Subnet) -> int:
        """Parameters in the space's frame."""
        return subnet_cost(subnet, self.space.frame).params

    def __contains__(self, subnet: object) -> bool:
        if self._listed is not None:
            return isinstance(subnet, Subnet) and subnet.key in self._listed
        return subnet in self.space and isinstance(subnet, Subnet) and self._is_inside(subnet)

    def __len__(self) -> int:
        """Number of subnets; of a space too large to list, without regard to the window."""
        if self._listed is None and (self.window is None or self.space.size > MAX_LISTED):
            return self.space.size
        return len(self.keys)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Every subnet's key, in an order that never varies. Raises: ValueError for a space too large to list."""
        if self._listed is not None:
            return tuple(self._listed)
        if self.space.size > MAX_LISTED:
            raise ValueError(
                f"{self.space.name} holds {self.space.size:,} subnets, too many to list (up to {MAX_LISTED:,}); "
                "pass those to choose from as only=…."
            )
        return tuple(sorted(subnet.key for subnet in _every(self.space) if self._is_inside(subnet)))

    def key(self, x: Subnet) -> str:
        """Raises: InvalidSubnet for a subnet outside the space; one outside the window or `only` keeps its key."""
        require_in(self.space, x)
        return x.key

    def sample(self, rng: Random) -> Subnet:
        """A random subnet, drawn as `uniform` says; of listed subnets, each with the same chance.

        Raises: InvalidSubnet where the window is so narrow that no draw meets it.
        """
        if self._listed is not None:
            return self._listed[rng.choice(self.keys)]
        if self.window is None:
            return sample(self.space, rng, uniform=self.uniform)
        return sample_within(self.space, rng, self.window, uniform=self.uniform)

    def neighbours(self, x: Subnet) -> tuple[Subnet, ...]:
        """Subnets with one coordinate changed; a depth by one layer, the new layer any."""
        return tuple(near for near in _changes(self.space, x) if near in self)

    def mutate(self, x: Subnet, rng: Random) -> Subnet:
        """A mutant, redrawn until it is one of these; after `MAX_TRIES` tries, a random other subnet.

        Raises: InvalidSubnet where there is no other.
        """
        for _ in range(MAX_TRIES):
            mutant = mutate(self.space, x, rng, net_prob=self.net_prob, gene_prob=self.gene_prob)
            if mutant in self:
                return mutant
        for _ in range(MAX_TRIES):
            other = self.sample(rng)
            if other != x:
                return other
        raise InvalidSubnet(f"{x} has no other subnet to mutate to; widen the window or give more subnets")

    def crossover(self, a: Subnet, b: Subnet, rng: Random) -> Subnet | None:
        """A child; None for AutoFormer parents of unequal depths, and for a child that is none of these."""
        if isinstance(self.space, AutoFormerSpace) and a.depth != b.depth:
            return None
        child = crossover(self.space, a, b, rng)
        return child if child in self else None

    def _is_inside(self, subnet: Subnet) -> bool:
        return self.window is None or self.params(subnet) in self.window


def published_window(space_name: str, *, of: str = "autoformer") -> ParamWindow | None:
    """The parameter window in which an AutoFormer space was searched; None for other spaces, which have none.

    of: "autoformer" for AutoFormer's budgets, "tf-tas" for those in which TF-TAS's subnets lie.
    Raises: ValueError for another word.
    """
    if of not in ("autoformer", "tf-tas"):
        raise ValueError(f'windows are those of "autoformer" or of "tf-tas", got {of!r}.')
    size = space_name.removeprefix("autoformer-").removesuffix("-released")
    return PARAM_WINDOWS.get(size if of == "autoformer" else f"{size}-{of}")


def _bounds(window: ParamWindow) -> str:
    return f"{window.min_params:,} to {window.max_params:,} parameters"


def _every(space: SubnetSpace) -> Iterator[Subnet]:
    """Every subnet of a space, in a fixed order."""
    if isinstance(space, AutoFormerSpace):
        layers = tuple(product(space.heads, space.mlp_ratios))
        for width, depth in product(space.embed_dims, space.depths):
            for chosen in product(layers, repeat=depth):
                heads, ratios = zip(*chosen, strict=True)
                yield AutoFormerSubnet(width, heads, ratios, space.head_dim)
    else:
        for coordinates in product(space.base_dims, space.depth_triples, space.head_triples, space.mlp_ratios):
            yield PiTSubnet(*coordinates)


def _changes(space: SubnetSpace, x: Subnet) -> Iterator[Subnet]:
    """Subnets that differ in one coordinate, inside the space or not, in a fixed order."""
    require_in(space, x)
    if isinstance(x, AutoFormerSubnet) and isinstance(space, AutoFormerSpace):
        yield from (replace(x, embed_dim=width) for width in space.embed_dims if width != x.embed_dim)
        if x.depth > 1:
            yield replace(x, heads=x.heads[:-1], mlp_ratios=x.mlp_ratios[:-1])
        for heads, ratio in product(space.heads, space.mlp_ratios):
            yield replace(x, heads=(*x.heads, heads), mlp_ratios=(*x.mlp_ratios, ratio))
        yield from (replace(x, heads=changed) for changed in _one_changed(x.heads, space.heads))
        yield from (replace(x, mlp_ratios=changed) for changed in _one_changed(x.mlp_ratios, space.mlp_ratios))
    elif isinstance(x, PiTSubnet) and not isinstance(space, AutoFormerSpace):
        yield from (replace(x, base_dim=width) for width in space.base_dims if width != x.base_dim)
        yield from (replace(x, mlp_ratio=ratio) for ratio in space.mlp_ratios if ratio != x.mlp_ratio)
        yield from (replace(x, depths=depths) for depths in space.depth_triples if _n_changed(x.depths, depths) == 1)
        yield from (replace(x, heads=heads) for heads in space.head_triples if _n_changed(x.heads, heads) == 1)


def _n_changed(now: tuple[int, ...], then: tuple[int, ...]) -> int:
    return sum(old != new for old, new in zip(now, then, strict=True))


def _one_changed(now: tuple[float, ...], choices: tuple[float, ...]) -> Iterator[tuple]:
    """The tuple with one place set to another choice."""
    for place, old in enumerate(now):
        yield from ((*now[:place], new, *now[place + 1 :]) for new in choices if new != old)
