"""What the campaign wants, in which order, and what it still lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.campaign import TrainingRun, candidates, missing, most_wanted, rows_present
from builders.shards import write_shard
from tests.dataset import tiny

FORMULAS = {"is_named": ["a", "b"], "in_grid": ["c", "d"], "is_wild": ["e"]}


def test_named_graphs_come_first_with_every_seed_then_the_grid_once() -> None:
    wanted = [(run.text, run.seed) for run in most_wanted(FORMULAS, ["deit"], "fmnist-micro")]
    assert wanted[:8] == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("d", 0)]
    assert wanted[8:] == [("c", 1), ("d", 1), ("c", 2), ("d", 2), ("e", 0)]


def test_seeds_and_backbones_can_be_chosen() -> None:
    runs = list(most_wanted(FORMULAS, ["deit", "pvt"], "fmnist-micro", seeds=(2,)))
    assert {run.seed for run in runs} == {2}
    assert {run.backbone for run in runs} == {"deit", "pvt"}


def test_candidates_are_those_of_the_release_each_class_in_a_drawn_order(tmp_path: Path) -> None:
    data = tiny.write(tmp_path / "data")
    found = candidates(data)
    assert found == candidates(data)
    assert sorted(found["in_grid"]) == sorted([tiny.ELU, tiny.UNTRAINED])
    assert sorted(found["is_named"]) == sorted(text for text, names, _, _ in tiny.ROWS if names)
    assert found["is_wild"] == []


def test_what_is_released_or_fresh_is_not_wanted_again(tmp_path: Path) -> None:
    data = tiny.write(tmp_path / "data")
    row = tiny.run(tiny.UNTRAINED, 0, 80.0)
    write_shard(data, "runs", [{name: value for name, value in row.items() if name != "key"}])
    runs = [TrainingRun(text, "deit", "fmnist-micro", 0) for text in (tiny.ELU, tiny.UNTRAINED, tiny.ABSENT)]
    respelled = TrainingRun("sigmoid(q) @ (v.T @ sigmoid(k)).T", "deit", "fmnist-micro", 0)
    left = list(missing([*runs, respelled], rows_present(data), {"deit": "f00d"}))
    assert left == [runs[2]]
    assert len(list(missing(runs, rows_present(data), {"deit": "another recipe"}))) == 3


def test_a_backbone_without_a_hash_is_a_fault_of_the_caller() -> None:
    with pytest.raises(KeyError):
        list(missing([TrainingRun("v", "pvt", "fmnist-micro", 0)], set(), {"deit": "f00d"}))
