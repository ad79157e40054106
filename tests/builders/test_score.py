"""The scoring builder: what is asked for, once, by every proxy, in an order that never changes."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench.dataset.files import write_release
from attnbench.errors import DiskFull
from attnbench.nn import data
from attnbench.nn.data import Split, Splits
from attnbench.nn.proxies import score as scores
from attnbench.nn.proxies.fit import fitted
from attnbench.nn.proxies.registry import PROXIES
from attnbench.space.architecture import read_architecture
from attnbench.space.named import named_graphs
from attnbench.space.parse import parse
from attnbench.space.subnet_named import PUBLISHED_SUBNETS, SPACES
from builders import score
from builders.shards import only_builder, read_shards, shard_paths, write_shard
from tests.dataset import tiny

NAMED = "v"
GRID = "elu1(q) @ softmax(k.T @ v)"
SAME_AS_GRID = "elu1(q) @ softmax((v.T @ k).T)"
MICRO = SPACES["autoformer-micro"]
SUBNETS = (MICRO.smallest.text, MICRO.largest.text)
SOME = ("dss", "naswot", "synflow")


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
    rows = [tiny.run("v", 0, 80.0, backbone=backbone) | {"text": text} for text in texts]
    write_shard(directory, "runs", [{name: row[name] for name in row if name != "key"} for row in rows])


def call(directory: Path, *arguments: str, proxies: str | None = ",".join(SOME), on: str = "--backbone=deit") -> int:
    only = [] if proxies is None else ["--proxies", proxies]
    return score.main(["--data", str(directory), "--workers", "0", on, *only, *arguments])


def rows(directory: Path) -> list[dict[str, Any]]:
    return read_shards(directory, "proxies").to_pylist()


def identities(directory: Path) -> Counter[tuple[Any, ...]]:
    return Counter((row["key"], row["backbone"], row["proxy"], row["weight_seed"]) for row in rows(directory))


def expected(text: str, *seeds: int, proxies: Iterable[str] = SOME, on: str = "deit") -> set[tuple[Any, ...]]:
    columns = [column for name in proxies for column in PROXIES[name].columns]
    return {(read_architecture(text).key, on, column, seed) for column in columns for seed in seeds}


def test_every_function_with_a_run_is_scored_once_and_named_ones_with_three_seeds(
    tmp_path: Path, scored_on: list[str]
) -> None:
    add_runs(tmp_path, GRID, SAME_AS_GRID, NAMED)
    add_runs(tmp_path, "relu(q) * v", backbone="pvt")
    assert call(tmp_path, proxies=None) == 0
    found = identities(tmp_path)
    assert set(found) == expected(GRID, 0, proxies=PROXIES) | expected(NAMED, 0, 1, 2, proxies=PROXIES)
    assert set(found.values()) == {1}
    assert scored_on == ["fmnist-micro"]
    by_text = {(row["text"], row["proxy"], row["weight_seed"]): row for row in rows(tmp_path)}
    assert by_text[GRID, "dss", 0]["value"] == pytest.approx(
        sum(by_text[GRID, f"dss.{part}", 0]["value"] for part in ("qkv", "proj", "mlp"))
    )
    assert len({by_text[NAMED, "dss", seed]["value"] for seed in (0, 1, 2)}) == 3
    assert all((row["status"] == "ok") == (row["value"] is not None) and row["seconds"] > 0 for row in rows(tmp_path))
    assert {row["status"] for row in rows(tmp_path) if row["text"] == GRID} == {"ok"}


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
    kept = [row for row in rows(tmp_path) if row["proxy"] == "naswot"]
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
    score_one = score.score_one

    def refuse_one(scoring: score.Scoring) -> list[dict[str, Any]]:
        if scoring.text == "relu(q) * v":
            raise ArithmeticError("no such luck")
        return score_one(scoring)

    monkeypatch.setattr(score, "score_one", refuse_one)
    assert call(tmp_path) == 1
    message = "FAILED 1 of 3 could not be scored: relu(q) * v (ArithmeticError: no such luck)"
    assert message in capsys.readouterr().err
    assert {row["text"] for row in rows(tmp_path)} == {GRID, "relu(k) * v"}


def test_units_hold_few_slow_models_of_one_backbone() -> None:
    micro = [score.Scoring(str(i), "deit", 0, ("dss",)) for i in range(7)]
    assert [len(unit) for unit in score.in_units(micro, 3)] == [3, 3, 1]
    assert sum(score.in_units(micro, 3), ()) == tuple(micro)
    assert score.in_units([]) == []
    full = [score.Scoring(str(i), "deit-tiny", 0, ("dss",)) for i in range(7)]
    assert [len(unit) for unit in score.in_units([*micro, *full])] == [7, 7]
    subnets = [score.Scoring(str(i), "autoformer-tiny", 0, ("dss", "snip")) for i in range(2)]
    assert [len(unit) for unit in score.in_units([*micro, *subnets])] == [7, 1, 1]


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


# What is asked for


def release(directory: Path, *texts: str) -> None:
    """Tables whose architectures are these."""
    rows = []
    for text in texts:
        architecture = read_architecture(text)
        kind = "attention" if architecture.key.startswith("ag1-") else "subnet"
        rows.append(tiny.architecture("v", [], True) | {"key": architecture.key, "text": text, "kind": kind})
    write_release(directory, {"architectures": rows}, "0.1.0")


@pytest.mark.usefixtures("scored_on")
def test_all_are_those_of_the_table_that_fit(tmp_path: Path) -> None:
    release(tmp_path, GRID, *SUBNETS, SPACES["autoformer-tiny"].smallest.text, "relu(q) * v")
    assert call(tmp_path, "--all") == 0
    assert set(identities(tmp_path)) == expected(GRID, 0) | expected("relu(q) * v", 0)
    assert call(tmp_path, "--all", on="--space=autoformer-micro") == 0
    on_graphs = {row for row in identities(tmp_path) if row[1] == "deit"}
    of_subnets = set.union(*(expected(text, 0, on="autoformer-micro") for text in SUBNETS))
    assert set(identities(tmp_path)) == on_graphs | of_subnets


@pytest.mark.usefixtures("scored_on")
def test_subnets_with_a_run_are_scored_in_their_space_by_every_proxy(tmp_path: Path) -> None:
    add_runs(tmp_path, SUBNETS[0], backbone="autoformer-micro")
    add_runs(tmp_path, GRID)
    assert call(tmp_path, proxies=None, on="--space=autoformer-micro") == 0
    assert set(identities(tmp_path)) == expected(SUBNETS[0], 0, proxies=PROXIES, on="autoformer-micro")
    assert {row["status"] for row in rows(tmp_path)} == {"ok"}
    assert call(tmp_path, proxies=None, on="--space=autoformer-micro") == 0
    assert set(identities(tmp_path).values()) == {1}


@pytest.mark.usefixtures("scored_on")
def test_a_file_of_subnets(tmp_path: Path) -> None:
    (tmp_path / "subnets.txt").write_text("\n".join(SUBNETS))
    arguments = ("--graphs", str(tmp_path / "subnets.txt"), "--seeds", "0,2")
    assert call(tmp_path, *arguments, proxies="params,macs", on="--space=autoformer-micro") == 0
    wanted = (expected(text, 0, 2, proxies=("params", "macs"), on="autoformer-micro") for text in SUBNETS)
    assert set(identities(tmp_path)) == set.union(*wanted)


def test_named_ones_need_no_table(tmp_path: Path) -> None:
    options = {"named": True, "all": False, "graphs": None, "data": tmp_path}
    args = argparse.Namespace(**options)
    assert score.selected(args, "deit-tiny") == [graph.text for graph in named_graphs().values()]
    published = {row.subnet.text for row in PUBLISHED_SUBNETS.values() if row.space == "autoformer-tiny"}
    assert set(score.selected(args, "autoformer-tiny")) == published
    assert len(published) == 2


def test_the_order_is_that_of_keys_behind_the_named_and_a_limit_cuts_it() -> None:
    texts = ["relu(q) * v", GRID, "relu(k) * v", NAMED, "softmax(q @ k.T / sqrt(d)) @ v"]
    found = [scoring.text for scoring in score.missing(texts, "deit", set(), proxies=["dss"], seeds=[0])]
    assert found == [scoring.text for scoring in score.missing(texts[::-1], "deit", set(), proxies=["dss"], seeds=[0])]
    assert {*found[:2]} == {NAMED, texts[4]}
    assert [parse(text).key for text in found[2:]] == sorted(parse(text).key for text in texts[:3])
    present = {(parse(found[0]).key, "deit", column, 0) for column in PROXIES["dss"].columns}
    limited = score.missing(texts, "deit", present, proxies=["dss"], limit=3, seeds=[0])
    assert [scoring.text for scoring in limited] == found[1:3]


def test_one_draw_of_weights_must_do_at_224_pixels() -> None:
    def seeds(on: str) -> list[int]:
        return [scoring.weight_seed for scoring in score.missing([NAMED], on, set())]

    assert seeds("deit") == [0, 1, 2]
    assert seeds("deit-tiny") == [0]


@pytest.mark.usefixtures("scored_on")
def test_a_later_call_with_more_proxies_scores_those_only(tmp_path: Path) -> None:
    add_runs(tmp_path, GRID)
    assert call(tmp_path, proxies="params") == 0
    before = rows(tmp_path)
    assert call(tmp_path, proxies="synflow,params,params") == 0
    assert [row for row in rows(tmp_path) if row["proxy"] == "params"] == before
    assert set(identities(tmp_path)) == expected(GRID, 0, proxies=("params", "synflow"))


@pytest.mark.parametrize(("on", "channels"), [("deit-tiny", 3), ("autoformer-tiny", 3), ("deit", 1)])
def test_images_are_fitted_and_large_models_are_scored_in_float32(
    on: str, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def score_nothing(model: Any, shape: Any, *, batch: Split, names: Any, dtype: torch.dtype) -> list[Any]:
        seen.append((tuple(batch.images.shape), shape, dtype, sum(p.numel() for p in model.parameters())))
        return []

    monkeypatch.setattr(scores, "score", score_nothing)
    monkeypatch.setitem(score._worker, "batch", Split(torch.zeros(2, 1, 28, 28), torch.zeros(2)))
    subnet = SPACES["autoformer-tiny"].smallest
    score.score_one(score.Scoring(subnet.text if on in SPACES else GRID, on, 0, ("snip",)))
    [(images, shape, dtype, n_params)] = seen
    side = 224 if channels == 3 else 28
    assert images == (2, channels, side, side)
    assert shape == (channels, side, side)
    assert dtype == (torch.float32 if channels == 3 else torch.float64)
    assert (n_params > 4e6) == (channels == 3)


def test_a_fitted_image_is_repeated_and_interpolated() -> None:
    image = torch.arange(4.0).view(1, 1, 2, 2)
    batch = Split(image, torch.tensor([3]))
    found = fitted(batch, (3, 4, 4))
    quarter = torch.tensor([0.0, 0.25, 0.75, 1.0])  # pixel centres lie a quarter and three quarters between
    expected = quarter[:, None] * 2 + quarter[None, :]
    assert torch.equal(found.images, expected.expand(1, 3, 4, 4))
    assert torch.equal(found.labels, batch.labels)
    assert torch.equal(fitted(batch, (1, 2, 2)).images, image)
    with pytest.raises(ValueError, match="images of 2 channels do not fit a model of 3; pass grey ones, or as many ch"):
        fitted(Split(image.expand(1, 2, 2, 2), batch.labels), (3, 4, 4))


@pytest.mark.parametrize(
    ("arguments", "on", "message"),
    [
        (["--graphs", "{line}"], "--space=autoformer-micro", "v does not belong on autoformer-micro; expected a subn"),
        (["--graphs", "{subnet}"], "--backbone=deit", "does not belong on deit; expected a formula."),
        (
            ["--graphs", "{subnet}"],
            "--space=pit-micro",
            "does not belong on pit-micro; expected a subnet of pit-micro",
        ),
        (["--all"], "--backbone=deit", "holds no table of architectures; run `python -m builders check` first."),
        ([], "--space=autoformer", "unknown space 'autoformer'; known: autoformer-tiny, "),
        (["--proxies", "dss,tea"], "--backbone=deit", "unknown proxy 'tea'; known: dss, "),
    ],
)
def test_what_cannot_be_scored_is_refused(
    arguments: list[str], on: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"line": tmp_path / "line.txt", "subnet": tmp_path / "subnet.txt"}
    files["line"].write_text("v\n")
    files["subnet"].write_text(SUBNETS[0])
    given = [argument.format(**{name: str(path) for name, path in files.items()}) for argument in arguments]
    assert call(tmp_path, *given, proxies=None, on=on) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--limit", "-1"], ["--seeds", "0,x"]])
def test_numbers_are_whole(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call(tmp_path, *arguments)
    assert "expected a whole number from 0 to" in capsys.readouterr().err


def test_a_full_disk_ends_the_scoring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_runs(tmp_path, NAMED, GRID)
    scored: list[str] = []

    def full(*given: Any) -> None:
        scored.append(given[1])
        raise DiskFull("proxies.parquet could not be written: No space left on device.")

    monkeypatch.setattr(score, "UNIT_SIZE", 1)
    monkeypatch.setattr(score, "write_shard", full)
    assert call(tmp_path, proxies="params") == 1
    assert scored == ["proxies"]  # and not once for each unit
    assert "error: proxies.parquet could not be written: No space left on device." in capsys.readouterr().err
