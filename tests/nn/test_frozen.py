"""Frozen protocols stay what their rows were measured with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from attnbench.errors import DataError
from attnbench.nn import backbones, frozen
from attnbench.nn.frozen import FROZEN, run_hash


@pytest.mark.parametrize(("protocol", "backbone"), [(p, b) for p, found in FROZEN.items() for b in found])
def test_code_still_hashes_to_what_is_frozen(protocol: str, backbone: str) -> None:
    assert run_hash(protocol, backbone) == FROZEN[protocol][backbone]


def test_the_frozen_hashes_of_fmnist_micro_are_golden() -> None:
    assert FROZEN["fmnist-micro"] == {
        "deit": "a4bf19616669c6cf",
        "pvt": "baacf7a305524f6d",
        "swin": "bf0289f0c966a15a",
        "cswin": "30163f84d9ec5a65",
    }


@pytest.mark.parametrize("change", ["semantics", "backbone"])
def test_a_changed_recipe_is_refused_against_existing_rows(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if change == "semantics":
        monkeypatch.setattr(frozen, "SEMANTICS_VERSION", 99)
    else:
        wider = replace(backbones.BACKBONES["deit"], width=64)
        monkeypatch.setitem(backbones.BACKBONES, "deit", wider)
    with pytest.raises(DataError, match="fmnist-micro on deit is frozen as a4bf19616669c6cf, but this code's"):
        run_hash("fmnist-micro", "deit")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown protocol 'mnist'"):
        run_hash("mnist", "deit")
    with pytest.raises(ValueError, match="unknown backbone 'vgg'"):
        run_hash("fmnist-micro", "vgg")
