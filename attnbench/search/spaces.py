"""What a searcher needs to know of a finite space, and the space of all combinations of categorical coordinates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Protocol, TypeVar

X = TypeVar("X")
Cell = tuple[str, ...]


class Space(Protocol[X]):
    """A finite space of candidates; candidates with one key are the same function."""

    @property
    def keys(self) -> Collection[str]:
        """Every function's key, in an order that never varies."""
        ...

    def __len__(self) -> int:
        """Number of distinct functions."""
        ...

    def key(self, x: X) -> str:
        """Canonical key of a candidate's function."""
        ...

    def sample(self, rng: Random) -> X:
        """A random candidate; where the space does not say otherwise, every function equally likely."""
        ...

    def neighbours(self, x: X) -> Sequence[X]:
        """Candidates one change away, one for each other function, in an order that never varies."""
        ...

    def mutate(self, x: X, rng: Random) -> X:
        """A candidate one random change away that is another function."""
        ...

    def crossover(self, a: X, b: X, rng: Random) -> X | None:
        """A child that has every coordinate from either parent; None where the two give no candidate of the space."""
        ...


class CategoricalSpace:
    """Cells of categorical coordinates, such as the closed grid: a cell is a tuple of values, one per axis.

    Cells may share a key. A change is one coordinate set to another value of its axis. The space may be any part of
    the full product; a change that leads outside it is not offered. It depends on its cells alone, not on the order
    in which they came.
    """

    def __init__(self, cells: Mapping[Cell, str]):
        if not cells:
            raise ValueError("a space needs at least one cell; the mapping of cells to keys is empty.")
        widths = {len(cell) for cell in cells}
        if len(widths) > 1:
            raise ValueError(f"cells have {sorted(widths)} coordinates; give every cell the same axes.")
        # Sorted, so that one seed means one search whatever the row order of a table.
        self._key = {cell: cells[cell] for cell in sorted(cells)}
        self._cells: dict[str, list[Cell]] = {}
        for cell, key in self._key.items():
            self._cells.setdefault(key, []).append(cell)
        self._functions = list(self._cells)
        self._values = [tuple(dict.fromkeys(sorted(values))) for values in zip(*self._key, strict=True)]
        self._moves: dict[Cell, list[list[Cell]]] = {}

    def __len__(self) -> int:
        return len(self._functions)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell, sorted."""
        return tuple(self._key)

    @property
    def keys(self) -> tuple[str, ...]:
        """Every function's key, in an order that never varies."""
        return tuple(self._functions)

    def key(self, x: Cell) -> str:
        """Raises: ValueError for a cell outside the space."""
        try:
            return self._key[x]
        except (KeyError, TypeError):
            raise ValueError(f"{x!r} is not one of the {len(self._key)} cells of this space.") from None

    def sample(self, rng: Random) -> Cell:
        return rng.choice(self._cells[rng.choice(self._functions)])

    def neighbours(self, x: Cell) -> tuple[Cell, ...]:
        first_of: dict[str, Cell] = {}
        for moves in self._changes(x):
            for cell in moves:
                first_of.setdefault(self._key[cell], cell)
        return tuple(first_of.values())

    def mutate(self, x: Cell, rng: Random) -> Cell:
        """One coordinate, any that can lead to another function, set to another value that does.

        A cell without such a neighbour, which the closed grid has none of, is answered with a random other function.
        Raises: ValueError where the space holds one function only.
        """
        changes = self._changes(x)
        if changes:
            return rng.choice(rng.choice(changes))
        if len(self) == 1:
            raise ValueError("a space of one function has no mutation; add cells of other functions.")
        while True:
            other = self.sample(rng)
            if self._key[other] != self._key[x]:
                return other

    def crossover(self, a: Cell, b: Cell, rng: Random) -> Cell | None:
        """Each coordinate from either parent with chance 1/2; None where that cell lies outside the space."""
        child = tuple(rng.choice(pair) for pair in zip(a, b, strict=True))
        return child if child in self._key else None

    def restricted_to(self, keys: Collection[str]) -> CategoricalSpace:
        """The part of the space whose functions have one of these keys, such as those already measured.

        Raises: ValueError where nothing is left.
        """
        wanted = frozenset(keys)
        cells = {cell: key for cell, key in self._key.items() if key in wanted}
        if not cells:
            raise ValueError(f"none of the {len(wanted)} keys is a function of this space of {len(self)}.")
        return CategoricalSpace(cells)

    def _changes(self, x: Cell) -> list[list[Cell]]:
        """Per axis, the cells that differ from x there alone and are another function; axes without any left out."""
        known = self._moves.get(x)
        if known is None:
            own, known = self.key(x), []
            for axis, values in enumerate(self._values):
                moved = [(*x[:axis], value, *x[axis + 1 :]) for value in values]
                others = [cell for cell in moved if self._key.get(cell, own) != own]
                if others:
                    known.append(others)
            self._moves[x] = known
        return known
