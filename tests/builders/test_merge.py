"""A release takes in fresh rows once each, keeps the earliest, derives keys anew, and only then drops the shards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attnbench.dataset.files import read_manifest, read_table
from attnbench.dataset.verify import verify
from attnbench.errors import DataError
from builders import merge
from builders.shards import shard_paths, write_shard
from tests.dataset import tiny


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tiny.write(tmp_path / "data")


def fresh(text: str, seed: int, outcome: Any = 81.0, **changes: Any) -> dict[str, Any]:
    row = tiny.run(text, seed, outcome, **changes)
    return {name: value for name, value in row.items() if name != "key"}


def runs(data: Path) -> dict[tuple[str, int], dict[str, Any]]:
    rows = read_table(data, "runs", read_manifest(data)).to_pylist()
    return {(row["text"], row["seed"]): row for row in rows if row["backbone"] == "deit"}


def test_fresh_rows_join_the_release_and_their_shards_go(data: Path) -> None:
    before = runs(data)
    write_shard(data, "runs", [fresh(tiny.ELU, 1), fresh(tiny.UNTRAINED, 0)])
    assert merge.main(["--data", str(data), "--version", "0.2.0"]) == 0
    after = runs(data)
    assert set(after) == set(before) | {(tiny.ELU, 1), (tiny.UNTRAINED, 0)}
    assert all(repr(after[name]) == repr(before[name]) for name in before)  # NaN is not equal to itself
    assert shard_paths(data, "runs") == []
    assert read_manifest(data).data_version == "0.2.0"
    assert verify(data).ok


def test_the_earliest_row_of_a_run_is_kept_whatever_its_spelling(data: Path) -> None:
    respelled = tiny.ELU.replace("elu1(q)", "elu1(q.T).T")
    write_shard(data, "runs", [fresh(respelled, 1, 70.0, finished_at="2026-11-30T12:00:00Z")])
    write_shard(data, "runs", [fresh(tiny.ELU, 1, 71.0, finished_at="2026-11-30T11:00:00Z")])
    write_shard(data, "runs", [fresh(tiny.ELU, 0, 1.0, finished_at="2020-01-01T00:00:00Z")])
    merge.main(["--data", str(data)])
    assert runs(data)[tiny.ELU, 1]["val_top1_percent"] == 71.0
    assert runs(data)[tiny.ELU, 0]["val_top1_percent"] == 84.5  # a released row is never replaced
    assert read_manifest(data).data_version == "0.0.1"


def test_keys_follow_from_the_formulas() -> None:
    rows = [{"text": tiny.ELU, "key": "ag1-" + "0" * 32}]
    assert merge.rekeyed(rows)[0]["key"] == tiny.parse(tiny.ELU).key


def test_a_row_of_an_unknown_architecture_stops_the_release(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_shard(data, "runs", [fresh("sigmoid(q) * v", 0)])
    assert merge.main(["--data", str(data)]) == 1
    assert (
        "1 formulas of runs are not in the table `architectures`, such as 'sigmoid(q) * v'" in capsys.readouterr().err
    )
    assert len(shard_paths(data, "runs")) == 1
    assert verify(data).ok


def test_a_damaged_shard_stops_the_release_by_name(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_shard(data, "runs", [fresh(tiny.ELU, 1)])
    path.write_bytes(path.read_bytes()[:-20])
    assert merge.main(["--data", str(data)]) == 1
    assert path.name in capsys.readouterr().err
    assert verify(data).ok


KILLED_BETWEEN = """
import os, sys
from builders import merge
move = os.replace
def until_a_table_is_in_place(source, target):
    move(source, target)
    if str(target).endswith("/runs.parquet"):
        os._exit(9)
