"""Stored subnets on the command line: looked up like formulas, with what is known of those never trained."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from attnbench import cli
from tests.dataset import tiny, tiny_subnets
from tests.dataset.tiny_subnets import AUTOFORMER_T, BEST, SCORED, SMALL, SPACE


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_subnets.write(tmp_path_factory.mktemp("subnets") / "release")


SHOWN = {
    "query": (["query", BEST.text], rf"^{SPACE}, micro-scratch, 2 seeds, status ok$", "val_top1_percent", 88.5),
    "query by key": (["query", BEST.key, "--seed", "1"], r"^validation top-1 89\.00 %, test 88\.50 %$", "n_seeds", 1),
    "query inherited": (
        ["query", BEST.text, "--protocol", "micro-entangled"],
        r"^validation top-1 85\.00 %, test - %$",
        "test_top1_percent",
        None,
    ),
    "never trained": (
        ["query", SCORED.text],
        rf"(?s)^{SPACE}\nparameters 2,000, multiply-adds 2,000\nscores dss 2, .*\n.*no run of it is stored",
        "params",
        2000,
    ),
    "by a published name": (["query", "AutoFormer-T"], r"^parameters 13,000, ", "backbone", "autoformer-tiny"),
    "attention": (["query", "softmax"], r"3 seeds, status ok", "n_seeds", 3),
}


@pytest.mark.parametrize(("argv", "shows", "field", "value"), SHOWN.values(), ids=SHOWN)
def test_query(release: Path, argv, shows: str, field: str, value, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*argv, "--data", str(release)]) == 0
    printed = capsys.readouterr().out
    assert re.search(shows, printed, re.MULTILINE), printed
    assert cli.main([*argv, "--json", "--data", str(release)]) == 0
    assert json.loads(capsys.readouterr().out)[field] == value


def test_what_was_asked_for_and_is_not_stored_stays_an_error(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["query", SCORED.text, "--seed", "0", "--data", str(release)]) == 1
    assert "no run of it is stored. Stored are its costs on autoformer-micro" in capsys.readouterr().err


def test_top_is_of_attention_unless_a_space_is_named(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["top", "--json", "--data", str(release)])
    assert json.loads(capsys.readouterr().out)[0]["text"] == tiny.ELU
    cli.main(["top", "--backbone", SPACE, "--data", str(release)])
    assert f"best by mean validation top-1 on {SPACE}, micro-scratch" in (printed := capsys.readouterr().out)
    assert "autoformer(embed_dim=48" in printed
    cli.main(["top", "--backbone", SPACE, "--min-seeds", "9", "--data", str(release)])
    assert "no architecture has such runs" in capsys.readouterr().out


def test_measure_trains_a_subnet_in_its_space(
    fashion_mnist_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipes = pytest.importorskip("attnbench.nn.protocol")
    small = replace(recipes.PROTOCOLS["micro-scratch"], n_train_per_class=10, n_val_per_class=5, floor_top1_percent=0.0)
    monkeypatch.setitem(recipes.PROTOCOLS, "micro-scratch", small)
    assert cli.main(["measure", SMALL.text, "--json", "--dataset", str(fashion_mnist_dir)]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["key"], row["text"], row["backbone"], row["protocol"]) == (
        SMALL.key,
        SMALL.text,
        SPACE,
        "micro-scratch",
    )
    assert len(row["val_curve"]) == 5


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        (AUTOFORMER_T.text, "networks of autoformer-tiny take images of 224 pixels"),
        ("autoformer(embed_dim=25, heads=[1], mlp_ratios=[1])", "lies in none of the spaces autoformer-tiny"),
        ("pit(base_dim=8)", "pit got no depths"),
    ],
)
def test_measure_of_a_subnet_that_cannot_be(arch: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert cli.main(["measure", arch]) == 1
    assert message in capsys.readouterr().err
