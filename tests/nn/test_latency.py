"""Time and memory of one attention alone."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
import torch

from attnbench.nn import latency as timing
from attnbench.nn.latency import SIZES, Latency, denormals_flushed, keep_freed_memory, latencies, median_ms, peak_bytes
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
    (found,) = latencies(parse(formula), [N], n_heads=HEADS, head_width=D)
    assert found.peak_bytes == 4 * values


def test_memory_inside_an_operator_counts() -> None:
    x = torch.ones(100)
    assert peak_bytes(lambda: x + (x + (x + 1))) == 2 * 400
    assert peak_bytes(lambda: x.view(10, 10).T) == 0


@pytest.mark.parametrize("name", ["softmax", "kernel linear elu1", "Trial 105"])
def test_peak_memory_grows_as_the_largest_value_does(name: str) -> None:
    graph = named_graphs()[name]
    small, large = (found.peak_bytes for found in latencies(graph, (512, 1024), n_heads=1, head_width=16))
    largest = max(step.shape.count("N") for step in program(best_order(graph.root)))
    assert large / small == pytest.approx(2**largest, rel=0.1)


def test_every_time_is_positive_and_no_random_state_is_used() -> None:
    before = torch.get_rng_state()
    found = latencies(parse("q @ (k.T @ v)"), [16, 4])
    assert [one.n_tokens for one in found] == [16, 4]
    assert all(one.latency_ms > 0 for one in found)
    assert torch.equal(before, torch.get_rng_state())


def test_denormal_numbers_are_flushed_while_it_measures_and_not_afterwards() -> None:
    tiny = torch.full((8,), 1e-30)
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot flush denormal numbers")
    with denormals_flushed():
        assert (tiny * 1e-10).eq(0).all()
    assert (tiny * 1e-10).gt(0).all()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="memory is kept in glibc only")
def test_glibc_keeps_freed_memory() -> None:
    # In a process of its own, for it cannot be taken back.
    code = "from attnbench.nn.latency import keep_freed_memory; print(keep_freed_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing.ctypes, "CDLL", lambda _: object())
    assert keep_freed_memory() is False


def test_a_batchnorm_is_measured_too() -> None:
    assert all(found.peak_bytes > 0 for found in latencies(parse("batchnorm(q)"), (4, 8), n_heads=1, head_width=2))


def test_no_tokens_are_refused() -> None:
    for sizes in ([], [0], [64, -1]):
        with pytest.raises(ValueError, match=rf"sizes = \[{', '.join(map(str, sizes))}\]: an attention needs at least"):
            latencies(parse("v"), sizes)


def test_a_disturbance_spoils_no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each size is disturbed in another round; in one round, all are.
    disturbed = {(0, 0), (1, 1), (2, 2), (3, 3), (4, 0), (4, 1), (4, 2), (4, 3)}
    calls = iter([(n_round, i) for n_round in range(5) for i in range(4)])

    def made_up(_: object) -> float:
        n_round, i = next(calls)
        return i + 1.0 + 20 * ((n_round, i) in disturbed)

    monkeypatch.setattr(timing, "median_ms", made_up)
    found = latencies(parse("v"))
    assert found == [Latency(n, ms, 0) for n, ms in zip(SIZES, (1.0, 2.0, 3.0, 4.0), strict=True)]
    assert next(calls, None) is None


def test_a_round_takes_the_median_of_its_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter([0.0, 0.001, 1.0, 1.009, 2.0, 2.002])  # passes of 1, 9 and 2 ms
    monkeypatch.setattr(timing.time, "thread_time", lambda: next(ends))
    assert median_ms(lambda: torch.zeros(())) == pytest.approx(2.0)


def test_values_that_are_let_go_are_not_needed_later() -> None:
    q, k, v = torch.randn(3, 2, HEADS, N, D, dtype=torch.float64)
    for graph in named_graphs().values():
        module = compile_graph(graph)
        keeping = compile_graph(graph)
        keeping.spent = [[] for _ in keeping.steps]
        torch.testing.assert_close(module(q, k, v), keeping(q, k, v), rtol=0, atol=0)
