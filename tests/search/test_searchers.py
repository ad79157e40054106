"""Random search and regularised evolution, without any table."""

from __future__ import annotations

from itertools import product
from random import Random
from statistics import fmean

import pytest

from attnbench.search.searchers import SEARCHERS, RandomSearch, RegularizedEvolution, make_searcher
from attnbench.search.spaces import CategoricalSpace
from tests.search.grids import quality, small_space


def drive(searcher: object, space: CategoricalSpace, n: int) -> list[str]:
    """Ask and tell n times; the keys asked for."""
    keys = []
    for _ in range(n):
        x = searcher.ask()
        if x is None:
            break
        keys.append(space.key(x))
        searcher.tell(x, quality(keys[-1]))
    return keys


def test_random_search_asks_for_every_function_once() -> None:
    space = small_space()
    searcher = RandomSearch(space, Random(0))
    keys = drive(searcher, space, 1000)
    assert sorted(keys) == sorted(space.keys)
    assert searcher.ask() is None
    assert keys != drive(RandomSearch(space, Random(1)), space, 1000)


@pytest.mark.parametrize("name", SEARCHERS)
def test_one_seed_is_one_search(name: str) -> None:
    space = small_space()
    first, again = (drive(make_searcher(name, space, Random(7)), space, 200) for _ in range(2))
    assert first == again
    assert SEARCHERS[name].source


@pytest.mark.parametrize("name", SEARCHERS)
def test_global_random_state_is_neither_read_nor_moved(name: str) -> None:
    import random

    space = small_space()
    random.seed(1)
    state = random.getstate()
    first = drive(make_searcher(name, space, Random(7)), space, 100)
    assert random.getstate() == state
    random.seed(2)
    assert drive(make_searcher(name, space, Random(7)), space, 100) == first


def test_evolution_follows_the_published_algorithm() -> None:
    """A recording space shows which parent was mutated; an independent queue says which one should be."""

    class Recorder(CategoricalSpace):
        def mutate(self, x: tuple[str, ...], rng: Random) -> tuple[str, ...]:
            parents.append(x)
            return super().mutate(x, rng)

    parents: list[tuple[str, ...]] = []
    plain = small_space()
    space = Recorder({cell: plain.key(cell) for cell in plain.cells})
    searcher = RegularizedEvolution(space, Random(3), population_size=8, sample_size=8)
    told: list[tuple[float, tuple[str, ...]]] = []
    for step in range(60):
        x = searcher.ask()
        if step >= 8:
            # With a tournament of everyone, the parent is the best of the 8 youngest; equal values have one parent
            # value in common, whichever of them won.
            alive = told[-8:]
            assert quality(space.key(parents[-1])) == max(value for value, _ in alive)
            assert parents[-1] in [cell for _, cell in alive]
        told.append((quality(space.key(x)), x))
        searcher.tell(x, told[-1][0])
    assert len(parents) == 52
    assert len({space.key(x) for _, x in told[:8]}) == 8


def test_evolution_beats_random_on_a_smooth_landscape() -> None:
    space = CategoricalSpace({cell: "-".join(cell) for cell in product("01234", repeat=5)})

    def best_of(searcher: object) -> int:
        best = 0
        for _ in range(100):
            x = searcher.ask()
            value = sum(map(int, x))
            searcher.tell(x, value)
            best = max(best, value)
        return best

    seeds = range(20)
    by_random = fmean(best_of(RandomSearch(space, Random(seed))) for seed in seeds)
    by_evolution = fmean(best_of(RegularizedEvolution(space, Random(seed), 20, 5)) for seed in seeds)
    assert by_evolution > by_random + 1


def test_evolution_in_a_space_smaller_than_its_population() -> None:
    one = CategoricalSpace({("a",): "1", ("b",): "1"})
    assert len(drive(RegularizedEvolution(one, Random(0)), _Flat(one), 10)) == 1
    waiting = RegularizedEvolution(small_space(), Random(0), population_size=2, sample_size=1)
    assert [waiting.ask() is None for _ in range(3)] == [False, False, True]


class _Flat(CategoricalSpace):
    """Keys that `quality` can read."""

    def __init__(self, space: CategoricalSpace):
        super().__init__({cell: space.key(cell) for cell in space.cells})


@pytest.mark.parametrize(("population", "sample"), [(5, 6), (5, 0), (0, 0)])
def test_sizes_are_checked(population: int, sample: int) -> None:
    with pytest.raises(ValueError, match=f"sample_size = {sample}, population_size = {population}; expected 1 <="):
        RegularizedEvolution(small_space(), Random(0), population, sample)


def test_unknown_searcher_is_named() -> None:
    with pytest.raises(ValueError, match="there is no searcher 'anneal'; choose one of random, evolution"):
        make_searcher("anneal", small_space(), Random(0))
