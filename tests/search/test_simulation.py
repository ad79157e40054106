"""The simulated search: budget, repeats, misses, what is hidden, regret, and equality between processes."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import deque
from dataclasses import FrozenInstanceError
from pathlib import Path
from random import Random
from statistics import fmean
from types import FunctionType

import pandas as pd
import pyarrow as pa
import pytest

from attnbench.dataset.benchmark import Benchmark
from attnbench.errors import NotInBenchmark
from attnbench.search.measurements import MeasuredRun, Measurements
from attnbench.search.replay import grid_space, replay
from attnbench.search.searchers import SEARCHERS, make_searcher
from attnbench.search.simulation import Answer, BudgetSpent, Simulation
from attnbench.search.spaces import CategoricalSpace
from attnbench.space.grid import GRID_AXES
from tests.dataset import tiny
from tests.search.grids import small_measurements, small_runs, small_space


@pytest.mark.parametrize("name", SEARCHERS)
def test_budget_counts_new_functions_and_repeats_are_free(name: str) -> None:
    trace = replay(small_space(), small_measurements(), name, budget=40, search_seeds=[0])[0]
    new = [e for e in trace.evaluations if not e.is_repeat]
    assert len(new) == len({e.key for e in trace.evaluations}) == 40
    assert (trace.spent, trace.budget, trace.unit, trace.repeat_price) == (40, 40, "evaluations", 0)
    assert trace.stop_reason == "budget spent"
    assert all(e.source == "table" for e in trace.evaluations)


def test_repeats_cost_what_is_said() -> None:
    space = small_space()
    cells = [("x", "none", "none", "none"), ("x", "none", "none", "softmax")]
    for price, spent in ((0, 2.0), (0.25, 2.5), (1, 4.0)):
        simulation = Simulation(space, small_measurements(), budget=10, repeat_price=price)
        for cell in (cells[0], cells[1], cells[0], cells[1]):
            simulation.evaluate(cell)
        trace = simulation.finish()
        assert trace.spent == spent
        assert [e.is_repeat for e in trace.evaluations] == [False, False, True, True]


def test_equal_cells_are_one_evaluation() -> None:
    simulation = Simulation(small_space(), small_measurements(), budget=10)
    values = {simulation.evaluate(("w", "relu", "none", last)) for last in ("none", "softmax")}
    assert len(values) == 1
    assert simulation.spent == 1


def test_budget_in_seconds_stops_before_it_is_overrun() -> None:
    runs = [MeasuredRun("a", 0, 50.0, None, 2.5), MeasuredRun("b", 0, 60.0, None, 4.0)]
    space = CategoricalSpace({("a",): "a", ("b",): "b"})
    simulation = Simulation(space, Measurements(runs), budget=6.0, unit="seconds")
    assert simulation.evaluate(("a",)) == 50.0
    with pytest.raises(BudgetSpent, match=r"b costs 4 seconds, and 3\.5 of 6 are left\. finish\(\) the simulation"):
        simulation.evaluate(("b",))
    assert simulation.spent == 2.5
    trace = replay(space, Measurements(runs), "random", budget=6.5, unit="seconds", search_seeds=[0])[0]
    assert (trace.spent, trace.stop_reason) == (6.5, "nothing left to ask")


def test_sums_of_prices_do_not_fail_on_rounding() -> None:
    runs = [MeasuredRun(k, 0, 50.0, None, 0.1) for k in "abc"]
    trace = replay(
        CategoricalSpace({(k,): k for k in "abc"}), Measurements(runs), "random", budget=0.3, unit="seconds",
        search_seeds=[0],
    )[0]  # fmt: skip
    assert len(trace.evaluations) == 3


def test_searcher_sees_the_shown_seed_only() -> None:
    values = {run.key: run.val_top1_percent for run in small_runs() if run.seed == 1}
    measurements = Measurements(small_runs(), shown_seed=1)
    trace = replay(small_space(), measurements, "random", budget=20, search_seeds=[0])[0]
    assert trace.shown_seed == 1
    assert all(e.val_top1_percent == values[e.key] for e in trace.evaluations)


def test_regret_is_against_the_best_mean_of_the_other_seeds() -> None:
    runs = small_runs()
    others = {run.key: [] for run in runs}
    for run in runs:
        if run.seed != 0:
            others[run.key].append(run.val_top1_percent)
    mean = {key: fmean(values) for key, values in others.items()}
    trace = replay(small_space(), Measurements(runs), "random", budget=25, search_seeds=[3])[0]
    assert trace.reference.definition == "other seeds"
    assert trace.reference.seeds == (1, 2)
    assert trace.reference.best_key == max(mean, key=mean.get)
    assert trace.reference.n == 63
    best_seen = -math.inf
    for e in trace.evaluations:
        best_seen = max(best_seen, e.val_top1_percent)
        assert e.best_val_top1_percent == best_seen
        assert e.regret_percent == pytest.approx(max(mean.values()) - mean[e.best_key])
        assert e.regret_percent >= 0
    assert trace.regret_percent == trace.evaluations[-1].regret_percent
    tests = [run.test_top1_percent for run in runs if run.key == trace.best_key]
    assert trace.test_top1_percent == pytest.approx(fmean(tests))
    assert trace.n_test == 3


def test_regret_falls_back_to_the_shown_seed_and_says_so() -> None:
    runs = [run for run in small_runs() if run.seed == 0 or "relu" in run.key]
    measurements = Measurements(runs)
    trace = replay(small_space(), measurements, "random", budget=63, search_seeds=[0])[0]
    assert trace.reference.definition == "shown seed"
    assert trace.reference.seeds == (0,)
    assert trace.regret_percent == 0
    # Within the part that has other seeds throughout, they are used.
    part = small_space().restricted_to(measurements.has_other_seeds)
    assert replay(part, measurements, "random", budget=63, search_seeds=[0])[0].reference.definition == "other seeds"


def test_reference_is_the_best_of_the_space_searched() -> None:
    space, measurements = small_space(), small_measurements(noise=0)
    part = space.restricted_to([k for k in space.keys if "none" in k.split(".")[1]])
    trace = replay(part, measurements, "random", budget=100, search_seeds=[0])[0]
    assert trace.reference.best_key in part.keys
    assert (
        trace.reference.best_key
        != replay(space, measurements, "random", budget=1, search_seeds=[0])[0].reference.best_key
    )
    assert trace.regret_percent == 0


def reachable(root: Path) -> list[object]:
    """Everything that attributes, items and bound methods lead to, short of a function's private cells."""
    seen, queue, found = set(), [root], []
    while queue:
        item = queue.pop()
        if id(item) in seen or isinstance(item, (type, FunctionType)):
            continue
        seen.add(id(item))
        found.append(item)
        if isinstance(item, dict):
            queue += [*item.keys(), *item.values()]
        elif isinstance(item, (list, tuple, set, frozenset, deque)):
            queue += list(item)
        elif not isinstance(item, (str, bytes, int, float)):
            queue += list(getattr(item, "__dict__", {}).values())
            queue += [getattr(item, "__self__", None)]
    return found


