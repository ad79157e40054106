"""The latency builder measures every attention at every size once, and goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnbench.dataset.files import read_manifest, read_table
from attnbench.space.parse import parse
from builders import latency, merge
from builders.shards import read_shards, shard_paths
from tests.dataset import tiny

SIZES = ["--sizes", "8,16"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tiny.write(tmp_path / "data")


def measured(data: Path) -> set[tuple[str, int]]:
    return {(row["key"], row["n_tokens"]) for row in read_shards(data, "latency").to_pylist()}


def test_every_attention_at_every_size_once(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(latency, "UNIT_SIZE", 2)
    assert latency.main(["--data", str(data), *SIZES]) == 0
    expected = {(parse(text).key, n) for text, *_ in tiny.ROWS for n in (8, 16)}
    assert measured(data) == expected
    assert len(shard_paths(data, "latency")) == 3
    assert "latency: 12 rows written" in capsys.readouterr().out
    rows = read_shards(data, "latency").to_pylist()
    assert all(row["latency_ms"] > 0 and row["threads"] == 1 and row["device"] for row in rows)
    assert latency.main(["--data", str(data), *SIZES]) == 0
    assert "latency: 0 rows written" in capsys.readouterr().out
    assert merge.main(["--data", str(data)]) == 0
    table = read_table(data, "latency", read_manifest(data)).to_pylist()
    assert expected <= {(row["key"], row["n_tokens"]) for row in table}
    assert not shard_paths(data, "latency")


def test_the_rest_is_measured_after_a_stop(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert latency.main(["--data", str(data), *SIZES, "--limit", "2"]) == 0
    assert latency.main(["--data", str(data), *SIZES]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "latency" in line] == [
        "latency: 4 rows written",
        "latency: 8 rows written",
    ]
    assert latency.main(["--data", str(data), "--sizes", "8,16,32", "--minutes", "0"]) == 0
    assert len(measured(data)) == 12


def test_named_attentions_come_first(data: Path) -> None:
    assert latency.wanted(data)[-1] == tiny.UNTRAINED
    assert sorted(latency.wanted(data)) == sorted(text for text, *_ in tiny.ROWS)


def test_a_list_of_formulas(data: Path, tmp_path: Path) -> None:
    formulas = tmp_path / "graphs.txt"
    formulas.write_text(f"{tiny.ELU}\n\nelu1(q) @ (elu1(k).T @ v)\n")
    assert latency.main(["--data", str(data), "--sizes", "8", "--graphs", str(formulas)]) == 0
    assert measured(data) == {(parse(tiny.ELU).key, 8)}


def test_what_cannot_be_measured_is_an_error_line(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert latency.main(["--data", str(data), "--sizes", "0"]) == 1
    assert "error: sizes = [0]" in capsys.readouterr().err
    assert latency.main(["--data", str(data), "--graphs", str(data / "absent.txt")]) == 1
    assert "absent.txt" in capsys.readouterr().err


def test_the_processors_name(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nprocessor\t: 1\nmodel name\t: Some CPU\n")
    assert latency.processor(cpuinfo) == "Some CPU @ 2 GHz"
    cpuinfo.write_text("processor\t: 0\n")
    assert latency.processor(cpuinfo) == "cpu"
    assert latency.processor(tmp_path / "absent") == "cpu"
