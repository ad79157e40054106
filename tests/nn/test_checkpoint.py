"""Checkpoints are whole or not there, and of the run that asks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from attnbench.errors import DataError, DiskFull
from attnbench.nn.checkpoint import load_checkpoint, save_checkpoint
from tests.dataset.test_disk_full import largest_file

WHOSE = {"text": "v", "seed": 0}


def test_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.pt"
    assert load_checkpoint(path, WHOSE) is None
    save_checkpoint(path, WHOSE, {"weights": torch.arange(3.0), "curve": [1.0, 2.0], "none": None})
    state = load_checkpoint(path, WHOSE)
    assert state["weights"].tolist() == [0, 1, 2]
    assert (state["curve"], state["none"]) == ([1.0, 2.0], None)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "run.pt", WHOSE, {})
    with pytest.raises(DataError, match=r"run\.pt is of the run .*'seed': 0\}, not of .*'seed': 1\}\. Delete it"):
        load_checkpoint(tmp_path / "run.pt", {**WHOSE, "seed": 1})


class Surprise:
    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("ran code from a file",))


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "junk", "pickle", "other"])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.pt"
    save_checkpoint(path, WHOSE, {"weights": torch.arange(1000.0)})
    content = path.read_bytes()
    if damage == "pickle":
        torch.save({"identity": WHOSE, "state": Surprise()}, path)
    elif damage == "other":
        torch.save([1, 2], path)
    else:
        path.write_bytes({"cut": content[:-300], "empty": b"", "text": b"no checkpoint", "junk": b"junk"}[damage])
    with pytest.raises(DataError, match=r"run\.pt is no whole checkpoint \(.*\)\. Delete it to start the run again"):
        load_checkpoint(path, WHOSE)
    assert "ran code" not in capsys.readouterr().out


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    save_checkpoint(path, WHOSE, {"epoch": 1})
    with (
        pytest.raises(DiskFull, match=r"run\.pt could not be written: File too large\. Free some space"),
        largest_file(4_000),
    ):
        save_checkpoint(path, WHOSE, {"epoch": 2, "weights": torch.zeros(10_000)})
    assert load_checkpoint(path, WHOSE) == {"epoch": 1}
    assert list(tmp_path.iterdir()) == [path]
