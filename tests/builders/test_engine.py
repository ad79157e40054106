"""Units run once each, on any number of workers, through failing and dying workers."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from builders.engine import SetupFailed, run_units

state: dict[str, int] = {}


def remember(number: int) -> None:
    state["number"] = number


def square(unit: int) -> int:
    return unit * unit + state.get("number", 0)


def refuse_odd(unit: int) -> int:
    if unit % 2:
        raise ValueError(f"{unit} is odd")
    return unit


def die_once(path: Path) -> str:
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return path.name


def die(unit: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return unit


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_each_unit_runs_once_after_setup(workers: int) -> None:
    done = list(run_units(range(7), square, workers=workers, setup=remember, setup_args=(100,)))
    assert sorted(d.unit for d in done) == list(range(7))
    assert {d.unit: d.result for d in done} == {i: i * i + 100 for i in range(7)}
    state.clear()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failing_unit_is_reported_and_the_others_go_on(workers: int) -> None:
    done = {d.unit: d for d in run_units(range(5), refuse_odd, workers=workers)}
    assert [u for u, d in done.items() if d.error is None] == [0, 2, 4] or workers
    assert str(done[3].error) == "3 is odd"
    assert {u: d.result for u, d in done.items()} == {0: 0, 1: None, 2: 2, 3: None, 4: 4}


def test_units_of_a_killed_worker_run_again(tmp_path: Path) -> None:
    units = [tmp_path / str(i) for i in range(4)]
    for path in units[1:]:
        path.touch()  # only the first kills its worker
    done = list(run_units(units, die_once, workers=2))
    assert sorted(d.result for d in done) == ["0", "1", "2", "3"]
    assert all(d.error is None for d in done)


def test_a_pool_found_broken_at_the_next_start_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    submit = ProcessPoolExecutor.submit
    calls: list[int] = []

    def breaks_at_the_third(pool: ProcessPoolExecutor, *args: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            raise BrokenProcessPool("a worker died")
        return submit(pool, *args)

    monkeypatch.setattr(ProcessPoolExecutor, "submit", breaks_at_the_third)
    done = list(run_units(range(5), square, workers=1))
    assert sorted(d.result for d in done) == [0, 1, 4, 9, 16]


def test_a_unit_that_kills_every_worker_is_given_up() -> None:
    (done,) = run_units([1], die, workers=1)
    assert done.error is not None
    assert done.result is None


def test_no_unit_starts_after_the_deadline() -> None:
    assert list(run_units(range(3), square, workers=0, until=time.monotonic() - 1)) == []
    assert list(run_units(range(3), square, workers=1, until=time.monotonic() - 1)) == []


def refuse() -> None:
    raise ValueError("no images here")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_failing_setup_stops_everything_and_says_why(workers: int) -> None:
    with pytest.raises(SetupFailed, match="ValueError: no images here"):
        list(run_units(range(3), square, workers=workers, setup=refuse))
