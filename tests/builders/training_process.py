"""Real runs with a recipe of seconds on made-up images, importable by workers of every engine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import builders.train
from builders.campaign import TrainingRun

# A unit with this seed kills its process in the middle of its first try.
DEADLY_SEED = 1


def splits() -> Any:
    """Images of ten classes that a few steps tell apart."""
    import torch

    from attnbench.nn.data import Split, Splits

    def split(n: int, seed: int) -> Split:
        labels = torch.arange(n) % 10
        images = torch.randn(n, 1, 28, 28, generator=torch.Generator().manual_seed(seed))
        images[torch.arange(n), 0, labels] += 6.0  # class c has a bright row c
        return Split(images, labels)

    return Splits(train=split(80, 0), val=split(40, 1), test=split(40, 2))


def setup(protocol: str, dataset: Path | None, device: str, cuda_graphs: bool, code_version: str) -> None:
    import torch

    from attnbench.nn.protocol import PROTOCOLS

    torch.set_num_threads(1)
    recipe = replace(PROTOCOLS[protocol], epochs=2, batch_size=20, floor_top1_percent=0.0)
    builders.train._worker.update(
        recipe=recipe, splits=splits(), device=device, cuda_graphs=cuda_graphs, code_version=code_version, dead=dataset
    )


def train(unit: builders.train.Stack) -> list[dict[str, Any]]:
    """Trains a unit as the builder does, and marks each try; the deadly one dies once, after its first epoch."""
    from attnbench.nn import train as trainer

    marks, seed = builders.train._worker["dead"], unit[0].seed
    tries = len(list(marks.glob(f"{seed}-*")))
    (marks / f"{seed}-{tries}-{os.getpid()}").touch()
    if seed != DEADLY_SEED or tries:
        return real_train_unit(unit)
    evaluate = trainer.evaluate

    def die(*_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    trainer.evaluate = die
    try:
        return real_train_unit(unit)
    finally:
        trainer.evaluate = evaluate


real_train_unit = builders.train.train_unit


@contextmanager
def small_runs() -> Iterator[None]:
    """Within it, the builder trains with `setup` and `train`."""
    kept = builders.train.setup_worker, builders.train.train_unit
    builders.train.setup_worker, builders.train.train_unit = setup, train
    try:
        yield
    finally:
        builders.train.setup_worker, builders.train.train_unit = kept


def runs(seeds: int) -> list[TrainingRun]:
    return [TrainingRun("softmax(q) @ (softmax(k, axis=-2).T @ v)", "deit", "fmnist-micro", s) for s in range(seeds)]
