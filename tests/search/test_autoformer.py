"""AutoFormer's evolution: its numbers, its parents, and that every candidate is new."""

from __future__ import annotations

import math
from random import Random

import pytest

from attnbench.search.autoformer import AutoFormerEvolution
from attnbench.search.spaces import CategoricalSpace
from attnbench.search.subnets import SubnetCandidates
from attnbench.space.subnet_named import PARAM_WINDOWS, SPACES
from tests.search.grids import small_space
from tests.search.subnets import MICRO, landscape


class Recorder(SubnetCandidates):
    """Writes down what was proposed, and how."""

    log: list[tuple[str, object]]

    def sample(self, rng):
        self.log.append(("sample", None))
        return super().sample(rng)

    def mutate(self, x, rng):
        self.log.append(("mutate", x))
        return super().mutate(x, rng)

    def crossover(self, a, b, rng):
        self.log.append(("crossover", (a, b)))
        return super().crossover(a, b, rng)


def test_the_published_numbers() -> None:
    """1,050 evaluations, all new; parents are the ten best so far; 25 of a generation are mutants, 25 children."""
    space = Recorder(MICRO)
    space.log = []
    searcher = AutoFormerEvolution(space, Random(0))
    told: list[tuple[float, object]] = []
    for generation in range(21):
        space.log.clear()
        best = {x for _, x in sorted(told, key=lambda member: -member[0])[:10]}
        batch = []
        for _ in range(50):
            x = searcher.ask()
            batch.append((landscape(x), x))
            searcher.tell(*reversed(batch[-1]))
        if generation:
            assert {x for kind, x in space.log if kind == "mutate"} <= best
            assert {x for kind, pair in space.log if kind == "crossover" for x in pair} <= best
            kinds = [kind for kind, _ in space.log]
            assert kinds.index("mutate") < kinds.index("crossover")
            assert kinds.count("mutate") <= 250
        else:
            assert {kind for kind, _ in space.log} == {"sample"}
        told += batch
    assert searcher.ask() is None
    assert len({x.key for _, x in told}) == 1050
    # the last generation is ranked as well
    assert [landscape(x) for x in searcher.parents] == sorted((value for value, _ in told), reverse=True)[:10]


def test_mutants_and_children_are_as_many_as_asked() -> None:
    space = Recorder(MICRO)
    space.log = []
    searcher = AutoFormerEvolution(space, Random(3), population_size=20, n_mutants=7, n_children=5)
    for _ in range(20):
        x = searcher.ask()
        searcher.tell(x, landscape(x))
    space.log.clear()
    searcher.ask()
    kinds = [kind for kind, _ in space.log]
    assert kinds.count("mutate") >= 7
    assert kinds.count("sample") >= 20 - 7 - 5
    assert kinds == sorted(kinds, key=["mutate", "crossover", "sample"].index)


def test_it_climbs() -> None:
    space = SubnetCandidates(MICRO)
    searcher = AutoFormerEvolution(space, Random(1), n_generations=6)
    values = []
    while (x := searcher.ask()) is not None:
        values.append(landscape(x))
        searcher.tell(x, values[-1])
    assert len(values) == 350
    assert max(values[:50]) < max(values)
    assert sum(values[-50:]) / 50 > sum(values[:50]) / 50 + 1


def test_a_published_window_is_kept() -> None:
    candidates = SubnetCandidates(SPACES["autoformer-tiny"], window=PARAM_WINDOWS["tiny"])
    searcher = AutoFormerEvolution(candidates, Random(0), n_generations=2)
    asked = []
    while (x := searcher.ask()) is not None:
        asked.append(x)
        searcher.tell(x, float(candidates.params(x)))
    assert len({x.key for x in asked}) == len(asked) == 150
    assert all(4_000_000 <= candidates.params(x) <= 6_000_000 for x in asked)


def test_an_exhausted_space_ends_the_search() -> None:
    space = small_space()
    searcher = AutoFormerEvolution(space, Random(0))
    keys = []
    while (x := searcher.ask()) is not None:
        keys.append(space.key(x))
        searcher.tell(x, 0.0)
    assert sorted(keys) == sorted(space.keys)


def test_nothing_is_bred_before_anything_was_told() -> None:
    searcher = AutoFormerEvolution(small_space(), Random(0), population_size=2, n_mutants=1, n_children=1)
    assert [searcher.ask() is None for _ in range(3)] == [False, False, True]


def test_parents_that_never_cross_have_no_children() -> None:
    class Apart(CategoricalSpace):
        n_asked = 0

        def crossover(self, a, b, rng):
            self.n_asked += 1

    plain = small_space()
    space = Apart({cell: plain.key(cell) for cell in plain.cells})
    searcher = AutoFormerEvolution(space, Random(0), population_size=4, n_mutants=0, n_children=4, max_tries=2)
    for _ in range(8):
        searcher.tell(searcher.ask(), 1.0)
    assert space.n_asked == 4 * 2 * 50  # two tries for each child, 50 pairs for each try


def test_nan_is_the_worst_value() -> None:
    searcher = AutoFormerEvolution(small_space(), Random(0), population_size=3, n_parents=2, n_mutants=1, n_children=1)
    first, second, third = (searcher.ask() for _ in range(3))
    searcher.tell(first, math.nan)
    searcher.tell(second, -5.0)
    searcher.tell(third, -5.0)
    assert searcher.parents == (second, third)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"population_size": 0}, "population_size = 0; expected a whole number from 1"),
        ({"n_generations": -1}, "n_generations = -1; expected a whole number from 0"),
        ({"n_parents": 0}, "n_parents = 0; expected a whole number from 1"),
        ({"max_tries": 0}, "max_tries = 0; expected a whole number from 1"),
        ({"n_mutants": 30}, "n_mutants = 30 and n_children = 25 are more than population_size = 50"),
    ],
)
def test_wrong_numbers_are_named(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AutoFormerEvolution(small_space(), Random(0), **options)
