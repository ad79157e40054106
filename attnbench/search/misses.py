"""What a table-backed search over subnets answers where the table has no row: the nearest rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import fmean

from attnbench.errors import NotInBenchmark
from attnbench.search.measurements import Measurements
from attnbench.search.simulation import Answer
from attnbench.space.subnet import AutoFormerSubnet, PiTSubnet, Subnet


def nearest_rows(measurements: Measurements, subnets: Iterable[Subnet]) -> Callable[[Subnet], Answer]:
    """An `on_miss` of `Simulation`: the mean of the measured subnets that differ in the fewest coordinates.

    Raises: NotInBenchmark where none of the subnets was measured.
    """
    known = [subnet for subnet in subnets if subnet.key in measurements.value]
    if not known:
        raise NotInBenchmark(
            f"none of the subnets given has a run with seed {measurements.shown_seed}; give those of the table."
        )

    def answer(subnet: Subnet) -> Answer:
        distances = [n_differing(subnet, other) for other in known]
        least = min(distances)
        near = (other for other, distance in zip(known, distances, strict=True) if distance == least)
        return Answer(fmean(measurements.value[other.key] for other in near), "predicted")

    return answer


def n_differing(a: Subnet, b: Subnet) -> int:
    """Coordinates in which two subnets of one family differ; a layer that only one of them has differs in two.

    Raises: ValueError for subnets of two families.
    """
    if isinstance(a, AutoFormerSubnet) and isinstance(b, AutoFormerSubnet):
        shared = min(a.depth, b.depth)
        layers = _n_unequal(a.heads[:shared], b.heads[:shared])
        layers += _n_unequal(a.mlp_ratios[:shared], b.mlp_ratios[:shared])
        return layers + 2 * abs(a.depth - b.depth) + (a.embed_dim != b.embed_dim)
    if isinstance(a, PiTSubnet) and isinstance(b, PiTSubnet):
        stages = _n_unequal((*a.depths, *a.heads), (*b.depths, *b.heads))
        return stages + (a.base_dim != b.base_dim) + (a.mlp_ratio != b.mlp_ratio)
    raise ValueError(f"{a} and {b} are of two families; compare subnets of one.")


def _n_unequal(a: tuple[float, ...], b: tuple[float, ...]) -> int:
    return sum(x != y for x, y in zip(a, b, strict=True))