def _number(item: object) -> float | None:
    return item if isinstance(item, float) else None


@pytest.mark.parametrize("name", SEARCHERS)
def test_nothing_hidden_can_be_reached_before_the_end(name: str) -> None:
    space, measurements = small_space(), small_measurements()
    simulation = Simulation(space, measurements, budget=20)
    searcher = make_searcher(name, space, Random(0))
    for _ in range(15):
        x = searcher.ask()
        searcher.tell(x, simulation.evaluate(x))
    hidden = {run.test_top1_percent for run in small_runs()}
    hidden |= {run.val_top1_percent for run in small_runs() if run.seed != 0}
    for root in (simulation, searcher):
        numbers = {item for item in reachable(root) if isinstance(item, float)}
        assert not numbers & hidden
    # The walk does see what is in reach: the values shown, and a leak.
    assert {e.val_top1_percent for e in simulation._evaluations} <= set(map(_number, reachable(simulation)))
    searcher.notes = [{"leak": (1000.0,)}]
    assert hidden & set(map(_number, reachable(searcher)))
    assert not any(isinstance(item, (Measurements, Simulation)) for item in reachable(searcher))
    with pytest.raises(ValueError, match="the search is not finished; finish"):
        measurements.reveal(simulation)
    assert simulation.finish().test_top1_percent in {fmean(range(1000 + 10 * i, 1003 + 10 * i)) for i in range(63)}