os.replace = until_a_table_is_in_place
merge.main(["--data", sys.argv[1]])
"""


def test_a_merge_killed_between_tables_and_manifest_is_finished_by_the_next(data: Path, root: Path) -> None:
    before = runs(data)
    write_shard(data, "runs", [fresh(tiny.ELU, 1), fresh(tiny.UNTRAINED, 0)])
    argv = [sys.executable, "-c", KILLED_BETWEEN, str(data)]
    assert subprocess.run(argv, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, check=False).returncode == 9
    assert len(shard_paths(data, "runs")) == 1
    with pytest.raises(DataError, match="`python -m builders merge` finishes it"):
        read_manifest(data)
    assert merge.main(["--data", str(data)]) == 0
    assert set(runs(data)) == set(before) | {(tiny.ELU, 1), (tiny.UNTRAINED, 0)}
    assert shard_paths(data, "runs") == []
    assert verify(data).ok


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"protocol_hash": "deadbeefdeadbeef"}, "'one recipe': 1 backbones and protocols with several protocol hashes"),
        ({"val_top1_percent": float("nan")}, '"validation is the curve\'s end"'),
        ({"test_top1_percent": 250.0}, "'percent'"),
        ({"status": "banana"}, "'status'"),
        ({"seed": -5}, "'seed'"),
        ({"finished_at": "yesterday"}, "'time'"),
        ({"backbone": "autoformer-micro"}, "'backbone'"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_rows_that_break_a_rule_stop_the_release_and_stay(
    data: Path, changes: dict[str, Any], rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_manifest(data)
    good = write_shard(data, "runs", [fresh(tiny.ELU, 1)])
    bad = write_shard(data, "runs", [fresh(tiny.UNTRAINED, 0) | changes])
    assert merge.main(["--data", str(data)]) == 1
    error = capsys.readouterr().err
    assert f"error: runs would break the rule {rule}" in error
    assert "Nothing was merged: correct the rows" in error
    assert str(good) not in error
    assert (str(bad) in error) == ("protocol_hash" not in changes)  # alone, it has one recipe
    assert read_manifest(data) == before
    assert set(shard_paths(data, "runs")) == {good, bad}


def test_the_table_takes_frozen_recipes_only(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_shard(data, "runs", [fresh(tiny.ELU, 0, backbone="mine", protocol_hash="00")])
    monkeypatch.setattr(merge, "DATA", data.resolve())
    rows = read_table(data, "runs", read_manifest(data)).to_pylist()
    known = {row["backbone"]: row["protocol_hash"] for row in rows}
    monkeypatch.setattr(merge, "FROZEN", {"fmnist-micro": known})
    assert merge.main(["--data", str(data)]) == 1
    assert "runs of fmnist-micro on mine have the recipe 00, and frozen is none. Nothing was merged; move" in (
        capsys.readouterr().err
    )
    assert len(shard_paths(data, "runs")) == 1
    monkeypatch.setattr(merge, "FROZEN", {"fmnist-micro": known | {"mine": "00"}})
    assert merge.main(["--data", str(data)]) == 0


def test_a_text_that_is_no_formula_is_named_with_its_shard(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_shard(data, "runs", [fresh(tiny.ELU, 1)])
    path = write_shard(data, "runs", [fresh(tiny.ELU, 2) | {"text": "q @@ nonsense("}])
    assert merge.main(["--data", str(data)]) == 1
    assert f"error: {path} holds a text that is no architecture: " in capsys.readouterr().err


def test_a_version_must_be_higher(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert merge.main(["--data", str(data), "--version", "0.0.0"]) == 1
    assert (
        "error: --version 0.0.0 is not higher than 0.0-test, which this release has already" in capsys.readouterr().err
    )
    with pytest.raises(SystemExit):
        merge.main(["--data", str(data), "--version", "banana"])
    assert "argument --version: expected a version such as 1.2.3, got 'banana'" in capsys.readouterr().err


def test_without_a_release_there_is_nothing_to_merge_into(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert merge.main(["--data", str(tmp_path)]) == 1
    assert "has no manifest.json: run `python -m builders enumerate` first" in capsys.readouterr().err


@pytest.mark.parametrize(("version", "after"), [("0.1.0", "0.1.1"), ("0.0-test", "0.0.1"), ("2", "2.0.1")])
def test_next_version(version: str, after: str) -> None:
    assert merge.next_version(version) == after
