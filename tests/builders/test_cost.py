"""The cost builder writes one row per attention and backbone, and keeps step times that were measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnbench.dataset.files import read_manifest, read_table, write_release
from attnbench.nn.backbones import BACKBONES
from attnbench.nn.cost import backbone_params, graph_macs
from attnbench.nn.full import FULL
from attnbench.space.parse import parse
from builders import cost
from tests.dataset import tiny


def rows(data: Path) -> dict[tuple[str, str], dict[str, object]]:
    return {(row["key"], row["backbone"]): row for row in read_table(data, "costs", read_manifest(data)).to_pylist()}


def test_costs_of_every_architecture_in_every_backbone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(BACKBONES) < set(cost.COUNTED) <= {*BACKBONES, *FULL}
    monkeypatch.setattr(cost, "COUNTED", ("deit", "pvt", "deit-tiny"))
    data = tiny.write(tmp_path / "data")
    assert cost.main(["--data", str(data)]) == 0
    found = rows(data)
    assert set(found) == {(parse(text).key, backbone) for text, *_ in tiny.ROWS for backbone in cost.COUNTED}
    softmax = parse(tiny.SOFTMAX)
    for backbone in cost.COUNTED:
        assert found[softmax.key, backbone]["macs"] == graph_macs(softmax, backbone)
        assert found[softmax.key, backbone]["params"] == backbone_params(backbone)
    assert found[softmax.key, "deit"]["step_ms"] == 13.5
    assert found[softmax.key, "pvt"]["step_ms"] is None
    assert found[parse(tiny.TRIAL).key, "deit"]["step_ms"] is None
    assert "18 rows, 2 with a step time" in capsys.readouterr().out


def test_rows_of_other_backbones_and_of_subnets_stay(tmp_path: Path) -> None:
    data = tiny.write(tmp_path / "data")
    version = read_manifest(data).data_version
    other = {"key": "sn1-" + 32 * "0", "backbone": "autoformer-micro", "params": 1, "macs": 2, "step_ms": 3.0}
    subnet = tiny.architecture("v", [], True) | {"key": other["key"], "kind": "subnet"}
    architectures = read_table(data, "architectures", read_manifest(data)).to_pylist()
    write_release(data, {"costs": [other], "architectures": [*architectures, subnet]}, version)
    assert cost.main(["--data", str(data), "--backbone", "swin", "--backbone", "deit-tiny"]) == 0
    found = rows(data)
    assert len(found) == 1 + 2 * len(tiny.ROWS)
    assert found[other["key"], "autoformer-micro"] == other


def test_unknown_names_are_error_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tiny.write(tmp_path / "data")
    assert cost.main(["--data", str(data), "--protocol", "mnist"]) == 1
    assert "unknown protocol 'mnist'" in capsys.readouterr().err
    assert cost.main(["--data", str(data), "--backbone", "vgg"]) == 1
    assert "unknown backbone 'vgg'" in capsys.readouterr().err