def test_the_end_is_the_end() -> None:
    simulation = Simulation(small_space(), small_measurements(), budget=20)
    simulation.evaluate(small_space().cells[0])
    simulation.finish()
    with pytest.raises(ValueError, match="this simulation is finished; make a new one"):
        simulation.evaluate(small_space().cells[1])


def test_trace_is_frozen_and_becomes_rows() -> None:
    trace = replay(small_space(), small_measurements(), "random", budget=5, search_seeds=[9])[0]
    with pytest.raises(FrozenInstanceError):
        trace.spent = 0
    with pytest.raises(AttributeError):
        trace.evaluations[0].spent = 0
    rows = trace.rows()
    assert [row["evaluation"] for row in rows] == [1, 2, 3, 4, 5]
    assert {row["search_seed"] for row in rows} == {9}
    assert list(pd.DataFrame(rows).columns[:5]) == ["searcher", "search_seed", "evaluation", "key", "val_top1_percent"]


def test_search_without_a_query_has_no_choice() -> None:
    trace = Simulation(small_space(), small_measurements(), budget=5).finish()
    assert (trace.best_key, trace.regret_percent, trace.test_top1_percent, trace.n_test) == (None, None, None, 0)


def test_misses_raise_by_default() -> None:
    part = Measurements([run for run in small_runs() if "relu" in run.key])
    simulation = Simulation(small_space(), part, budget=5)
    with pytest.raises(NotInBenchmark, match=r"ag1-x.none.none.none \(\('x', 'none', 'none', 'none'\)\) has no run"):
        simulation.evaluate(("x", "none", "none", "none"))


def test_misses_are_answered_by_a_callable_once_and_paid_for() -> None:
    part = Measurements([run for run in small_runs() if "relu" in run.key])
    asked = []

    def predict(cell: tuple[str, ...]) -> Answer:
        asked.append(cell)
        return Answer(99.0, "predicted", seconds=0.5)

    cell = ("x", "none", "none", "none")
    simulation = Simulation(small_space(), part, budget=5, unit="seconds", on_miss=predict)
    assert [simulation.evaluate(cell), simulation.evaluate(cell)] == [99.0, 99.0]
    trace = simulation.finish()
    assert asked == [cell]
    assert (trace.spent, trace.evaluations[0].source) == (0.5, "predicted")
    # A prediction is no measurement: it has neither regret nor a test value.
    assert (trace.best_val_top1_percent, trace.regret_percent, trace.test_top1_percent) == (99.0, None, None)
    assert trace.reference is not None


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(math.nan, "predicted"), r"with val_top1_percent = nan; give a number in \[0, 100\]"),
        (Answer(101.0, "predicted"), r"with val_top1_percent = 101.0; give a number in \[0, 100\]"),
        (Answer(50.0, "predicted", -1.0), "with seconds = -1.0; give a number from 0"),
        (Answer(50.0, "predicted", math.nan), "with seconds = nan; give a number from 0"),
    ],
)
def test_a_miss_answered_with_no_accuracy_or_no_price_is_refused(answer: Answer, message: str) -> None:
    part = Measurements([run for run in small_runs() if "relu" in run.key])
    simulation = Simulation(small_space(), part, budget=5, on_miss=lambda _: answer)
    with pytest.raises(ValueError, match=f"on_miss answered ag1-x.none.none.none {message}"):
        simulation.evaluate(("x", "none", "none", "none"))
    assert (simulation.spent, simulation.best_key) == (0, None)


