"""Killed at any moment and started again, the training builder loses no row, doubles none, leaves none half written."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnbench.errors import DataError
from builders.shards import incoming, only_builder, read_shards, shard_paths
from tests.builders.campaign_process import runs

COUNT = 150


def start(data: Path, root: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.builders.campaign_process", str(data), str(COUNT)]
    environment = os.environ | {"PYTHONPATH": str(root)}
    return subprocess.Popen(command, cwd=root, env=environment, stderr=subprocess.PIPE)


@pytest.mark.parametrize("seed", [0])
def test_ten_kills_lose_and_double_nothing(tmp_path: Path, root: Path, seed: int) -> None:
    rng = random.Random(seed)
    before: set[Path] = set()
    for _ in range(10):
        process = start(tmp_path, root)
        time.sleep(rng.uniform(0.1, 2.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        present = set(shard_paths(tmp_path, "runs"))
        assert before <= present
        before = present
    for _ in range(200):  # the last killed one's workers notice and leave
        process = start(tmp_path, root)
        if process.wait() == 0:
            break
        time.sleep(0.1)
    rows = read_shards(tmp_path, "runs").to_pylist()
    found = [(row["key"], row["seed"]) for row in rows]
    # Of every three runs two are the same function, which has one row.
    assert sorted(seed for _, seed in found) == sorted(list(range(COUNT // 3)) * 2)
    assert len(found) == len(set(found))
    assert {run.seed for run in runs(COUNT)} == {seed for _, seed in found}
    assert not list(incoming(tmp_path).glob(".*.tmp"))


def test_a_second_builder_is_refused_while_one_writes(tmp_path: Path) -> None:
    with only_builder(tmp_path), pytest.raises(DataError, match="another builder is writing"), only_builder(tmp_path):
        pass
    with only_builder(tmp_path):
        pass


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    incoming(tmp_path).mkdir()
    path = incoming(tmp_path) / "runs-0123456789abcdef.parquet"
    path.write_bytes(b"PAR1 cut short")
    with pytest.raises(DataError, match=r"runs-0123456789abcdef\.parquet is no whole Parquet file"):
        read_shards(tmp_path, "runs")
