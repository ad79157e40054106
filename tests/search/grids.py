"""A small grid with equal cells and made-up runs, shared by the tests of searches."""

from __future__ import annotations

from itertools import product
from random import Random

from attnbench.search.measurements import MeasuredRun, Measurements
from attnbench.search.spaces import CategoricalSpace

AXES = (("x", "y", "z", "w"), ("none", "relu", "elu1"), ("none", "l2norm", "l2norm_tokens"), ("none", "softmax"))


def small_space() -> CategoricalSpace:
    """72 cells; with a first coordinate "w" the last one has no effect, so 63 functions."""
    return CategoricalSpace({cell: cell_key(cell) for cell in product(*AXES)})


def cell_key(cell: tuple[str, ...]) -> str:
    return "ag1-" + ".".join(cell[:3] if cell[0] == "w" else cell)


def quality(key: str) -> float:
    """A smooth landscape: each coordinate adds its share."""
    return 60 + sum(3 * len(part) for part in key.split(".")) / 4


def small_runs(seeds: tuple[int, ...] = (0, 1, 2), noise: float = 0.5) -> list[MeasuredRun]:
    """One run per function and seed; the test value is recognisable, and each run costs 2 s."""
    rng = Random(0)
    return [
        MeasuredRun(key, seed, quality(key) + rng.gauss(0, noise), 1000.0 + 10 * i + seed, 2.0)
        for i, key in enumerate(small_space().keys)
        for seed in seeds
    ]


def small_measurements(seeds: tuple[int, ...] = (0, 1, 2), noise: float = 0.5) -> Measurements:
    return Measurements(small_runs(seeds, noise))
