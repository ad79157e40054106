"""The space of categorical coordinates: changes, equal cells, parts of it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from attnbench.search.spaces import CategoricalSpace
from tests.search.grids import AXES, cell_key, small_space


def distance(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    return sum(x != y for x, y in zip(a, b, strict=True))


def test_neighbours_are_exactly_the_other_functions_one_coordinate_away() -> None:
    space = small_space()
    assert (len(space.cells), len(space), len(space.keys)) == (72, 63, 63)
    for cell in space.cells:
        near = space.neighbours(cell)
        expected = {cell_key(c) for c in space.cells if distance(c, cell) == 1} - {cell_key(cell)}
        assert {space.key(c) for c in near} == expected
        assert len(near) == len(expected)
        assert all(distance(c, cell) == 1 for c in near)


def test_mutation_reaches_every_neighbour_and_never_the_same_function() -> None:
    space, rng = small_space(), Random(1)
    for cell in (("w", "none", "none", "none"), ("x", "relu", "l2norm", "softmax")):
        mutants = [space.mutate(cell, rng) for _ in range(2000)]
        assert all(distance(m, cell) == 1 and space.key(m) != space.key(cell) for m in mutants)
        assert {space.key(m) for m in mutants} == {space.key(n) for n in space.neighbours(cell)}


def test_mutation_takes_each_coordinate_that_matters_equally_often() -> None:
    space, rng = small_space(), Random(2)
    cell = ("x", "relu", "l2norm", "softmax")
    axis: Counter[int] = Counter()
    for _ in range(4000):
        moved = space.mutate(cell, rng)
        axis[next(i for i in range(4) if moved[i] != cell[i])] += 1
    assert all(900 < axis[i] < 1100 for i in range(4))


def test_samples_make_every_function_equally_likely_however_many_cells_it_has() -> None:
    space, rng = small_space(), Random(3)
    drawn = Counter(space.key(space.sample(rng)) for _ in range(63 * 200))
    assert set(drawn) == set(space.keys)
    chi_square = sum((n - 200) ** 2 / 200 for n in drawn.values())
    assert chi_square < 103  # the 0.999 quantile with 62 degrees of freedom


def test_order_of_cells_does_not_matter() -> None:
    cells = {cell: cell_key(cell) for cell in small_space().cells}
    backwards = CategoricalSpace(dict(reversed(cells.items())))
    assert backwards.keys == small_space().keys
    one, two = Random(4), Random(4)
    assert [backwards.sample(one) for _ in range(50)] == [small_space().sample(two) for _ in range(50)]


def test_restriction_keeps_changes_inside() -> None:
    space = small_space()
    part = space.restricted_to([k for k in space.keys if "relu" in k] + ["ag1-elsewhere"])
    assert all(cell[1] == "relu" for cell in part.cells)
    assert all(n[1] == "relu" for cell in part.cells for n in part.neighbours(cell))


def test_isolated_cell_mutates_to_a_random_other_function() -> None:
    space = CategoricalSpace({("a", "a"): "1", ("b", "b"): "2", ("c", "c"): "3"})
    assert space.neighbours(("a", "a")) == ()
    assert {space.mutate(("a", "a"), Random(i)) for i in range(20)} == {("b", "b"), ("c", "c")}


def test_wrong_use_is_named() -> None:
    with pytest.raises(ValueError, match="a space needs at least one cell"):
        CategoricalSpace({})
    with pytest.raises(ValueError, match=r"cells have \[1, 2\] coordinates; give every cell the same axes"):
        CategoricalSpace({("a",): "1", ("a", "b"): "2"})
    with pytest.raises(ValueError, match=r"\('v',\) is not one of the 72 cells"):
        small_space().key(("v",))
    with pytest.raises(ValueError, match=r"\['x'\] is not one of the 72 cells"):
        small_space().key(["x"])
    with pytest.raises(ValueError, match="a space of one function has no mutation"):
        CategoricalSpace({("a",): "1", ("b",): "1"}).mutate(("a",), Random(0))
    with pytest.raises(ValueError, match="none of the 1 keys is a function of this space of 63"):
        small_space().restricted_to(["ag1-elsewhere"])


def test_axes_are_those_of_the_cells() -> None:
    cell = tuple(axis[0] for axis in AXES)
    one_away = {c for c in small_space().cells if distance(c, cell) == 1}
    assert len(one_away) == sum(len(axis) - 1 for axis in AXES)
