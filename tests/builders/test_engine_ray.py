"""Units on Ray: the same rows as in this process, each once, through a worker that is killed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import engine_ray
from builders.engine import Cluster, SetupFailed, run_units
from builders.engine_ray import require_answer, start
from builders.shards import read_shards
from builders.train import arguments, main, run_campaign
from tests.builders.test_engine import refuse, refuse_odd
from tests.builders.training_process import DEADLY_SEED, runs, small_runs

ray = pytest.importorskip("ray")

CHANGING = ("train_seconds", "finished_at", "code_version")  # the last with every commit


@pytest.fixture(scope="module", autouse=True)
def cluster(root: Path) -> Iterator[None]:
    """One Ray for all tests of this module: it takes seconds to start."""
    start(Cluster(), workers=2)
    yield
    ray.shutdown()


def trained(data: Path, *options: str, already_died: bool = False) -> list[dict[str, Any]]:
    """Six runs through the builder. Returns: their rows without what differs from one try to the next."""
    (data / "marks").mkdir(parents=True)
    if already_died:
        (data / "marks" / f"{DEADLY_SEED}-0-0").touch()
    args = arguments(["--data", str(data), "--dataset", str(data / "marks"), *options])
    with small_runs():
        assert run_campaign(runs(6), args) == 0
    rows = sorted(read_shards(data, "runs").to_pylist(), key=lambda row: row["seed"])
    return [{name: value for name, value in row.items() if name not in CHANGING} for row in rows]


def test_six_units_on_two_workers_one_of_them_killed_give_the_rows_of_this_process(tmp_path: Path) -> None:
    on_ray = trained(tmp_path / "ray", "--engine", "ray", "--workers", "2")
    tries = [path.name.split("-") for path in (tmp_path / "ray" / "marks").iterdir()]
    assert sorted(int(seed) for seed, _, _ in tries) == sorted([*range(6), DEADLY_SEED])  # one was tried twice
    assert len({process for _, _, process in tries}) > 1
    assert str(os.getpid()) not in {process for _, _, process in tries}
    assert [row["seed"] for row in on_ray] == list(range(6))
    assert on_ray == trained(tmp_path / "here", "--workers", "0", already_died=True)
    assert len({row["val_loss"] for row in on_ray}) == 6


def test_a_failing_unit_is_its_own_result(tmp_path: Path) -> None:
    done = {d.unit: d for d in run_units(range(4), refuse_odd, workers=2, engine="ray")}
    assert {u: d.result for u, d in done.items()} == {0: 0, 1: None, 2: 2, 3: None}
    assert isinstance(done[3].error, ValueError)
    assert str(done[3].error) == "3 is odd"


def test_a_failing_setup_stops_everything_and_says_why() -> None:
    with pytest.raises(SetupFailed, match="ValueError: no images here"):
        list(run_units(range(3), refuse_odd, workers=1, setup=refuse, engine="ray"))


def test_no_unit_starts_after_the_deadline() -> None:
    assert list(run_units(range(3), refuse_odd, workers=1, until=time.monotonic() - 1, engine="ray")) == []


def test_a_unit_that_no_node_can_hold_is_refused() -> None:
    with pytest.raises(
        SetupFailed, match=r"a unit asks for 1 CPUs and 2 GPUs, which no node of the cluster has \(2 CPU"
    ):
        list(run_units(range(3), refuse_odd, workers=1, engine="ray", cluster=Cluster(gpus=2)))


def test_ray_needs_workers() -> None:
    with pytest.raises(ValueError, match="it was given 0, pass 1 or more"):
        list(run_units(range(3), refuse_odd, workers=0, engine="ray"))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1", "127.0.0.1:port", "127.0.0.1:99999"])
def test_an_address_at_which_nothing_answers_is_named(address: str) -> None:
    with pytest.raises(
        SetupFailed, match=f"no Ray cluster answers at '{address}' .*Pass the host:port that `ray start"
    ):
        require_answer(address)


def test_the_builder_says_so_and_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    (tmp_path / "graphs.txt").write_text("q @ (k.T @ v)")
    options = ["--data", str(tmp_path), "--graphs", str(tmp_path / "graphs.txt"), "--backbone", "deit"]
    assert main([*options, "--engine", "ray", "--address", "127.0.0.1:1"]) == 1
    assert "error: no Ray cluster answers at '127.0.0.1:1'" in capsys.readouterr().err


def test_a_cluster_that_lets_nobody_in_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_token(**_: Any) -> None:
        raise ConnectionError("Failed to connect to Ray cluster")

    monkeypatch.setattr(engine_ray, "require_answer", lambda address: None)
    monkeypatch.setattr(ray, "init", refuse_token)
    with pytest.raises(
        SetupFailed, match=r"the Ray cluster at 10\.0\.0\.1:6379 cannot be joined: Failed .*RAY_AUTH_MODE"
    ):
        start(Cluster("10.0.0.1:6379"), workers=1)
    with pytest.raises(ConnectionError):
        start(Cluster(), workers=1)


def test_ray_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SetupFailed, match=r"Ray is not installed; `pip install 'attnbench\[cluster\]'`"):
        list(run_units(range(3), refuse_odd, workers=1, engine="ray"))


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown engine 'slurm'; known: processes, ray"):
        list(run_units(range(3), refuse_odd, workers=1, engine="slurm"))
