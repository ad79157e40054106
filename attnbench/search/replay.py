"""Searches by name on the closed grid of a benchmark, once per search seed."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from attnbench.search.measurements import Measurements, Tables, columns_of
from attnbench.search.searchers import make_searcher
from attnbench.search.simulation import Simulation, Unit
from attnbench.search.spaces import CategoricalSpace, Space, X
from attnbench.search.trace import Trace
from attnbench.space.grid import GRID_AXES


def grid_space(bench: Tables, *, measured: Measurements | None = None) -> CategoricalSpace:
    """The closed grid, from the table `cells`; with `measured`, the part of it that has a run with the shown seed.

    Raises: ValueError where nothing of the grid was measured.
    """
    cells = columns_of(bench.table("cells"))
    coordinates = zip(*(cells[name] for name in GRID_AXES), strict=True)
    space = CategoricalSpace(dict(zip(coordinates, cells["key"], strict=True)))
    return space if measured is None else space.restricted_to(measured.value)


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
