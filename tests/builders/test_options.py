"""What the builders' options take, and what they say of anything else."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import latency, score, train
from builders.options import data_version, device, in_list, minutes, names, seeds, sizes, whole
from builders.texts import read_texts


def test_what_is_taken() -> None:
    assert whole("7") == 7
    assert seeds("2, 0,2") == (2, 0)
    assert sizes("256,64") == (256, 64)
    assert in_list("dss, snip,,dss") == ["dss", "snip"]
    assert minutes("0.5") == 0.5
    assert [device(name) for name in ("cpu", "cuda", "cuda:1")] == ["cpu", "cuda", "cuda:1"]


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (whole, "-1", "expected a whole number from 0 to 2147483647, got '-1'"),
        (whole, "1.5", "got '1.5'"),
        (seeds, "0,x", "expected a whole number from 0 to 2147483647, got 'x'"),
        (seeds, "99999999999999999999", "got '99999999999999999999'"),
        (seeds, ",", "expected seeds such as 0,1,2, got ','"),
        (data_version, "1.2", "expected a version such as 1.2.3, got '1.2'"),
        (data_version, "banana", "got 'banana'"),
        (sizes, ",", "expected numbers of tokens such as 64,256, got ','"),
        (sizes, "64,many", "got 'many'"),
        (names, ", ", "expected names with commas between them, got ', '"),
        (device, "nope", "expected cpu, cuda or cuda:1, got 'nope'"),
        (device, "cuda:", "got 'cuda:'"),
        (minutes, "nan", "expected minutes, 0 or more, got 'nan'"),
        (minutes, "-5", "got '-5'"),
        (minutes, "inf", "got 'inf'"),
        (minutes, "soon", "got 'soon'"),
    ],
)
def test_what_is_refused(read: Callable[[str], Any], text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        read(text)


@pytest.mark.parametrize(
    ("builder", "options", "message"),
    [
        (train, ["--seeds", "x"], "argument --seeds: expected a whole number"),
        (train, ["--minutes", "nan"], "argument --minutes: expected minutes, 0 or more"),
        (latency, ["--limit", "-1"], "argument --limit: expected a whole number"),
        (latency, ["--sizes", ","], "argument --sizes: expected numbers of tokens"),
        (score, ["--workers", "-1"], "argument --workers: expected a whole number"),
        (score, ["--minutes", "nan"], "argument --minutes: expected minutes, 0 or more"),
    ],
)
def test_builders_say_which_option_it_was(
    builder: Any, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        builder.main(options)
    assert message in capsys.readouterr().err


def test_a_file_without_a_formula_is_named(tmp_path: Path) -> None:
    file = tmp_path / "graphs.txt"
    file.write_text("\n  \n")
    with pytest.raises(ValueError, match=r"graphs\.txt holds no line; expected an architecture a line"):
        read_texts(file, "deit")


def test_a_file_of_formulas_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "graphs.txt"
    file.write_bytes(b"q * k\n\xff\n")
    with pytest.raises(ValueError, match=r"graphs\.txt is no text in UTF-8 \(invalid start byte at byte 6\)"):
        read_texts(file, "deit")
