"""AutoFormer's evolution: mutants and children of the ten best so far, every candidate new."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Generic

from attnbench.search.spaces import Space, X

MAX_PAIRS = 50


class AutoFormerEvolution(Generic[X]):
    """Generations of mutants and crossover children of the best of all generations, filled up with random candidates.

    population_size: candidates of a generation. n_generations: after the first, random one. n_parents: the best of all
    values told so far, the first told among equals. n_mutants, n_children: at most so many a generation; max_tries
    proposals are made for each, as many are no candidate or not new. No candidate is asked for twice.
    Parents of one try are drawn anew, up to 50 times, until they can be crossed: in an AutoFormer space, until their
    depths are equal. Chances of a mutation belong to the space. A generation of fewer is bred where no more can be
    found, and none where nothing was told. NaN counts as the worst value.
    The released code evaluates its last generation and never ranks it; here whatever is told is ranked.
    Raises: ValueError for numbers that leave nothing to do.
    Source: AutoFormer, Chen et al. 2021, section 3.3 and its released code: 50 + 20 x 50 = 1,050 evaluations.
    """

    def __init__(
        self,
        space: Space[X],
        rng: Random,
        *,
        population_size: int = 50,
        n_generations: int = 20,
        n_parents: int = 10,
        n_mutants: int = 25,
        n_children: int = 25,
        max_tries: int = 10,
    ):
        for name, n, least in (
            ("population_size", population_size, 1),
            ("n_generations", n_generations, 0),
            ("n_parents", n_parents, 1),
            ("n_mutants", n_mutants, 0),
            ("n_children", n_children, 0),
            ("max_tries", max_tries, 1),
        ):
            if n < least:
                raise ValueError(f"{name} = {n}; expected a whole number from {least}.")
        if n_mutants + n_children > population_size:
            raise ValueError(
                f"n_mutants = {n_mutants} and n_children = {n_children} are more than population_size = "
                f"{population_size}; a generation holds both."
            )
        self._space, self._rng = space, rng
        self._population_size, self._n_parents = population_size, n_parents
        self._n_mutants, self._n_children, self._max_tries = n_mutants, n_children, max_tries
        self._generations_left = n_generations + 1
        self._seen: set[str] = set()
        self._waiting: deque[X] = deque()
        self._best: list[tuple[float, X]] = []

    @property
    def parents(self) -> tuple[X, ...]:
        """The best candidates told so far, best first."""
        return tuple(x for _, x in self._best)

    def ask(self) -> X | None:
        if not self._waiting and self._generations_left:
            self._waiting.extend(self._first() if not self._seen else self._next())
            self._generations_left -= 1
        return self._waiting.popleft() if self._waiting else None

    def tell(self, x: X, value: float) -> None:
        self._best.append((-math.inf if math.isnan(value) else value, x))
        self._best.sort(key=lambda member: -member[0])  # stable: the first told stays in front
        del self._best[self._n_parents :]

    def _first(self) -> list[X]:
        return self._new(self._population_size, self._draw, tries=self._population_size * 100)

    def _next(self) -> list[X]:
        if not self._best:
            return []
        bred = self._new(self._n_mutants, self._mutant, tries=self._n_mutants * self._max_tries)
        bred += self._new(self._n_children, self._child, tries=self._n_children * self._max_tries)
        return bred + self._new(self._population_size - len(bred), self._draw, tries=self._population_size * 100)

    def _new(self, n: int, propose: Callable[[], X | None], *, tries: int) -> list[X]:
        """Up to n proposals that were never made before."""
        found: list[X] = []
        for _ in range(tries):
            if len(found) == n or len(self._seen) >= len(self._space):
                break
            x = propose()
            if x is not None and self._space.key(x) not in self._seen:
                self._seen.add(self._space.key(x))
                found.append(x)
        return found

    def _draw(self) -> X:
        return self._space.sample(self._rng)

    def _mutant(self) -> X:
        return self._space.mutate(self._rng.choice(self._best)[1], self._rng)

    def _child(self) -> X | None:
        for _ in range(MAX_PAIRS):
            a, b = (self._rng.choice(self._best)[1] for _ in range(2))
            child = self._space.crossover(a, b, self._rng)
            if child is not None:
                return child
        return None