def test_no_test_accuracy_of_the_survivors_among_the_seeds() -> None:
    runs = [MeasuredRun("a", 0, 50.0, 49.0), MeasuredRun("a", 1, 10.0, None), MeasuredRun("a", 2, 51.0, 50.0)]
    simulation = Simulation(CategoricalSpace({("a",): "a"}), Measurements(runs), budget=1)
    simulation.evaluate(("a",))
    trace = simulation.finish()
    assert (trace.test_top1_percent, trace.n_test) == (None, 0)


def test_a_miss_that_cannot_be_paid_for_is_not_measured() -> None:
    def measure(cell: tuple[str, ...]) -> Answer:
        raise AssertionError("measured beyond the budget")

    part = Measurements([run for run in small_runs() if "relu" in run.key])
    simulation = Simulation(small_space(), part, budget=1, on_miss=measure)
    simulation.evaluate(("x", "relu", "none", "none"))
    with pytest.raises(BudgetSpent, match=r"costs 1 evaluations, and 0 of 1 are left"):
        simulation.evaluate(("x", "none", "none", "none"))


def test_step_that_was_not_timed_has_no_price_in_seconds() -> None:
    measurements = Measurements([MeasuredRun("a", 0, 50.0)])
    simulation = Simulation(CategoricalSpace({("a",): "a"}), measurements, budget=5, unit="seconds")
    with pytest.raises(ValueError, match=r"a \(table\) has no price in seconds: its step was not timed"):
        simulation.evaluate(("a",))


