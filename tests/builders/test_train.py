"""What the training builder trains, writes and refuses."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import builders.train
from attnbench import __version__
from attnbench.nn import frozen, protocol
from attnbench.nn.data import SHA256
from attnbench.nn.frozen import run_hash
from attnbench.space.subnet_named import SPACES
from builders import train
from builders.campaign import TrainingRun, campaign_backbones, stacks
from builders.shards import read_shards, shard_paths, write_shard
from builders.train import arguments, run_campaign
from tests.builders.training_process import DEADLY_SEED, runs, small_runs
from tests.dataset import tiny

MICRO = SPACES["autoformer-micro"]


def shard(text: str, seed: int, **changes: Any) -> dict[str, Any]:
    row = tiny.run(text, seed, 81.0, **changes)
    return {name: value for name, value in row.items() if name != "key"}


def refusal(data: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What the builder says when it refuses; what was stored stays as it was, and nothing joins it."""
    before = {path: path.read_bytes() for path in data.rglob("*.parquet")}
    assert train.main(["--data", str(data), "--workers", "0", *options]) == 1
    assert {path: path.read_bytes() for path in data.rglob("*.parquet")} == before
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--backbone", "deit2"], "error: unknown backbone 'deit2'; known: deit, pvt, "),
        (["--protocol", "fmnist"], "error: unknown protocol 'fmnist'; known: fmnist-micro, "),
        (["--protocol", "micro-entangled"], "error: micro-entangled trains a supernet: python -m builders supernet"),
        (
            ["--address", "10.0.0.1:6379"],
            "and --gpus-per-unit are for Ray; pass --engine ray with them",
        ),
        (["--gpus-per-unit", "1"], "are for Ray; pass --engine ray"),
        (
            ["--engine", "ray", "--cpus-per-unit", "-1"],
            "a unit asks for -1 CPUs and 0 GPUs; expected more than 0 CPUs, such as 1 or 0.5, and 0 GPUs or more",
        ),
        (["--engine", "ray", "--gpus-per-unit", "nan"], "a unit asks for 1 CPUs and nan GPUs; expected more than 0"),
        (["--engine", "ray", "--device", "cuda"], "pass --gpus-per-unit, such as 0.1"),
        pytest.param(["--device", "cuda:63"], "error: cuda:63 is not here: torch ", id="no such GPU"),
        (["--cpus-per-unit", "0.5"], "--address, --cpus-per-unit and --gpus-per-unit are for Ray; pass --engine ray"),
        (["--images-at-once", "7"], "--images-at-once is for full backbones; fmnist-micro trains whole batches"),
        (["--cuda-graphs"], "--cuda-graphs needs --device cuda; it was cpu"),
        (["--stack", "0"], "1 or more; it was 0"),
        (["--workers", "-1"], "--workers is a number of processes, or 0 for none beside this one; it was -1"),
        (["--limit", "-1"], "--limit is a number of runs; it was -1"),
        (
            ["--protocol", "micro-scratch", "--backbone", "autoformer-tiny"],
            "networks of autoformer-tiny take images of 224 pixels and 3 channels, and the protocols here train on",
        ),
        (["--graphs", "/nowhere/graphs.txt"], "No such file or directory: '/nowhere/graphs.txt'"),
    ],
)
def test_arguments_that_cannot_be_followed_are_refused(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal(tmp_path, capsys, *options)


def test_without_git_the_code_has_its_version_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert train.code_version().startswith(__version__)
    monkeypatch.setenv("PATH", "/nowhere")
    assert train.code_version() == __version__


def test_an_unknown_engine_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        train.main(["--engine", "slurm"])
    assert "argument --engine: invalid choice: 'slurm'" in capsys.readouterr().err


def test_a_formula_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "graphs.txt").write_text("q @ (k.T @ v)\nq @ w\n")
    assert "error: unknown name 'w'" in refusal(tmp_path, capsys, "--graphs", str(tmp_path / "graphs.txt"))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (MICRO.smallest.text, ["--backbone", "deit"], "does not belong on deit; expected a formula"),
        ("v", ["--protocol", "micro-scratch"], "v does not belong on autoformer-micro; expected a subnet of autoform"),
        (
            SPACES["autoformer-tiny"].smallest.text,
            ["--protocol", "micro-scratch"],
            "does not belong on autoformer-micro; expected a subnet of autoformer-micro",
        ),
    ],
)
def test_what_a_backbone_cannot_train_is_refused_before_anything_is_trained(
    text: str, options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "graphs.txt").write_text(text)
    assert message in refusal(tmp_path, capsys, "--graphs", str(tmp_path / "graphs.txt"), *options)


def test_rows_of_another_recipe_stop_the_builder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tiny.write(tmp_path / "data")
    here = run_hash("fmnist-micro", "deit")
    write_shard(data, "runs", [shard(tiny.UNTRAINED, 0, protocol_hash="f00d")])
    told = refusal(data, capsys, "--backbone", "deit")
    assert "runs of fmnist-micro on deit with the recipe f00d; this code's is " + here in told
    assert "Undo the change, give the new recipe a name of its own, or train into another directory with --data" in told


