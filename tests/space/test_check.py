"""Static checks: linear in N, every input used, and agreement with the cost polynomials."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.errors import InvalidGraph
from attnbench.space.check import check, scan
from attnbench.space.cost import cost_of
from attnbench.space.graph import Graph, K, Q, V, build
from attnbench.space.grid import cell_graph, cells
from attnbench.space.named import named_graphs
from attnbench.space.parse import parse


def random_graph(rng: random.Random) -> Graph:
    """A random well-shaped expression with many products and transposes, often of shape (N, N) inside."""
    pool = [Q, K, V]
    while not (len(pool) > 8 and pool[-1].shape == "Nd"):
        op = rng.choice(("matmul", "matmul", "matmul", "T", "T", "softmax", "add", "mul", "scale", "sum"))
        args = [rng.choice(pool[-6:]) for _ in range(2 if op in ("matmul", "add", "mul") else 1)]
        try:
            pool.append(build(op, *args))
        except InvalidGraph:
            continue
        if len(pool) > 12:
            pool = [Q, K, V]
    return Graph(pool[-1])


@given(st.integers(0, 2**32))
def test_the_scan_agrees_with_the_cost_polynomial(seed):
    graph = random_graph(random.Random(seed))
    assert (scan(graph.root)[0] is not None) == (cost_of(graph.root).order > 1)


@pytest.mark.parametrize(
    ("formula", "reasons"),
    [
        ("softmax(q @ k.T) @ v", ["linear: time and memory grow with the square of the number of tokens: "
                                  "softmax(q @ k.T)"]),
        ("(q @ k.T) @ v", []),
        ("v @ softmax(q.T @ k).T", []),
        ("(q @ k.T) @ (v @ q.T) @ v", []),
        ("((q @ k.T) * (q @ v.T)) @ v", ["linear: time and memory grow with the square of the number of tokens: "
                                         "q @ k.T * (q @ v.T)"]),
        ("q + k", ["inputs: v not used: q + k"]),
        ("v", ["inputs: q and k not used: v"]),
        ("softmax(q @ q.T) @ q", ["linear: time and memory grow with the square of the number of tokens: "
                                  "softmax(q @ q.T)", "inputs: k and v not used: softmax(q @ q.T) @ q"]),
    ],
)  # fmt: skip
def test_reasons_name_the_sub_expression(formula, reasons):
    report = check(parse(formula))
    assert [str(reason) for reason in report.reasons] == reasons
    assert report.ok == (not reasons)
    assert report.failed_checks == tuple(reason.split(":")[0] for reason in reasons)


def test_the_grid_passes():
    assert all(check(cell_graph(cell)).ok for cell in cells()[::5])


def test_named_graphs_that_fail():
    failed = {name: check(graph).failed_checks for name, graph in named_graphs().items() if not check(graph).ok}
    assert failed == {
        "softmax": ("linear",),
        "cosine softmax": ("linear",),
        "sigmoid attention": ("linear",),
        "v": ("inputs",),
        "zeros": ("inputs",),
        "uniform": ("inputs",),
    }


def test_sharing_by_reference_is_not_unrolled():
    node = build("add", build("mul", Q, K), V)
    for _ in range(37):
        node = build("mul", node, node)
    assert check(Graph(node)).ok
