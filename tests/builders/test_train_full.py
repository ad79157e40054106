"""`python -m builders train` with the protocols of full backbones, alone and under torchrun."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench.errors import DataError
from attnbench.nn import full_train
from attnbench.nn.datasets import SOURCES
from attnbench.nn.frozen import FROZEN
from attnbench.nn.recipes import RECIPES
from builders import train
from builders.shards import read_shards
from tests.builders.full_process import BACKBONE, PROTOCOL, changes
from tests.dataset.test_disk_full import largest_file
from tests.nn import tiny_images

GRAPHS = ("q @ l2norm(k.T @ v)", "relu(v)")  # the second leaves q and k without a gradient

Trainer = Callable[..., int]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    directory = tmp_path / "cifar"
    directory.mkdir()
    tiny_images.write("cifar-100", directory)
    return directory


@pytest.fixture
def trainer(tmp_path: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch) -> Trainer:
    """Runs the builder in this process on tiny things; further arguments come last and so win."""
    for registry, name, value in changes(dataset):
        monkeypatch.setitem(registry, name, value)
    monkeypatch.delitem(FROZEN, PROTOCOL, raising=False)
    return lambda *more: train.main([*arguments(tmp_path), "--dataset", str(dataset), *more])


def arguments(tmp_path: Path, data: str = "data") -> list[str]:
    graphs = tmp_path / "graphs.txt"
    graphs.write_text("\n".join(GRAPHS) + "\n")
    return [
        *("--protocol", PROTOCOL, "--backbone", BACKBONE, "--graphs", str(graphs), "--device", "cpu"),
        *("--data", str(tmp_path / data), "--workers", "0"),
    ]


def rows(tmp_path: Path, data: str = "data") -> dict[str, dict[str, Any]]:
    return {row["text"]: row for row in read_shards(tmp_path / data, "runs").to_pylist()}


def test_a_row_for_each_graph_once(tmp_path: Path, trainer: Trainer, capsys: pytest.CaptureFixture[str]) -> None:
    assert trainer() == 0
    assert set(rows(tmp_path)) == set(GRAPHS)
    for row in rows(tmp_path).values():
        assert (row["backbone"], row["protocol"], row["seed"], row["status"]) == (BACKBONE, PROTOCOL, 0, "ok")
        assert [len(row[name]) for name in ("val_curve", "val_loss_curve", "train_loss_curve")] == [2, 2, 2]
        assert row["test_top1_percent"] is not None
    assert not list((tmp_path / "data" / "checkpoints").iterdir())
    errors = capsys.readouterr().err
    assert "2 runs to train on 1 x cpu" in errors
    assert f"{BACKBONE} seed 0 {GRAPHS[0]}: epoch 2/2, loss" in errors
    assert f"{GRAPHS[1]}: ok, test" in errors
    assert trainer() == 0
    assert "0 runs to train" in capsys.readouterr().err


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tests.builders.full_process")


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param(("-m", "tests.builders.full_process", "--two"), id="forked"),
        pytest.param(TORCHRUN, id="torchrun", marks=pytest.mark.slow),  # imports torch three times
    ],
)
def test_two_processes_under_torchrun_do_what_one_does(
    launcher: tuple[str, ...], tmp_path: Path, root: Path, dataset: Path, trainer: Trainer
) -> None:
    """Augmentation is on: it follows from the image, not from the process that reads it. Each batch comes in parts."""
    assert trainer() == 0
    alone = rows(tmp_path)
    command = [sys.executable, *launcher, str(dataset), *arguments(tmp_path, "data2"), "--images-at-once", "3"]
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    together = rows(tmp_path, "data2")
    assert set(together) == set(alone) == set(GRAPHS)
    for text, row in together.items():
        assert row["device"] == "2 x cpu"
        for name in ("train_loss_curve", "val_loss_curve", "val_curve", "test_loss", "test_top1_percent"):
            assert row[name] == pytest.approx(alone[text][name], abs=1e-5), name
    assert done.stderr.count("epoch 2/2") == len(GRAPHS)  # one process speaks


def test_an_interrupted_builder_goes_on(
    tmp_path: Path, trainer: Trainer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trainer("--data", str(tmp_path / "whole")) == 0
    save, saved = full_train.save_checkpoint, []

    def save_and_stop(path: Path, *what: Any) -> None:
        save(path, *what)
        saved.append(path)
        if len(saved) == 3:  # after the first epoch of the second graph
            raise KeyboardInterrupt

    monkeypatch.setattr(full_train, "save_checkpoint", save_and_stop)
    assert trainer() == 130
    assert set(rows(tmp_path)) == {GRAPHS[0]}
    assert [path for path in saved if path.is_file()] == saved[-1:]
    monkeypatch.setattr(full_train, "save_checkpoint", save)
    capsys.readouterr()
    assert trainer() == 0
    assert "epoch 1/2" not in capsys.readouterr().err
    for text, row in rows(tmp_path).items():
        other = rows(tmp_path, "whole")[text]
        assert (row["train_loss_curve"], row["test_loss"]) == (other["train_loss_curve"], other["test_loss"])


def test_a_full_disk_ends_the_builder_and_loses_nothing(
    tmp_path: Path, trainer: Trainer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trainer("--limit", "1") == 0
    before = {path: path.read_bytes() for path in (tmp_path / "data" / "incoming").glob("*.parquet")}
    capsys.readouterr()
    with largest_file(2_000):
        assert trainer() == 1
    assert "could not be written: File too large. Free some space and start again" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (tmp_path / "data" / "incoming").glob("*.parquet")} == before
    assert trainer() == 0
    assert set(rows(tmp_path)) == set(GRAPHS)


def test_a_changed_recipe_is_refused_against_rows_of_the_old_one(
    tmp_path: Path, trainer: Trainer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trainer("--limit", "1") == 0
    before = rows(tmp_path)
    monkeypatch.setitem(RECIPES, PROTOCOL, replace(RECIPES[PROTOCOL], weight_decay=0.1))
    assert trainer() == 1
    assert f"holds 1 runs of {PROTOCOL} on {BACKBONE} with the recipe" in capsys.readouterr().err
    assert rows(tmp_path) == before


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--protocol", "cifar10-300e"], f"and for full backbones {PROTOCOL}, flowers-300e"),
        (["--backbone", "vgg"], f"unknown backbone: {PROTOCOL} has no recipe for 'vgg'; it has one for {BACKBONE}"),
        (["--backbone", "pvt"], f"error: {PROTOCOL} has no recipe for 'pvt'"),
        (["--dataset", "nowhere"], "nowhere/cifar-100-binary.tar.gz is missing"),
        (["--minutes", "3"], "--minutes, --engine with its options, --stack and --cuda-graphs are for micro backbones"),
        (["--address", "h:1"], "are for micro backbones"),
        (["--cpus-per-unit", "9"], "are for micro backbones"),
        (["--stack", "2"], "for micro backbones. Start cifar100-300e under torchrun"),
        (["--limit", "-1"], "--limit is a number of runs; it was -1"),
        (["--workers", "-1"], "--workers is a number of processes, or 0 for none beside this one; it was -1"),
        (["--images-at-once", "0"], "--images-at-once is a number of images, 1 or more; it was 0"),
        (["--device", "cuda:1"], "trains on --device cpu or cuda, not cuda:1; choose GPUs by CUDA_VISIBLE_DEVICES"),
        (["--graphs", "/dev/null"], "error: /dev/null holds no line; expected an architecture a line"),
    ],
)
def test_what_is_refused_is_named(
    trainer: Trainer, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trainer(*more) == 1
    assert message in capsys.readouterr().err


def test_short_memory_names_the_run_and_the_way_out(
    tmp_path: Path, trainer: Trainer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train_full = full_train.train_full

    def short(graph: Any, *args: Any, **options: Any) -> Any:
        if graph.graph.text == GRAPHS[1]:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore")
        return train_full(graph, *args, **options)

    monkeypatch.setattr(full_train, "train_full", short)
    assert trainer() == 1
    error = capsys.readouterr().err
    assert f"error: memory is too short for {BACKBONE} seed 0 {GRAPHS[1]}: CUDA out of memory. Tried to" in error
    assert "GiB. Pass --images-at-once with a part of the" in error
    assert set(rows(tmp_path)) == {GRAPHS[0]}


@pytest.mark.parametrize("workers", ["0", "1"], ids=["here", "in a reader"])
def test_an_image_that_cannot_be_read_is_named_without_a_traceback(
    workers: str, trainer: Trainer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: Any) -> Any:
        raise DataError("a.JPEG is no whole image (cut). Unpack the data set anew.")

    monkeypatch.setattr("attnbench.nn.images.read_image", broken)
    assert trainer("--workers", workers) == 1
    *_, last = capsys.readouterr().err.strip().splitlines()
    assert last == "error: a.JPEG is no whole image (cut). Unpack the data set anew."


def test_too_few_gpus_are_named(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert trainer("--device", "cuda") == 1
    assert "process 1 of this machine needs a GPU of its own, and there are 1. Start fewer" in capsys.readouterr().err


def test_what_full_backbones_need_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--protocol", PROTOCOL]) == 1
    assert f"{PROTOCOL} needs --backbone and --graphs and --dataset" in capsys.readouterr().err


def test_a_wrong_checksum_is_named(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = replace(SOURCES["cifar-100"], md5={"cifar-100-binary.tar.gz": "0" * 32})
    monkeypatch.setitem(SOURCES, "cifar-100", other)
    assert trainer() == 1
    assert f"the published file has {'0' * 32}" in capsys.readouterr().err
