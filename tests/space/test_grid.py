"""The closed grid: size, formulas, steps that never leave it and never stand still."""

import random
from collections import Counter, defaultdict

import pytest

from attnbench.errors import InvalidGraph
from attnbench.space.grid import GRID_AXES, Cell, cell_graph, cell_key, cells, crossover, mutate, neighbours
from attnbench.space.parse import parse

FORMULAS = {
    ("i3n2", "none", "none", "none", "none", "none"): "v @ (q.T @ k).T",
    ("i3n2", "none", "l2norm_tokens", "none", "l2norm_tokens", "softmax"): (
        "v @ softmax(l2norm(q, axis=-2).T @ l2norm(k, axis=-2)).T"
    ),
    ("i3n301", "relu", "none", "elu1", "l2norm", "l2norm"): (
        "(v @ l2norm(relu(q).T @ l2norm(elu1(k))).T) @ l2norm(relu(q).T @ l2norm(elu1(k)))"
    ),
    ("i3n302", "relu", "l2norm", "none", "none", "softmax"): "l2norm(relu(q)) + l2norm(v @ softmax(k.T @ v))",
    ("i3n303", "elu1", "none", "relu", "none", "none"): "q * l2norm(elu1(q) @ (relu(k).T @ v))",
    ("i3n304", "none", "none", "none", "l2norm_tokens", "none"): "v * l2norm(q @ (l2norm(k, axis=-2).T @ v))",
    ("i3n305", "relu", "none", "elu1", "none", "softmax"): "(relu(q) * v) @ softmax(elu1(k).T @ v)",
    ("linear", "elu1", "none", "elu1", "none", "none"): "elu1(q) @ (elu1(k).T @ v)",
}


def test_there_are_1701_cells_in_a_fixed_order():
    assert len(cells()) == len(set(cells())) == 7 * 3**5 == 1701
    assert cells()[0] == ("i3n2", "none", "none", "none", "none", "none")
    assert cells()[1].middle == "softmax"
    assert cells()[-1] == ("linear", "elu1", "l2norm_tokens", "elu1", "l2norm_tokens", "l2norm")


@pytest.mark.parametrize(("coordinates", "formula"), FORMULAS.items(), ids=lambda x: x if isinstance(x, str) else x[0])
def test_a_cell_is_its_formula(coordinates, formula):
    assert cell_graph(Cell(*coordinates)) == parse(formula)


def test_every_cell_uses_q_k_and_v_and_is_linear():
    assert {(cell_graph(cell).inputs, cell_graph(cell).complexity) for cell in cells()} == {
        (frozenset("qkv"), "O(N)"),
    }


def test_steps_stay_in_the_grid_and_change_the_function():
    rng = random.Random(0)
    for _ in range(60):
        a, b = rng.choice(cells()), rng.choice(cells())
        near = neighbours(a)
        keys = [cell_key(cell) for cell in near]
        assert len(set(keys)) == len(keys) <= 16
        assert cell_key(a) not in keys
        assert all(sum(x != y for x, y in zip(a, cell, strict=True)) == 1 for cell in near)
        assert mutate(a, rng) in near
        child = crossover(a, b, rng)
        assert cell_key(child) not in (cell_key(a), cell_key(b))
        assert all(level in GRID_AXES[axis] for axis, level in child._asdict().items())


def test_a_child_mixes_its_parents():
    a, b = Cell("i3n2", *["none"] * 5), Cell("i3n303", "relu", "l2norm", "elu1", "l2norm", "softmax")
    rng = random.Random(1)
    children = {crossover(a, b, rng) for _ in range(50)}
    assert len(children) > 20
    assert all(level in pair for child in children for level, pair in zip(child, zip(a, b, strict=True), strict=True))


def test_twins_still_have_a_child():
    cell = Cell("i3n303", "relu", "l2norm", "elu1", "l2norm", "softmax")
    assert crossover(cell, cell, random.Random(0)) in neighbours(cell)


def test_steps_repeat_with_their_seed():
    assert mutate(cells()[5], random.Random(3)) == mutate(cells()[5], random.Random(3))


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (Cell("i3n9", *["none"] * 5), "family='i3n9' does not exist; choose from i3n2, i3n301"),
        (Cell("i3n2", "none", "none", "none", "none", "max"), "middle='max' does not exist"),
        (("i3n2", "none"), "six coordinates"),
        (None, "six coordinates"),
    ],
)
def test_unknown_coordinates_are_named(cell, message):
    with pytest.raises(InvalidGraph, match=message):
        cell_graph(cell)


def test_equal_cells_share_a_key():
    """Golden: 1,368 functions, and 333 cells that repeat one."""
    groups = defaultdict(list)
    for cell in cells():
        groups[cell_key(cell)].append(cell)
    assert len(groups) == 1368
    assert Counter(map(len, groups.values())) == {1: 1071, 2: 279, 4: 18}
    # Unit columns of q do not show where rows of q.T @ k are made unit rows.
    a = Cell("i3n2", "none", "none", "none", "none", "l2norm")
    assert groups[cell_key(a)] == [a, a._replace(q_norm="l2norm_tokens")]
    # Nor do unit rows of q where the rows of the result are.
    b = Cell("i3n303", "relu", "none", "elu1", "none", "softmax")
    assert groups[cell_key(b)] == [b, b._replace(q_norm="l2norm")]
