"""Searches by name on the closed grid or on the subnets of a benchmark, once per search seed."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from attnbench.search.measurements import Measurements, Tables, columns_of
from attnbench.search.searchers import make_searcher
from attnbench.search.simulation import Simulation, Unit
from attnbench.search.spaces import CategoricalSpace, Space, X
from attnbench.search.subnets import SubnetCandidates
from attnbench.search.trace import Trace
from attnbench.space.grid import GRID_AXES
from attnbench.space.subnet_named import SPACES, ParamWindow
from attnbench.space.subnet_text import parse_subnet


def grid_space(bench: Tables, *, measured: Measurements | None = None) -> CategoricalSpace:
    """The closed grid, from the table `cells`; with `measured`, the part of it that has a run with the shown seed.

    Raises: ValueError where nothing of the grid was measured.
    """
    cells = columns_of(bench.table("cells"))
    coordinates = zip(*(cells[name] for name in GRID_AXES), strict=True)
    space = CategoricalSpace(dict(zip(coordinates, cells["key"], strict=True)))
    return space if measured is None else space.restricted_to(measured.value)


def subnet_space(
    bench: Tables,
    name: str,
    *,
    measured: Measurements,
    window: ParamWindow | tuple[int, int] | None = None,
    judged: bool = False,
) -> SubnetCandidates:
    """The subnets of a named space that have a run with the shown seed, inside a parameter window.

    judged: only those whose worth is known by other runs too, so that every choice has a regret.
    Raises: ValueError (no such space; nothing of it was measured); InvalidSubnet (nothing inside the window).
    """
    if name not in SPACES:
        raise ValueError(f"there is no space {name!r} of subnets; choose one of {', '.join(SPACES)}.")
    architectures = columns_of(bench.table("architectures"))
    texts = {
        key: text
        for key, kind, text in zip(*(architectures[column] for column in ("key", "kind", "text")), strict=True)
        if kind == "subnet" and key in measured.value and (key in measured.is_judged or not judged)
    }
    if not texts:
        others = " and others that judge it" if judged else ""
        raise ValueError(f"no subnet of {name} has a run with seed {measured.shown_seed}{others}.")
    return SubnetCandidates(SPACES[name], window=window, only=map(parse_subnet, texts.values()))


def replay(
    space: Space[X],
    measurements: Measurements,
    searcher: str,
    *,
    budget: float,
    search_seeds: Iterable[int],
    unit: Unit = "evaluations",
    repeat_price: float = 0.0,
) -> list[Trace]:
    """One trace per search seed of a searcher of the registry; the seed is all that differs between them.

    Raises: as `make_searcher`, `Simulation` and `Simulation.evaluate`.
    """
    traces = []
    for seed in search_seeds:
        simulation = Simulation(space, measurements, budget=budget, unit=unit, repeat_price=repeat_price)
        traces.append(simulation.run(make_searcher(searcher, space, Random(seed)), name=searcher, search_seed=seed))
    return traces
