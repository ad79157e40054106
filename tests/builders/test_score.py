"""The scoring builder: every graph that has a run, every proxy, once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench.dataset.files import write_release
from attnbench.nn import data
from attnbench.nn.data import Split, Splits
from attnbench.nn.proxies.registry import PROXIES
from attnbench.space.parse import parse
from builders import score
from builders.shards import only_builder, read_shards, shard_paths, write_shard
from tests.dataset import tiny

NAMED = "v"
GRID = "elu1(q) @ softmax(k.T @ v)"
SAME_AS_GRID = "elu1(q) @ softmax((v.T @ k).T)"
COLUMNS = [column for proxy in PROXIES.values() for column in proxy.columns]


@pytest.fixture
def scored_on(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces the images by noise; the protocols that they were asked for."""
    asked: list[str] = []
    images = torch.randn(80, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    split = Split(images, torch.arange(80) % 10)
    never = Split(torch.full_like(images, float("nan")), split.labels)

    def load_splits(recipe: Any, directory: Path | None = None) -> Splits:
        asked.append(recipe.name)
        return Splits(train=split, val=never, test=never)

    monkeypatch.setattr(data, "load_splits", load_splits)
    return asked


def add_runs(directory: Path, *texts: str, backbone: str = "deit") -> None:
    rows = [tiny.run(text, 0, 80.0, backbone=backbone) for text in texts]
    write_shard(directory, "runs", [{name: row[name] for name in row if name != "key"} for row in rows])


def call(directory: Path, *arguments: str) -> int:
    return score.main(["--data", str(directory), "--workers", "0", "--backbone", "deit", *arguments])


def rows(directory: Path) -> list[dict[str, Any]]:
    return read_shards(directory, "proxies").to_pylist()


def identities(directory: Path) -> Counter[tuple[Any, ...]]:
    return Counter((row["key"], row["backbone"], row["proxy"], row["weight_seed"]) for row in rows(directory))


def expected(text: str, *seeds: int) -> set[tuple[Any, ...]]:
    return {(parse(text).key, "deit", column, seed) for column in COLUMNS for seed in seeds}


def test_every_function_with_a_run_is_scored_once_and_named_ones_with_three_seeds(
    tmp_path: Path, scored_on: list[str]
) -> None:
    add_runs(tmp_path, GRID, SAME_AS_GRID, NAMED)
    add_runs(tmp_path, "relu(q) * v", backbone="pvt")
    assert call(tmp_path) == 0
    found = identities(tmp_path)
    assert set(found) == expected(GRID, 0) | expected(NAMED, 0, 1, 2)
    assert set(found.values()) == {1}
    assert scored_on == ["fmnist-micro"]
    by_text = {(row["text"], row["proxy"], row["weight_seed"]): row for row in rows(tmp_path)}
    assert by_text[GRID, "dss", 0]["value"] == pytest.approx(
        sum(by_text[GRID, f"dss.{part}", 0]["value"] for part in ("qkv", "proj", "mlp"))
    )
    assert len({by_text[NAMED, "dss", seed]["value"] for seed in (0, 1, 2)}) == 3
    assert all(row["status"] == "ok" and row["value"] is not None and row["seconds"] > 0 for row in rows(tmp_path))


@pytest.mark.usefixtures("scored_on")
def test_nothing_is_scored_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_runs(tmp_path, GRID)
    assert call(tmp_path) == 0
    before = rows(tmp_path)
    add_runs(tmp_path, SAME_AS_GRID)
    assert call(tmp_path) == 0
    assert "0 models to score" in capsys.readouterr().err
    assert rows(tmp_path) == before
    add_runs(tmp_path, "relu(q) * v")
    assert call(tmp_path) == 0
    assert set(identities(tmp_path)) == expected(GRID, 0) | expected("relu(q) * v", 0)


@pytest.mark.usefixtures("scored_on")
def test_only_the_proxies_that_a_graph_lacks_are_scored(tmp_path: Path) -> None:
    add_runs(tmp_path, GRID)
    assert call(tmp_path) == 0
    (path,) = shard_paths(tmp_path, "proxies")
    kept = [row for row in rows(tmp_path) if row["proxy"] not in ("dss.mlp", "naswot")]
    path.unlink()
    write_release(tmp_path, {"proxies": kept}, "0.1.0")  # released rows count too
    assert call(tmp_path) == 0
    assert {row["proxy"] for row in rows(tmp_path)} == {*PROXIES["dss"].columns, "naswot"}


def test_images_are_read_only_where_a_proxy_looks_at_them(tmp_path: Path, scored_on: list[str]) -> None:
    add_runs(tmp_path, GRID)
    assert call(tmp_path) == 0
    scored_on.clear()
    (path,) = shard_paths(tmp_path, "proxies")
    kept = [row for row in rows(tmp_path) if PROXIES[row["proxy"].split(".")[0]].data != "none"]
    path.unlink()
    write_release(tmp_path, {"proxies": kept}, "0.1.0")
    assert call(tmp_path) == 0
    assert {row["proxy"].split(".")[0] for row in rows(tmp_path)} == {"dss", "synflow"}
    assert scored_on == []


@pytest.mark.usefixtures("scored_on")
def test_a_file_of_graphs_needs_no_runs(tmp_path: Path) -> None:
    (tmp_path / "graphs.txt").write_text(f"{GRID}\n\n{SAME_AS_GRID}\n")
    assert call(tmp_path, "--graphs", str(tmp_path / "graphs.txt")) == 0
    assert set(identities(tmp_path)) == expected(GRID, 0)


@pytest.mark.usefixtures("scored_on")
def test_a_graph_that_cannot_be_scored_is_reported_and_the_others_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_runs(tmp_path, GRID, "relu(q) * v", "relu(k) * v")
    score_graph = score.score_graph

    def refuse_one(scoring: score.Scoring) -> list[dict[str, Any]]:
        if scoring.text == "relu(q) * v":
            raise ArithmeticError("no such luck")
        return score_graph(scoring)

    monkeypatch.setattr(score, "score_graph", refuse_one)
    assert call(tmp_path) == 1
    message = "FAILED 1 of 3 could not be scored: relu(q) * v (ArithmeticError: no such luck)"
    assert message in capsys.readouterr().err
    assert {row["text"] for row in rows(tmp_path)} == {GRID, "relu(k) * v"}


def test_units_hold_so_many_graphs_each() -> None:
    scorings = [score.Scoring(str(i), "deit", 0, ()) for i in range(7)]
    assert [len(unit) for unit in score.in_units(scorings, 3)] == [3, 3, 1]
    assert sum(score.in_units(scorings, 3), ()) == tuple(scorings)
    assert score.in_units([]) == []


@pytest.mark.usefixtures("scored_on")
def test_scoring_goes_on_beside_training_but_not_beside_scoring_or_a_merge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_runs(tmp_path, GRID)
    half_written = tmp_path / "incoming" / ".runs-0.parquet.0.tmp"
    with only_builder(tmp_path, "proxies"):
        assert call(tmp_path) == 1
    assert "another builder is writing proxies" in capsys.readouterr().err
    with only_builder(tmp_path):
        assert call(tmp_path) == 1
    with only_builder(tmp_path, "runs"):
        half_written.touch()
        assert call(tmp_path) == 0
        assert half_written.exists()


@pytest.mark.usefixtures("scored_on")
def test_an_unknown_backbone_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tmp_path, "--backbone", "resnet") == 1
    assert "error: unknown backbone 'resnet'; known: deit" in capsys.readouterr().err


