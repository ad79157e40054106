"""A training campaign in a process of its own, for tests that kill it: real queue, workers and shards, made-up runs.

Run as `python -m tests.builders.campaign_process DATA COUNT`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import builders.train
from builders.campaign import TrainingRun, missing, rows_present
from builders.shards import only_builder

UNIT_SECONDS = 0.02


def runs(count: int) -> list[TrainingRun]:
    """Distinct runs of two formulas; the second is one function in two spellings."""
    texts = ("q @ (k.T @ v)", "relu(q) * v", "v * relu(relu(q))")
    return [TrainingRun(texts[i % 3], "deit", "fmnist-micro", i // 3) for i in range(count)]


def made_up_row(run: TrainingRun) -> dict[str, Any]:
    value = float(run.seed)
    return {
        **run._asdict(),
        "protocol_hash": "0" * 16,
        "status": "ok",
        "val_curve": [value] * 5,
        "val_loss_curve": [1.0] * 5,
        "train_loss_curve": [1.0] * 5,
        "val_top1_percent": value,
        "val_loss": 1.0,
        "test_top1_percent": value,
        "test_loss": 1.0,
        "train_seconds": UNIT_SECONDS,
        "device": "cpu",
        "torch_version": "0",
        "code_version": "0",
        "finished_at": "2026-01-01T00:00:00+00:00",
    }


def setup(*_: object) -> None:
    """Made-up runs need nothing."""


def train(unit: builders.train.Stack) -> list[dict[str, Any]]:
    time.sleep(UNIT_SECONDS)
    return [made_up_row(run) for run in unit]


def main(data: Path, count: int) -> None:
    builders.train.setup_worker, builders.train.train_unit = setup, train
    args = builders.train.arguments(["--data", str(data), "--workers", "2"])
    with only_builder(data):
        todo = list(missing(runs(count), rows_present(data), {"deit": "0" * 16}))
        assert builders.train.run_campaign(todo, args) == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
