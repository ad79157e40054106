"""Random subnets of a space: drawn, drawn inside a parameter window, mutated, and crossed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Literal

from attnbench.errors import InvalidSubnet
from attnbench.space.subnet import AutoFormerSubnet, PiTSubnet, Subnet
from attnbench.space.subnet_cost import subnet_cost
from attnbench.space.subnet_named import ParamWindow
from attnbench.space.subnet_spaces import AutoFormerSpace, PiTSpace, SubnetSpace, require_in

Uniform = Literal["coordinates", "subnets"]
Pick = Callable[[Any, Any], Any]


def sample(space: SubnetSpace, rng: Random, *, uniform: Uniform = "coordinates") -> Subnet:
    """A random subnet.

    uniform: "coordinates" draws every coordinate uniformly and independently, as the released code does; the few
    shallow subnets of an AutoFormer space then come up as often as the many deep ones. "subnets" gives every subnet
    the same chance. In a PiT space the two are one, with the heads of its three stages drawn together.
    Raises: ValueError for another word.
    """
    if uniform not in ("coordinates", "subnets"):
        raise ValueError(f'uniform is over "coordinates" or "subnets", got {uniform!r}.')
    if isinstance(space, PiTSpace):
        return PiTSubnet(
            rng.choice(space.base_dims),
            rng.choice(space.depth_triples),
            rng.choice(space.head_triples),
            rng.choice(space.mlp_ratios),
        )
    per_layer = len(space.heads) * len(space.mlp_ratios)
    (depth,) = rng.choices(space.depths, [per_layer**depth if uniform == "subnets" else 1 for depth in space.depths])
    return _autoformer_of_depth(space, depth, rng)


def sample_within(
    space: SubnetSpace,
    rng: Random,
    window: ParamWindow | tuple[int, int],
    *,
    uniform: Uniform = "coordinates",
    max_tries: int = 100_000,
) -> Subnet:
    """A random subnet whose parameters, in the space's frame, lie in the window: `sample` until one does.

    Raises: InvalidSubnet when `max_tries` draws all lie outside.
    """
    window = ParamWindow(*window)
    for _ in range(max_tries):
        subnet = sample(space, rng, uniform=uniform)
        if subnet_cost(subnet, space.frame).params in window:
            return subnet
    least, most = (subnet_cost(end, space.frame).params for end in (space.smallest, space.largest))
    raise InvalidSubnet(
        f"none of {max_tries:,} draws from {space.name} has {window.min_params:,} to {window.max_params:,} parameters; "
        f"the space reaches from {least:,} to {most:,}"
    )


def mutate(space: SubnetSpace, subnet: Subnet, rng: Random, *, net_prob: float = 0.4, gene_prob: float = 0.2) -> Subnet:
    """Another subnet of the space: what the whole net shares is redrawn with `net_prob`, each layer's with `gene_prob`.

    AutoFormer: the net shares embed dim and depth (a shorter net keeps its first layers, a longer one gets random
    ones); layers have heads and MLP ratio. PiT: the net shares base dim and MLP ratio; each stage's depth, and the
    heads of the three stages together, are redrawn like a layer's. All is redrawn until something changed. The
    defaults are the released code's; the paper has the two the other way round.
    Raises: InvalidSubnet (a subnet outside the space, or alone in it), ValueError (a probability not above 0).
    """
    require_in(space, subnet)
    for name, probability in (("net_prob", net_prob), ("gene_prob", gene_prob)):
        if not 0 < probability <= 1:
            raise ValueError(f"{name} is a probability above 0 and up to 1, got {probability}.")
    if space.size == 1:
        raise InvalidSubnet(f"{space.name} has no other subnet to mutate to")

    def redraw(probability: float) -> Pick:
        return lambda old, fresh: fresh if rng.random() < probability else old

    mutant = subnet
    while mutant == subnet:
        if isinstance(space, AutoFormerSpace):
            fresh: Subnet = _autoformer_of_depth(space, max(space.depths), rng)
            depth = redraw(net_prob)(subnet.depth, rng.choice(space.depths))
        else:
            fresh, depth = sample(space, rng), 0
        mutant = _mix(subnet, fresh, depth, redraw(net_prob), redraw(gene_prob))
    return mutant


def crossover(space: SubnetSpace, a: Subnet, b: Subnet, rng: Random) -> Subnet:
    """A child of two subnets: every coordinate, as `mutate` lists them, is one parent's, either with chance 1/2.

    Where AutoFormer parents differ in depth, the child has the depth of one of them, and layers that only the deeper
    has are the deeper's. The child may equal a parent.
    Raises: InvalidSubnet for a parent outside the space.
    """
    require_in(space, a)
    require_in(space, b)

    def either(x: Any, y: Any) -> Any:
        return rng.choice((x, y))

    return _mix(a, b, either(a.depth, b.depth), either, either)


def _mix(a: Any, b: Any, depth: int, net: Pick, gene: Pick) -> Subnet:
    """Two subnets of one family, coordinate by coordinate; `depth`, of AutoFormer only, is reached by one of them."""
    if isinstance(a, PiTSubnet):
        return PiTSubnet(
            net(a.base_dim, b.base_dim),
            tuple(map(gene, a.depths, b.depths)),
            gene(a.heads, b.heads),
            net(a.mlp_ratio, b.mlp_ratio),
        )
    shared, longer = min(a.depth, b.depth), max(a, b, key=lambda subnet: subnet.depth)
    return AutoFormerSubnet(
        net(a.embed_dim, b.embed_dim),
        (*map(gene, a.heads, b.heads), *longer.heads[shared:])[:depth],
        (*map(gene, a.mlp_ratios, b.mlp_ratios), *longer.mlp_ratios[shared:])[:depth],
        a.head_dim,
    )


def _autoformer_of_depth(space: AutoFormerSpace, depth: int, rng: Random) -> AutoFormerSubnet:
    heads = tuple(rng.choice(space.heads) for _ in range(depth))
    ratios = tuple(rng.choice(space.mlp_ratios) for _ in range(depth))
    return AutoFormerSubnet(rng.choice(space.embed_dims), heads, ratios, space.head_dim)