def test_an_unknown_protocol_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score.main(["--data", str(tmp_path), "--workers", "0", "--protocol", "fmnist"]) == 1
    assert "error: unknown protocol 'fmnist'; known: " in capsys.readouterr().err


@pytest.mark.usefixtures("scored_on")
def test_a_backbone_named_twice_is_scored_once(tmp_path: Path) -> None:
    add_runs(tmp_path, GRID)
    assert call(tmp_path, "--backbone", "deit") == 0
    assert set(identities(tmp_path).values()) == {1}


@pytest.mark.usefixtures("scored_on")
def test_no_minutes_are_no_time_for_a_unit(tmp_path: Path) -> None:
    add_runs(tmp_path, GRID)
    assert call(tmp_path, "--minutes", "0") == 0
    assert not rows(tmp_path)


def test_missing_images_are_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_runs(tmp_path, GRID)
    (tmp_path / "images").mkdir()
    for name in data.SHA256:
        (tmp_path / "images" / name).write_bytes(b"")
    assert call(tmp_path, "--dataset", str(tmp_path / "images")) == 1
    assert "error: DataError: " in capsys.readouterr().err


def test_workers_score_on_the_protocols_images(tmp_path: Path, fashion_mnist_dir: Path) -> None:
    add_runs(tmp_path, GRID)
    assert call(tmp_path, "--workers", "1", "--dataset", str(fashion_mnist_dir)) == 0
    assert set(identities(tmp_path)) == expected(GRID, 0)
