"""A --data that is no directory is one line of error for every builder, and stays what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import check, cost, enumerate, inheritance, latency, merge, published, score, status, subnets, train


@pytest.mark.parametrize(
    "builder",
    [check, cost, enumerate, inheritance, latency, merge, published, score, status, subnets, train],
    ids=lambda builder: builder.__name__.rpartition(".")[2],
)
def test_a_file_in_the_place_of_the_directory(
    builder: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "data"
    file.write_text("not a directory")
    options = ["--size", "1"] if builder is enumerate else []
    assert builder.main(["--data", str(file), *options]) == 1  # type: ignore[attr-defined]
    errors = capsys.readouterr().err.splitlines()
    assert errors[-1].startswith("error: ")
    assert str(file) in errors[-1]
    assert file.read_text() == "not a directory"


def test_scoring_makes_no_directory_of_a_mistyped_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mistyped = tmp_path / "dta"
    assert score.main(["--data", str(mistyped)]) == 1
    assert f"{mistyped} is no directory of tables" in capsys.readouterr().err
    assert not mistyped.exists()
