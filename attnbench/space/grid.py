"""The closed grid: a full factorial of 1,701 cells in which every step of a search is a look-up.

A cell has six coordinates. A(q) = norm(activation(q)) is the query side, B(k) the key side, and the middle M acts on
axis -1 of the d×d product. Changing or mixing coordinates never leaves the grid. Different cells may be one function;
they share a key.
"""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

from attnbench.errors import InvalidGraph
from attnbench.space.graph import Graph
from attnbench.space.parse import parse


class Cell(NamedTuple):
    """Coordinates of one cell; `GRID_AXES` lists each one's levels."""

    family: str
    q_activation: str
    q_norm: str
    k_activation: str
    k_norm: str
    middle: str


_ACTIVATIONS = ("none", "relu", "elu1")
_NORMS = ("none", "l2norm", "l2norm_tokens")
GRID_AXES = MappingProxyType(
    {
        "family": ("i3n2", "i3n301", "i3n302", "i3n303", "i3n304", "i3n305", "linear"),
        "q_activation": _ACTIVATIONS,
        "q_norm": _NORMS,
        "k_activation": _ACTIVATIONS,
        "k_norm": _NORMS,
        "middle": ("none", "softmax", "l2norm"),
    }
)

# Six dataflows of AttnZero's types and the classical linear form. {product} is A(q).T @ B(k), {state} M(B(k).T @ v).
_FAMILIES = {
    "i3n2": "v @ {middle_product}.T",
    "i3n301": "(v @ {middle_product}.T) @ l2norm({product})",
    "i3n302": "{a} + l2norm(v @ {state})",
    "i3n303": "q * l2norm({a} @ {state})",
    "i3n304": "v * l2norm({a} @ {state})",
    "i3n305": "({a} * v) @ {state}",
    "linear": "{a} @ {state}",
}
_NORM_CALLS = {"none": "{}", "l2norm": "l2norm({})", "l2norm_tokens": "l2norm({}, axis=-2)"}


@lru_cache(maxsize=1)
def cells() -> tuple[Cell, ...]:
    """All 1,701 cells in their fixed order: the last coordinate changes fastest."""
    return tuple(Cell(*levels) for levels in product(*GRID_AXES.values()))


def cell_graph(cell: Cell | tuple[str, ...]) -> Graph:
    """The graph of one cell. Raises: InvalidGraph, naming the coordinate."""
    return _graph(_checked(cell))


def cell_key(cell: Cell | tuple[str, ...]) -> str:
    """The key of a cell's function; equal cells share it. Raises: InvalidGraph, naming the coordinate."""
    return _graph(_checked(cell)).key


def neighbours(cell: Cell) -> tuple[Cell, ...]:
    """The other functions one coordinate away: one cell per key, never this cell's own key; at most 16."""
    cell = _checked(cell)
    near = [cell._replace(**{axis: level}) for axis, levels in GRID_AXES.items() for level in levels]
    return _distinct(near, {cell_key(cell)})


def mutate(cell: Cell, rng: random.Random) -> Cell:
    """A random neighbour: one coordinate changed, and a different function."""
    return rng.choice(neighbours(cell))


def crossover(a: Cell, b: Cell, rng: random.Random) -> Cell:
    """A random mixture of two cells' coordinates that is neither parent's function.

    Parents one coordinate apart have no such child; then a mutant of one of them is drawn.
    """
    a, b = _checked(a), _checked(b)
    mixed = [Cell(*levels) for levels in product(*(dict.fromkeys(pair) for pair in zip(a, b, strict=True)))]
    children = _distinct(mixed, {cell_key(a), cell_key(b)})
    return rng.choice(children) if children else mutate(rng.choice((a, b)), rng)


def _distinct(candidates: list[Cell], taken: set[str]) -> tuple[Cell, ...]:
    """The first cell of every key that is not taken, in order."""
    found: dict[str, Cell] = {}
    for cell in candidates:
        key = cell_key(cell)
        if key not in taken:
            found.setdefault(key, cell)
    return tuple(found.values())


def _checked(cell: Cell | tuple[str, ...]) -> Cell:
    cell = Cell(*cell) if isinstance(cell, tuple | list) and len(cell) == len(GRID_AXES) else cell
    if not isinstance(cell, Cell):
        raise InvalidGraph(f"a grid cell has six coordinates ({', '.join(GRID_AXES)}), got {cell!r}")
    for (axis, levels), level in zip(GRID_AXES.items(), cell, strict=True):
        if level not in levels:
            raise InvalidGraph(f"grid coordinate {axis}={level!r} does not exist; choose from {', '.join(levels)}")
    return cell


@lru_cache(maxsize=2048)
def _graph(cell: Cell) -> Graph:
    a = _side("q", cell.q_activation, cell.q_norm)
    b = _side("k", cell.k_activation, cell.k_norm)
    values = {
        "a": a,
        "product": f"{a}.T @ {b}",
        "middle_product": _middle(cell.middle, f"{a}.T @ {b}"),
        "state": _middle(cell.middle, f"{b}.T @ v"),
    }
    return parse(_FAMILIES[cell.family].format(**values))


def _side(x: str, activation: str, norm: str) -> str:
    return _NORM_CALLS[norm].format(x if activation == "none" else f"{activation}({x})")


def _middle(middle: str, x: str) -> str:
    return f"({x})" if middle == "none" else f"{middle}({x})"
