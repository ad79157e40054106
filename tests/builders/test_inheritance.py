"""The page that compares sharings: its rows, its verdict either way, and what it says where rows are missing."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from attnbench.analysis.inheritance import SharingGap
from builders.inheritance import beside_params, main, trainings, verdict
from tests.builders.inherited_tables import release
from tests.dataset import tiny

GAP = SharingGap(points=9.0, below_scratch=(-2.0, 7.0), tau=0.2, low=0.1, high=0.3, n=40)


def test_the_page_has_a_row_a_score_and_a_verdict(tmp_path: Path, capsys) -> None:
    assert main(["--data", str(release(tmp_path / "data"))]) == 0
    page = capsys.readouterr().out
    assert [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")][1:] == [
        "entangled, seed 0",
        "classical, seed 0",
        "parameters alone",
        "one seed from scratch, against another",
    ]
    assert "entangled subnets inherit more is confirmed" in page
    assert "entanglement ranks better" in page
    assert "One supernet stands for classical and entangled: the intervals are over subnets, and hold nothing" in page


def test_two_trainings_of_a_sharing_are_told_from_one() -> None:
    ranks = pd.DataFrame({"score": ["micro-entangled"] * 2 + ["micro-classical", "params"], "seed": [0, 1, 0, None]})
    assert trainings(ranks).startswith("One supernet stands for classical: ")
    assert trainings(ranks.drop(index=2)) == ""


@pytest.mark.parametrize(
    ("gap", "said"),
    [
        (GAP, "9.0 points more than classically shared ones (+2.0 and -7.0 points against training from scratch"),
        (GAP, "τ with training from scratch is +0.20 against classical sharing (+0.10 to +0.30): entanglement ranks"),
        (replace(GAP, points=-1.0), "entangled subnets inherit more is not confirmed"),
        (replace(GAP, low=-0.1), "neither ranks better beyond chance"),
        (replace(GAP, tau=-0.2, low=-0.3, high=-0.1), "classical sharing ranks better"),
    ],
)
def test_the_verdict_follows_the_numbers(gap: SharingGap, said: str) -> None:
    assert said in verdict(gap)


def test_without_a_tau_the_verdict_is_of_accuracies_alone() -> None:
    assert "τ" not in verdict(replace(GAP, tau=None, low=None, high=None))


def test_missing_rows_are_named(tmp_path: Path, capsys) -> None:
    assert main(["--data", str(tiny.write(tmp_path / "data"))]) == 1
    assert "no run of micro-scratch on autoformer-micro is in the table" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("taus", "said"),
    [
        (
            {"params": 0.5, "micro-entangled": 0.3, "micro-classical": 0.4},
            "τ of 0.50; no supernet ranks higher.",
        ),
        (
            {"params": 0.5, "micro-entangled": 0.6, "micro-classical": 0.4},
            "τ of 0.50; entangled ranks higher.",
        ),
        ({"micro-entangled": 0.3}, ""),
        ({"params": 0.5, "one seed": 0.6}, ""),
    ],
)
def test_supernets_are_held_against_the_parameters(taus: dict[str, float], said: str) -> None:
    found = beside_params(pd.DataFrame({"score": list(taus), "tau": list(taus.values())}))
    assert found.endswith(said)
    assert bool(found) == bool(said)
