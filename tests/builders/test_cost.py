"""The cost builder writes one row per architecture and frozen backbone, and keeps step times that were measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnbench.dataset.files import read_manifest, read_table
from attnbench.nn.cost import graph_macs
from attnbench.space.parse import parse
from builders import cost
from tests.dataset import tiny


def rows(data: Path) -> dict[str, dict[str, object]]:
    return {row["key"]: row for row in read_table(data, "costs", read_manifest(data)).to_pylist()}


def test_costs_of_every_architecture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tiny.write(tmp_path / "data")
    assert cost.main(["--data", str(data)]) == 0
    found = rows(data)
    assert set(found) == {parse(text).key for text, *_ in tiny.ROWS}
    assert found[parse(tiny.SOFTMAX).key]["macs"] == graph_macs(parse(tiny.SOFTMAX), "deit")
    assert found[parse(tiny.SOFTMAX).key]["step_ms"] == 13.5
    assert found[parse(tiny.TRIAL).key]["step_ms"] is None
    assert "6 rows, 2 with a step time" in capsys.readouterr().out


def test_unknown_protocol_is_an_error_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tiny.write(tmp_path / "data")
    assert cost.main(["--data", str(data), "--protocol", "mnist"]) == 1
    assert "unknown protocol 'mnist'" in capsys.readouterr().err
