"""A campaign of micro backbones on a disk that fills up ends with a named error, keeps its rows, and goes on later."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnbench.nn.frozen import run_hash
from builders import train
from builders.shards import incoming, read_shards
from tests.builders import campaign_process
from tests.dataset.test_disk_full import largest_file


def test_a_full_disk_ends_the_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained: list[int] = []

    def made_up(unit: train.Stack) -> list[dict[str, object]]:
        trained.extend(run.seed for run in unit)
        found = run_hash("fmnist-micro", "deit")
        return [campaign_process.made_up_row(run) | {"protocol_hash": found} for run in unit]

    monkeypatch.setattr(train, "setup_worker", campaign_process.setup)
    monkeypatch.setattr(train, "train_unit", made_up)
    graphs = tmp_path / "graphs.txt"
    graphs.write_text("relu(q) * v\n")
    data = tmp_path / "data"
    arguments = ["--backbone", "deit", "--graphs", str(graphs), "--workers", "0", "--data", str(data), "--seeds"]

    assert train.main([*arguments, "0"]) == 0
    before = {path: path.read_bytes() for path in incoming(data).glob("*.parquet")}
    assert len(before) == 1
    with largest_file(500):
        assert train.main([*arguments, "0,1,2"]) == 1
    assert "could not be written: File too large. Free some space and start again" in capsys.readouterr().err
    assert trained == [0, 1]  # it does not go on training what it could not keep
    assert {path: path.read_bytes() for path in incoming(data).glob("*.parquet")} == before
    assert not list(incoming(data).glob(".*.tmp"))
    assert train.main([*arguments, "0,1,2"]) == 0
    assert sorted(row["seed"] for row in read_shards(data, "runs").to_pylist()) == [0, 1, 2]
