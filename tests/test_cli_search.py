"""The command search on subnets: inherited accuracies are shown, training from scratch judges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnbench.cli import main
from attnbench.dataset.files import write_release
from tests.dataset import tiny_subnets
from tests.dataset.tiny_subnets import BEST, SCORED, SMALL


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_subnets.write(tmp_path_factory.mktemp("subnets") / "release")


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": "160", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)


def search(release: Path, *options: str) -> list[str]:
    return ["search", "--data", str(release), "--space", "autoformer-micro", "--seeds", "3", *options]


def test_regret_is_of_training_from_scratch(release: Path, capsys) -> None:
    assert main(search(release, "--searcher", "random", "autoformer")) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("3 searches each, 200 evaluations, on subnets of autoformer-micro, seed 0 shown\n")
    assert "regret: points under 88.50 %, the best of 2 measured subnets\n" in shown
    assert f"by training from scratch, seeds (0, 1): {BEST.text}\n" in shown
    for name in ("random", "autoformer"):
        assert f"{name} picked most often (3 of 3): {BEST.text}" in shown
    assert main(search(release, "--searcher", "autoformer", "--json")) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["regret_percent"], row["regret_of"], row["val_top1_percent"]) == (0, 3, 85.0)


def test_a_window_leaves_large_subnets_out(release: Path, capsys) -> None:
    argv = search(release, "--searcher", "random", "--window", "1-15000", "--json")
    assert main(argv) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["picked"], row["val_top1_percent"]) == (SMALL.key, 70.0)


def test_choices_that_cannot_be_judged_are_counted(tmp_path: Path, capsys) -> None:
    tables = tiny_subnets.tables()
    tables["runs"].append(tiny_subnets.inherited(SCORED, 90.0))
    directory = tmp_path / "release"
    directory.mkdir()
    write_release(directory, tables, "0.0-test")
    assert main(search(directory, "--searcher", "random")) == 0
    shown = capsys.readouterr().out
    assert (
        f"random picked most often (3 of 3): {SCORED.text}\nrandom: regret is of the 0 choices that can be jud" in shown
    )


def test_a_figure_of_subnets(release: Path, tmp_path: Path, capsys) -> None:
    file = tmp_path / "figure.png"
    argv = ["plot", "search", str(file), "--data", str(release), "--space", "autoformer-micro", "--seeds", "2"]
    argv += ["--searcher", "random"]
    assert main(argv) == 0
    assert file.read_bytes().startswith(b"\x89PNG")


REFUSED = {
    "no space": (["--space", "micro"], "there is no space 'micro'; choose grid or one of autoformer-tiny, "),
    "no runs": (["--inherited", "micro-classical"], "no runs of 'micro-classical' on 'autoformer-micro'; stored: "),
    "no window": (["--window", "small-"], "'small-' is no window of parameters; write MIN-MAX such as"),
    "an empty window": (["--window", "1-2"], "none of the 2 subnets given is one of autoformer-micro with 1 to 2"),
    "a window of the grid": (["--space", "grid", "--window", "1-2"], "a space of subnets is what --window, --judged "),
    "a supernet of the grid": (["--space", "grid", "--inherited", "micro-classical"], "a space of subnets is what "),
    "a backbone of subnets": (
        ["--backbone", "pvt"],
        "the grid is what --backbone and --protocol are for; the runs of ",
    ),
    "a protocol of subnets": (["--protocol", "micro-scratch"], "the grid is what --backbone and --protocol are for; "),
    "the judged of the grid": (["--space", "grid", "--judged"], "a space of subnets is what --window, --judged "),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_searched_is_named(options: list[str], message: str, release: Path, capsys) -> None:
    assert main(search(release, *options)) == 1
    assert capsys.readouterr().err.startswith(f"attnbench search: {message}")