def test_searcher_that_only_repeats_is_stopped() -> None:
    class Stuck:
        def ask(self) -> tuple[str, ...]:
            return small_space().cells[0]

        def tell(self, x: object, value: float) -> None: ...

    trace = Simulation(small_space(), small_measurements(), budget=2).run(Stuck())
    assert trace.stop_reason == "1000 repeated queries in a row"
    assert len(trace.evaluations) == 1001


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0}, "budget is 0; pass a positive number of evaluations"),
        ({"budget": math.nan}, "budget is nan; pass a positive number"),
        ({"budget": 5, "unit": "hours"}, 'unit is \'hours\'; a budget counts "evaluations" or simulated "seconds"'),
        ({"budget": 5, "repeat_price": -1}, "repeat_price is -1; pass a share of the full price"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Simulation(small_space(), small_measurements(), **options)


def test_runs_that_cannot_be_used_are_named() -> None:
    one = MeasuredRun("a", 0, 50.0)
    with pytest.raises(ValueError, match="a has two runs with seed 0"):
        Measurements([one, one])
    with pytest.raises(ValueError, match=r"no run has seed 3; stored seeds: \[0\]"):
        Measurements([one], shown_seed=3)
    with pytest.raises(ValueError, match="a, seed 0: val_top1_percent is nan; give a number"):
        Measurements([MeasuredRun("a", 0, math.nan)])
    for seconds in (math.nan, -1.0, math.inf):
        with pytest.raises(ValueError, match=f"a, seed 0: seconds is {seconds}; give a number from 0"):
            Measurements([MeasuredRun("a", 0, 50.0, seconds=seconds)])


class Tables(dict):
    """Stands in for a Benchmark: tables by name."""

    def table(self, name: str) -> object:
        return self[name]


def tables(kind: type) -> Tables:
    rows = [
        # key, backbone, seed, status, val_curve, val, test
        ("a", "deit", 0, "ok", [70.0, 71.0, 72.0, 73.0, 74.0], 74.0, 73.0),
        ("a", "deit", 1, "ok", [70.0, 71.0, 72.0, 73.0, 75.0], 75.0, 72.0),
        ("b", "deit", 0, "stopped", [11.0, 12.0], 12.0, None),
        ("c", "deit", 0, "diverged", [], None, None),
        ("e", "deit", 0, "diverged", [30.0], None, None),
        ("f", "deit", 0, "diverged", [30.0] * 5, None, None),
        ("a", "pvt", 0, "ok", [1.0], 1.0, 1.0),
    ]
    names = ["key", "backbone", "seed", "status", "val_curve", "val_top1_percent", "test_top1_percent"]
    runs = pd.DataFrame(rows, columns=names).assign(protocol="fmnist-micro")
    runs["protocol_hash"] = runs["backbone"]
    costs = pd.DataFrame({"key": ["a", "b", "c", "e", "f", "a"], "backbone": ["deit"] * 5 + ["pvt"]})
    costs["step_ms"] = [10.0, 20.0, None, 10.0, 10.0, 99.0]
    cells = pd.DataFrame({name: [levels[0]] * 3 for name, levels in GRID_AXES.items()} | {"key": ["a", "b", "d"]})
    cells["family"] = list(GRID_AXES["family"][:3])
    frames = {"runs": runs, "costs": costs, "cells": cells}
    convert = {"pandas": lambda f: f, "arrow": lambda f: pa.Table.from_pandas(f)}[kind]
    return Tables({name: convert(frame) for name, frame in frames.items()})


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_measurements_and_grid_come_from_a_benchmark(kind: str) -> None:
    bench = tables(kind)
    measurements = Measurements.from_benchmark(bench)
    assert measurements.value == {"a": 74.0, "b": 12.0, "c": 10.0, "e": 10.0, "f": 10.0}
    # 1,000 steps of 10 ms; stopped after 400 of 20 ms; not timed; diverged in epoch 2; diverged in the last evaluation.
    assert measurements.seconds == {"a": 10.0, "b": 8.0, "c": None, "e": 4.0, "f": 10.0}
    assert measurements.has_other_seeds == {"a"}
    assert grid_space(bench).keys == ("a", "b", "d")
    assert grid_space(bench, measured=measurements).keys == ("a", "b")


def test_benchmark_without_such_runs_is_named() -> None:
    with pytest.raises(ValueError, match="no runs of 'fmnist-micro' on 'swin'; stored: deit fmnist-micro, pvt"):
        Measurements.from_benchmark(tables("pandas"), backbone="swin")
    mixed = tables("pandas")
    mixed["runs"].loc[0, "protocol_hash"] = "older"
    with pytest.raises(ValueError, match=r"come from 2 versions of the protocol \(deit, older\)"):
        Measurements.from_benchmark(mixed)


PROGRAM = """

from tests.search.grids import small_measurements, small_space
from attnbench.search.replay import replay
for name in ("random", "evolution"):
    for trace in replay(small_space(), small_measurements(), name, budget=50, search_seeds=[0, 1]):
        print(trace)
"""


def test_two_processes_agree_exactly_whatever_the_hash_seed(root: Path) -> None:
    out = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=root, env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("0", "12345")
    ]  # fmt: skip
    assert out[0] == out[1]
    assert out[0].count("Trace(") == 4


def test_a_real_benchmark_can_be_searched(tmp_path: Path) -> None:
    bench = Benchmark(tiny.write(tmp_path / "release"))
    measurements = Measurements.from_benchmark(bench)
    space = grid_space(bench, measured=measurements)
    trace = replay(space, measurements, "random", budget=5, search_seeds=[0])[0]
    assert trace.stop_reason == "nothing left to ask"
    stored = bench.query(trace.best_key, seed=0)
    assert trace.best_val_top1_percent == stored.val_top1_percent
    assert trace.regret_percent == 0
