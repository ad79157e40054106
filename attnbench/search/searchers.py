"""Searchers: ask for a candidate, tell its value. They hold a space and a random generator, and no table."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from attnbench.search.autoformer import AutoFormerEvolution
from attnbench.search.spaces import Space, X

T = TypeVar("T")


class Searcher(Protocol[T]):
    """One search. Higher values are better."""

    def ask(self) -> T | None:
        """The next candidate to measure; None where the searcher has nothing left to ask."""
        ...

    def tell(self, x: T, value: float) -> None:
        """The measured value of a candidate that was asked for."""
        ...


class RandomSearch(Generic[X]):
    """Draws of the space without replacement: every function once, in random order, until none is left.

    Where a space cannot count its functions, many repeated draws on end mean that none is left.
    """

    def __init__(self, space: Space[X], rng: Random):
        self._space, self._rng = space, rng
        self._asked: set[str] = set()

    def ask(self) -> X | None:
        if len(self._asked) >= len(self._space):
            return None
        # The last of m equally likely functions escapes 50 m draws with chance exp(-50).
        for _ in range(1_000 + 50 * len(self._asked)):
            x = self._space.sample(self._rng)
            key = self._space.key(x)
            if key not in self._asked:
                self._asked.add(key)
                return x
        return None

    def tell(self, x: X, value: float) -> None:
        """Nothing to learn: the draws do not depend on values."""


class RegularizedEvolution(Generic[X]):
    """Mutate the best of a random tournament; the oldest member dies, however good.

    population_size: members alive, and random functions, without replacement, that start it.
    sample_size: members drawn, without replacement, for each tournament.
    Raises: ValueError for sizes outside 1 <= sample_size <= population_size.
    Source: Real, Aggarwal, Huang, Le 2019, "Regularized Evolution for Image Classifier Architecture Search",
    algorithm 1; the default sizes are those of NAS-Bench-101's search experiments.
    """

    def __init__(self, space: Space[X], rng: Random, population_size: int = 50, sample_size: int = 10):
        if not 1 <= sample_size <= population_size:
            raise ValueError(
                f"sample_size = {sample_size}, population_size = {population_size}; "
                "expected 1 <= sample_size <= population_size."
            )
        self._space, self._rng = space, rng
        self._sample_size, self._population_size = sample_size, population_size
        self._first = RandomSearch(space, rng)
        self._n_first = min(population_size, len(space))
        self._population: deque[tuple[float, X]] = deque(maxlen=population_size)

    def ask(self) -> X | None:
        if self._n_first:
            self._n_first -= 1
            return self._first.ask()
        if len(self._space) == 1 or not self._population:
            return None
        members = self._rng.sample(self._population, min(self._sample_size, len(self._population)))
        # On equal values the member drawn first wins, so that candidates need no order of their own.
        return self._space.mutate(max(members, key=_value)[1], self._rng)

    def tell(self, x: X, value: float) -> None:
        self._population.append((value, x))


class SearcherKind(NamedTuple):
    """A searcher by name: how to make one, and whose idea it is."""

    make: Callable[[Space[Any], Random], Searcher[Any]]
    source: str


SEARCHERS: dict[str, SearcherKind] = {
    "random": SearcherKind(RandomSearch, "uniform, without replacement"),
    "evolution": SearcherKind(RegularizedEvolution, "Real et al. 2019, population 50, tournament 10"),
    "autoformer": SearcherKind(AutoFormerEvolution, "Chen et al. 2021, 20 generations of 50 after a random one"),
}


def make_searcher(name: str, space: Space[X], rng: Random) -> Searcher[X]:
    """A searcher of the registry with its default settings.

    Raises: ValueError for an unknown name.
    """
    if name not in SEARCHERS:
        raise ValueError(f"there is no searcher {name!r}; choose one of {', '.join(SEARCHERS)}.")
    return SEARCHERS[name].make(space, rng)


def _value(member: tuple[float, object]) -> float:
    return member[0]
