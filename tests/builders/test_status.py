"""What the report counts, and how it tells the time that is left."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from attnbench.nn.frozen import run_hash
from builders import status
from builders.shards import read_shards, write_shard
from builders.status import last_sitting
from tests.dataset import tiny

HASH = run_hash("fmnist-micro", "deit")


def measured(text: str, seed: int, outcome: Any, minute: int, **changes: Any) -> dict[str, Any]:
    stamp = f"2026-11-30T10:{minute:02}:00+00:00"
    row = tiny.run(text, seed, outcome, protocol_hash=HASH, finished_at=stamp, train_seconds=50.0, **changes)
    return {name: value for name, value in row.items() if name != "key"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four rows a minute apart; one of them doubled by another machine."""
    data = tiny.write(tmp_path / "data")
    write_shard(data, "runs", [measured(tiny.SOFTMAX, 0, 80.0, 1), measured(tiny.IDENTITY, 0, "stopped", 2)])
    write_shard(data, "runs", [measured(tiny.ELU, 0, 84.0, 3), measured(tiny.UNTRAINED, 1, "diverged", 4)])
    write_shard(data, "runs", [measured(tiny.SOFTMAX, 0, 80.0, 4, device="another")])
    return data


def report(data: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert status.main(["--data", str(data), "--protocol", "fmnist-micro", "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_rows_are_counted_by_backbone_class_and_seed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = report(data, capsys)
    counts = {
        (row["kind"], row["seed"]): (row["rows"], row["wanted"], *row["statuses"].values())
        for row in found["classes"]
        if row["backbone"] == "deit"
    }
    assert counts == {
        ("is_named", 0): (3, 5, 2, 1, 0),
        ("is_named", 1): (0, 5, 0, 0, 0),
        ("is_named", 2): (0, 5, 0, 0, 0),
        ("in_grid", 0): (1, 2, 1, 0, 0),
        ("in_grid", 1): (1, 2, 0, 0, 1),
        ("in_grid", 2): (0, 2, 0, 0, 0),
        ("is_wild", 0): (0, 0, 0, 0, 0),
    }


def test_each_run_is_missing_once_and_takes_what_the_last_rows_took(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (deit,) = (row for row in report(data, capsys, "--workers", "2")["backbones"] if row["backbone"] == "deit")
    assert (deit["wanted"], deit["missing"]) == (18, 14)  # kernel linear is named and in the grid
    assert (deit["train_seconds"], deit["rows_per_core_hour"]) == (50.0, 72.0)
    assert (deit["recent_rows_per_hour"], deit["recent_workers"]) == (60.0, 1)  # a minute a run, evaluation included
    assert deit["remaining_hours"] == pytest.approx(14 / 60 / 2)


def test_rows_of_another_recipe_do_not_count_and_are_told(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = report(data, capsys)["other_rows"]
    released = [row for row in tiny.tables()["runs"] if row["protocol_hash"] == "f00d" and row["backbone"] == "deit"]
    told = {(row["protocol"], row["backbone"], row["protocol_hash"]): row["rows"] for row in others}
    assert told["fmnist-micro", "deit", "f00d"] == sum(row["protocol"] == "fmnist-micro" for row in released)
    assert not any(row["protocol_hash"] == HASH for row in others)
    # Rows of the campaign are none beside it, whichever protocol was asked about.
    assert report(data, capsys, "--protocol", "micro-scratch")["other_rows"] == others


def test_a_time_that_is_none_is_an_error_line(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = read_shards(data, "runs").to_pylist()
    odd = {name: value for name, value in rows[0].items() if name != "key"}
    write_shard(data, "runs", [odd | {"seed": seed, "finished_at": "yesterday"} for seed in (1, 2)])
    assert status.main(["--data", str(data)]) == 1
    assert capsys.readouterr().err == "error: Invalid isoformat string: 'yesterday'\n"


def test_subnets_are_reported_beside_the_attentions(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status.main(["--data", str(data)]) == 0
    out = capsys.readouterr().out
    assert "from_scratch" in out
    assert "in_grid" in out
    assert re.search("and what no row tells yet: .*micro-scratch on autoformer-micro", out)
    assert "hours left with" in out


def stamps(*rows: tuple[str, float]) -> list[dict[str, Any]]:
    """A row for each time, every one of another graph."""
    return [
        {"finished_at": f"2026-11-30T{time}Z", "train_seconds": seconds, "key": f"k{i}"}
        for i, (time, seconds) in enumerate(rows)
    ]


def test_the_pace_is_that_of_the_last_sitting() -> None:
    two_at_once = [(f"10:{minute:02}:{second:02}", 25.0) for minute in range(5) for second in (0, 1, 30, 31)]
    before = [("08:00:00", 25.0), ("08:10:00", 25.0)]
    sitting = last_sitting(stamps(*before, *two_at_once))
    assert sitting is not None
    assert sitting.workers == 2
    assert sitting.rows_per_hour == pytest.approx(3600 * 19 / 271)


def test_seeds_that_were_trained_in_one_pass_are_one_worker() -> None:
    stacks = [row | {"train_seconds": 10.0} for minute in range(5) for row in 3 * stamps((f"10:{minute:02}:00", 0.0))]
    sitting = last_sitting(stacks)
    assert sitting is not None
    assert (sitting.workers, sitting.rows_per_hour) == (1, pytest.approx(3600 * 14 / 240))


def test_evaluation_between_runs_does_not_hide_workers() -> None:
    rng, runs = Random(0), []
    for _ in range(8):
        end = rng.uniform(0, 20)
        for _ in range(20):
            seconds = rng.uniform(12, 18)
            end += seconds + 4  # of evaluation
            runs.append((f"10:{int(end) // 60:02}:{end % 60:09.6f}", seconds))
    sitting = last_sitting(stamps(*sorted(runs)))
    assert sitting is not None
    assert sitting.workers == 8


def test_a_single_row_has_no_pace() -> None:
    assert last_sitting([]) is None
    assert last_sitting(stamps(("10:00:00", 25.0))) is None
    assert last_sitting(stamps(("08:00:00", 25.0), ("10:00:00", 25.0))) is None
    assert last_sitting(stamps(("10:00:00", 25.0), ("10:00:00", 25.0))) is None


def test_without_a_release_there_is_nothing_to_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status.main(["--data", str(tmp_path)]) == 1
    assert "is no data release: it has no manifest.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--protocol", "fmnist"], "invalid choice: 'fmnist'"), (["--workers", "0"], "--workers must be 1 or more")],
)
def test_bad_arguments_are_refused(
    options: list[str], message: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        status.main(["--data", str(data), *options])
    assert message in capsys.readouterr().err
