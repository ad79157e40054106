"""Time and memory of one attention alone."""

from __future__ import annotations

import pytest
import torch

from attnbench.nn.latency import denormals_flushed, latency, peak_bytes
from attnbench.nn.operators import compile_graph
from attnbench.space.cost import best_order
from attnbench.space.graph import program
from attnbench.space.named import named_graphs
from attnbench.space.parse import parse

N, D, HEADS = 48, 8, 2


@pytest.mark.parametrize(
    ("formula", "values"),
    [
        ("v", 0),  # nothing is made
        ("q + k", HEADS * N * D),
        ("relu(q) + k", 2 * HEADS * N * D),
        ("relu(relu(relu(q)) + k)", 2 * HEADS * N * D),  # what was used last is let go
        ("q @ (k.T @ v)", HEADS * (D * D + N * D)),
        ("sigmoid(q @ k.T) @ v", HEADS * 2 * N * N),  # scores beside their sigmoid; the result comes later
    ],
)
def test_peak_memory_by_hand(formula: str, values: int) -> None:
    assert latency(parse(formula), N, n_heads=HEADS, head_width=D).peak_bytes == 4 * values


def test_memory_inside_an_operator_counts() -> None:
    x = torch.ones(100)
    assert peak_bytes(lambda: x + (x + (x + 1))) == 2 * 400
    assert peak_bytes(lambda: x.view(10, 10).T) == 0


@pytest.mark.parametrize("name", ["softmax", "kernel linear elu1", "Trial 105"])
def test_peak_memory_grows_as_the_largest_value_does(name: str) -> None:
    graph = named_graphs()[name]
    small, large = (latency(graph, n, n_heads=1, head_width=16).peak_bytes for n in (512, 1024))
    largest = max(step.shape.count("N") for step in program(best_order(graph.root)))
    assert large / small == pytest.approx(2**largest, rel=0.1)


def test_every_time_is_positive_and_no_random_state_is_used() -> None:
    before = torch.get_rng_state()
    found = latency(parse("q @ (k.T @ v)"), 16)
    assert found.n_tokens == 16
    assert found.latency_ms > 0
    assert torch.equal(before, torch.get_rng_state())


def test_denormal_numbers_are_flushed_while_it_measures_and_not_afterwards() -> None:
    tiny = torch.full((8,), 1e-30)
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot flush denormal numbers")
    with denormals_flushed():
        assert (tiny * 1e-10).eq(0).all()
    assert (tiny * 1e-10).gt(0).all()


def test_a_batchnorm_is_measured_too() -> None:
    assert latency(parse("batchnorm(q)"), 4, n_heads=1, head_width=2).peak_bytes > 0


def test_no_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="n_tokens = 0: an attention needs at least one token"):
        latency(parse("v"), 0)


def test_values_that_are_let_go_are_not_needed_later() -> None:
    q, k, v = torch.randn(3, 2, HEADS, N, D, dtype=torch.float64)
    for graph in named_graphs().values():
        module = compile_graph(graph)
        keeping = compile_graph(graph)
        keeping.spent = [[] for _ in keeping.steps]
        torch.testing.assert_close(module(q, k, v), keeping(q, k, v), rtol=0, atol=0)
