"""Rows that several machines measured come together, each run once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from attnbench.dataset.files import read_manifest, read_table
from attnbench.dataset.verify import verify
from builders import merge, shards
from builders.campaign import TrainingRun, missing, rows_present
from builders.shards import incoming, shard_paths, stored_rows, write_shard
from tests.dataset import tiny


def measured(text: str, seed: int, outcome: Any, device: str, hour: int) -> dict[str, Any]:
    row = tiny.run(text, seed, outcome, device=device, finished_at=f"2026-11-30T{hour:02}:00:00+00:00")
    return {name: value for name, value in row.items() if name != "key"}


def test_overlapping_rows_of_two_machines_merge_to_the_earliest_of_each_run(tmp_path: Path) -> None:
    data, other = tiny.write(tmp_path / "data"), tmp_path / "other machine"
    # Both trained seed 1 of both graphs, in different spellings and in shards of different sizes.
    respelled = tiny.ELU.replace("elu1(q)", "elu1(q.T).T")
    write_shard(data, "runs", [measured(tiny.ELU, 1, 84.0, "here", 10)])
    write_shard(data, "runs", [measured(tiny.UNTRAINED, 1, 70.0, "here", 12), measured(tiny.ELU, 2, 83.0, "here", 12)])
    shared = write_shard(data, "runs", [measured(tiny.UNTRAINED, 0, 71.0, "here", 9)])
    write_shard(
        other, "runs", [measured(respelled, 1, 84.1, "there", 11), measured(tiny.UNTRAINED, 1, 70.1, "there", 8)]
    )
    write_shard(other, "runs", [measured(tiny.UNTRAINED, 2, "diverged", "there", 13)])
    shutil.copy(shared, incoming(other))  # and one shard had been copied over before
    for path in shard_paths(other, "runs"):
        shutil.copy(path, incoming(data))
    todo = [TrainingRun(text, "deit", "fmnist-micro", seed) for text in (tiny.ELU, tiny.UNTRAINED) for seed in range(4)]
    assert [run.seed for run in missing(todo, rows_present(data), {"deit": "f00d"})] == [3, 3]

    assert merge.main(["--data", str(data)]) == 0
    rows = read_table(data, "runs", read_manifest(data)).to_pylist()
    fresh = {(row["text"], row["seed"]): row["device"] for row in rows if row["device"] in ("here", "there")}
    assert fresh == {
        (tiny.ELU, 1): "here",
        (tiny.ELU, 2): "here",
        (tiny.UNTRAINED, 0): "here",
        (tiny.UNTRAINED, 1): "there",
        (tiny.UNTRAINED, 2): "there",
    }
    identities = [(row["key"], row["backbone"], row["protocol_hash"], row["seed"]) for row in rows]
    assert len(identities) == len(set(identities))
    assert verify(data).ok
    assert shard_paths(data, "runs") == []


@pytest.mark.parametrize("reader", ["read_shards", "read_table"])
def test_a_merge_while_rows_are_read_hides_none(reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny.write(tmp_path / "data")
    write_shard(data, "runs", [measured(tiny.UNTRAINED, 7, 70.0, "here", 9)])
    read = getattr(shards, reader)

    def then_merge(*given: Any, **options: Any) -> Any:
        found = read(*given, **options)
        assert merge.main(["--data", str(data)]) == 0
        return found

    monkeypatch.setattr(shards, reader, then_merge)
    assert 7 in stored_rows(data, "runs").column("seed").to_pylist()
    assert shard_paths(data, "runs") == []