def test_a_frozen_recipe_that_changed_stops_the_builder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = replace(protocol.PROTOCOLS["fmnist-micro"], epochs=6)
    monkeypatch.setitem(protocol.PROTOCOLS, "fmnist-micro", changed)
    assert "fmnist-micro on deit is frozen as " in refusal(tmp_path, capsys, "--backbone", "deit")


def test_rows_of_a_loose_recipe_do_not_join_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tiny.write(tmp_path / "data")
    monkeypatch.setattr(train, "DATA", data)
    monkeypatch.setattr(frozen, "FROZEN", {"fmnist-micro": {}})
    assert "deit is not frozen for fmnist-micro, so its rows must not join the table's" in refusal(
        data, capsys, "--backbone", "deit"
    )


def test_backbones_that_are_not_frozen_are_left_out_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frozen, "FROZEN", {"fmnist-micro": {"deit": run_hash("fmnist-micro", "deit")}})
    told = refusal(tmp_path, capsys)
    assert "not frozen, left out: pvt, swin, cswin" in told
    assert "is no data release" in told


def test_without_a_frozen_backbone_one_must_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frozen, "FROZEN", {})
    assert "error: no backbone is frozen for fmnist-micro; name one with --backbone" in refusal(tmp_path, capsys)


def test_the_campaign_comes_to_the_backbones_in_its_own_order() -> None:
    assert campaign_backbones(["cswin", "pvt", "deit", "other"], "fmnist-micro") == (["deit", "pvt", "cswin"], ["swin"])
    assert campaign_backbones([], "imagenet-300e") == ([], [])


def test_stacks_hold_the_seeds_of_one_graph_on_one_backbone() -> None:
    todo = [TrainingRun(text, b, "fmnist-micro", s) for s in range(3) for b in ("deit", "pvt") for text in ("v", "k")]
    groups = stacks(todo, 2)
    assert [run for group in groups for run in group if run.text == "v"][:3] == [
        TrainingRun("v", "deit", "fmnist-micro", 0),
        TrainingRun("v", "deit", "fmnist-micro", 1),
        TrainingRun("v", "pvt", "fmnist-micro", 0),
    ]
    assert sorted(run for group in groups for run in group) == sorted(todo)
    assert [len(group) for group in groups] == [2, 2, 2, 2, 1, 1, 1, 1]
    assert stacks(todo, 1) == [(run,) for run in todo]


def rows(data: Path, *options: str) -> list[dict[str, Any]]:
    (data / "marks").mkdir(parents=True)
    (data / "marks" / f"{DEADLY_SEED}-0-0").touch()  # nobody dies here
    args = arguments(["--data", str(data), "--dataset", str(data / "marks"), "--workers", "0", *options])
    with small_runs():
        assert run_campaign(runs(3), args) == 0
    return sorted(read_shards(data, "runs").to_pylist(), key=lambda row: row["seed"])


def test_stacked_seeds_give_the_rows_of_single_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "code_version", lambda: "test")  # else a commit in between makes them differ
    single, stacked = rows(tmp_path / "single"), rows(tmp_path / "stacked", "--stack", "2")
    assert len(shard_paths(tmp_path / "single", "runs")) == 3
    assert len(shard_paths(tmp_path / "stacked", "runs")) == 2  # a file for a unit of work
    for one, other in zip(stacked, single, strict=True):
        assert one.keys() == other.keys()
        for name in one.keys() - {"train_seconds", "finished_at"}:
            assert one[name] == (pytest.approx(other[name], abs=1e-4) if "loss" in name else other[name]), name


def test_a_full_disk_ends_the_builder_with_its_name_and_keeps_what_was_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = tmp_path / "graphs.txt"
    graphs.write_text(f"{tiny.EFFICIENT}\n")
    (tmp_path / "marks").mkdir()
    written: list[Path] = []

    def write(*given: Any) -> Path:
        if written:
            raise OSError(28, "No space left on device", str(tmp_path))
        written.append(write_shard(*given))
        return written[0]

    monkeypatch.setattr(builders.train, "write_shard", write)
    options = ["--graphs", str(graphs), "--backbone", "deit", "--seeds", "0,2", "--workers", "0"]
    with small_runs():
        assert train.main(["--data", str(tmp_path), "--dataset", str(tmp_path / "marks"), *options]) == 1
    assert "error: [Errno 28] No space left on device" in capsys.readouterr().err
    assert shard_paths(tmp_path, "runs") == written


def test_images_that_are_not_the_published_ones_stop_the_builder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "images").mkdir()
    for name in SHA256:
        (tmp_path / "images" / name).write_bytes(gzip.compress(b"no images"))
    (tmp_path / "graphs.txt").write_text(tiny.EFFICIENT)
    options = ["--graphs", str(tmp_path / "graphs.txt"), "--backbone", "deit", "--dataset", str(tmp_path / "images")]
    told = refusal(tmp_path, capsys, *options)
    assert "error: DataError: " in told
    assert "train-images-idx3-ubyte.gz" in told
