"""The supernet builder: rows once, from one training, without the test images; and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import attnbench.nn.data
from attnbench.dataset.files import write_release
from attnbench.dataset.verify import verify
from attnbench.nn import protocol as protocols
from attnbench.nn.data import Split, Splits
from attnbench.nn.frozen import FROZEN
from builders.shards import read_shards, shard_paths
from builders.subnets import MICRO, SAMPLES, architecture_rows, drawn
from builders.supernet import main
from builders.train import main as train_main


def random_split(n: int, seed: int) -> Split:
    return Split(torch.randn(n, 1, 28, 28, generator=torch.Generator().manual_seed(seed)), torch.arange(n) % 10)


@pytest.fixture
def short(monkeypatch) -> None:
    """The supernets' recipes with one epoch, on a few random images; the test images are none."""
    splits = Splits(
        random_split(50, 0), random_split(50, 1), Split(torch.full((10, 1, 28, 28), math.nan), torch.arange(10))
    )
    monkeypatch.setattr(attnbench.nn.data, "load_splits", lambda recipe, directory=None: splits)
    for name in ("micro-entangled", "micro-classical", "micro-scratch"):
        recipe = replace(protocols.PROTOCOLS[name], epochs=1, batch_size=25, floor_top1_percent=0.0)
        monkeypatch.setitem(protocols.PROTOCOLS, name, recipe)
        monkeypatch.setitem(FROZEN, name, {})


def arguments(path: Path, *more: str) -> list[str]:
    return ["--data", str(path / "data"), "--checkpoints", str(path), "--limit", "4", *more]


def test_rows_come_once_from_one_training(tmp_path: Path, short: None, capsys) -> None:
    assert main(arguments(tmp_path)) == 0
    first = capsys.readouterr().err
    assert "epoch 1: training loss" in first
    assert "4 rows written" in first
    assert main(arguments(tmp_path)) == 0
    assert "0 rows written" in capsys.readouterr().err
    assert main(arguments(tmp_path, "--limit", "6")) == 0  # two more, of the supernet that is there
    more = capsys.readouterr().err
    assert "epoch" not in more
    assert "2 rows written" in more
    assert len(shard_paths(tmp_path / "data", "runs")) == 2
    rows = {row["text"]: row for row in read_shards(tmp_path / "data", "runs").to_pylist()}
    assert set(rows) == {subnet.text for subnet in drawn(MICRO, 6)}
    for row in rows.values():
        assert (row["backbone"], row["protocol"], row["seed"], row["status"]) == (MICRO, "micro-entangled", 0, "ok")
        assert (row["test_top1_percent"], row["test_loss"]) == (None, None)
        assert row["val_curve"] == [row["val_top1_percent"]]
        assert len(row["train_loss_curve"]) == 1
    assert len({row["val_loss"] for row in rows.values()}) == 6
    assert len({row["train_seconds"] for row in rows.values()}) == 1


def test_a_release_of_inherited_rows_keeps_the_rules(tmp_path: Path, short: None) -> None:
    assert main(arguments(tmp_path, "--sharing", "classical", "--seed", "3")) == 0
    runs = read_shards(tmp_path / "data", "runs").to_pylist()
    assert {(row["protocol"], row["seed"]) for row in runs} == {("micro-classical", 3)}
    write_release(tmp_path / "data", {"architectures": architecture_rows(), "runs": runs}, "0.0-test")
    assert verify(tmp_path / "data").ok, verify(tmp_path / "data").problems


@pytest.mark.parametrize("limit", [SAMPLES[MICRO] + 1, -1])
def test_no_subnet_inherits_that_the_table_lacks(limit: int, tmp_path: Path, short: None, capsys) -> None:
    assert main(arguments(tmp_path, "--limit", str(limit))) == 1
    told = capsys.readouterr().err
    assert f"--limit is 0 to {SAMPLES[MICRO]}, as many as the table lists; it was {limit}" in told
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("seed", ["-1", str(2**31)])
def test_a_seed_that_no_row_can_hold_is_refused_before_training(seed: str, tmp_path: Path, short: None, capsys) -> None:
    with pytest.raises(SystemExit):
        main(arguments(tmp_path, "--seed", seed))
    assert f"expected a whole number from 0 to 2147483647, got '{seed}'" in capsys.readouterr().err


def test_a_gpu_that_is_not_there_is_named(tmp_path: Path, short: None, capsys) -> None:
    assert main(arguments(tmp_path, "--device", "cuda:63")) == 1
    assert "error: cuda:63 is not here: torch " in capsys.readouterr().err


def test_damaged_and_foreign_checkpoints_are_named(tmp_path: Path, short: None, monkeypatch, capsys) -> None:
    assert main(arguments(tmp_path)) == 0
    path = tmp_path / "autoformer-micro-entangled-seed0.pt"
    other = replace(protocols.PROTOCOLS["micro-entangled"], learning_rate=0.1)
    monkeypatch.setitem(protocols.PROTOCOLS, "micro-entangled", other)
    assert main(arguments(tmp_path)) == 1
    assert "is of the run" in capsys.readouterr().err
    path.write_bytes(b"PK\x03\x04 cut short")
    assert main(arguments(tmp_path)) == 1
    assert f"{path} is no whole checkpoint" in capsys.readouterr().err


def test_subnets_are_trained_from_scratch_like_graphs(tmp_path: Path, short: None, monkeypatch, capsys) -> None:
    splits = attnbench.nn.data.load_splits(protocols.protocol("micro-scratch"))
    monkeypatch.setattr(attnbench.nn.data, "load_splits", lambda *_: replace(splits, test=splits.val))
    texts = tmp_path / "subnets.txt"
    texts.write_text("\n".join(subnet.text for subnet in drawn(MICRO, 2)))
    command: list[Any] = ["--backbone", MICRO, "--graphs", texts, "--workers", 0, "--data", tmp_path, "--seeds", "0,1"]
    command = list(map(str, command))
    assert train_main([*command, "--protocol", "micro-scratch"]) == 0
    assert train_main([*command, "--protocol", "micro-scratch"]) == 0  # nothing is left to do
    rows = read_shards(tmp_path, "runs").to_pylist()
    assert len(rows) == 4
    assert {(row["backbone"], row["protocol"], row["status"]) for row in rows} == {(MICRO, "micro-scratch", "ok")}
    assert train_main([*command, "--protocol", "micro-entangled"]) == 1
    assert "micro-entangled trains a supernet: python -m builders supernet" in capsys.readouterr().err
