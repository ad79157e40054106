"""The list of candidates and its checks: sizes, kinds, golden counts, resuming, yields."""

import json
import random
from collections import Counter

import pytest

from attnbench.dataset.files import read_manifest, read_table, write_release
from attnbench.errors import InvalidGraph
from attnbench.space.evaluate import same_signature
from attnbench.space.genotype import Genotype
from attnbench.space.parse import parse
from attnbench.space.upstream import SIX_TYPES
from builders.check import OurOutcome, both_rejections, checked, rejections
from builders.check import main as check_main
from builders.enumerate import candidates, cell_rows, passes_dynamic_checks, released
from builders.enumerate import main as enumerate_main

WILD = 12
NAMED_AND_GRID = 1400


@pytest.fixture(scope="module")
def rows():
    return candidates(NAMED_AND_GRID + WILD, passes_dynamic_checks)


def test_golden_counts(rows):
    assert len(cell_rows()) == 1701
    assert len({row["key"] for row in cell_rows()}) == 1368
    assert sum(row["in_grid"] for row in rows) == 1368
    assert sum(row["is_named"] for row in rows) == 37
    assert sum(row["in_grid"] and row["is_named"] for row in rows) == 5
    assert sum(row["is_wild"] for row in rows) == WILD


def test_every_row_is_one_function_under_its_key(rows):
    assert len({row["key"] for row in rows}) == len(rows)
    for row in random.Random(0).sample(rows, 40):
        assert parse(row["text"]).key == row["key"]
        if row["genotype"] is not None:
            genotype = Genotype.read(row["genotype"])
            assert genotype.to_graph().key == row["key"]
            assert genotype.graph_type == row["graph_type"]


def test_no_two_keys_are_the_same_function(rows):
    by_first = sorted((row["signature"] for row in rows), key=lambda signature: signature[0])
    for i, mark in enumerate(by_first):
        for other in by_first[i + 1 :]:
            if abs(other[0] - mark[0]) > 1e-6 * (1 + abs(mark[0])):
                break
            assert not same_signature(mark, other)


def test_names_lead_to_their_row(rows):
    names = Counter(name for row in rows for name in row["names"])
    assert set(names.values()) == {1}
    kernel = next(row for row in rows if "ImageNet default" in row["names"])
    assert kernel["names"][0] == "kernel linear elu1"
    assert kernel["graph_type"] == "i3n401"
    assert not kernel["in_grid"]


def test_the_wild_sample_is_sound_and_of_the_six_types(rows):
    wild = [row for row in rows if row["is_wild"]]
    assert {row["graph_type"] for row in wild} <= set(SIX_TYPES)
    assert all(checked(row)["is_sound"] for row in wild)


def test_an_earlier_wild_sample_is_kept(rows):
    kept = [row["genotype"] for row in rows if row["is_wild"]]
    again = candidates(NAMED_AND_GRID + WILD, passes_dynamic_checks, seed=1, kept=kept)
    assert [row["key"] for row in again] == [row["key"] for row in rows]


def test_checks_become_columns(rows):
    by_name = {name: row for row in rows for name in row["names"]}
    sound = checked(by_name["Trial 105"])
    assert (sound["is_sound"], sound["failed_checks"], sound["reasons"]) == (True, [], [])
    softmax = checked(by_name["softmax"])
    assert not softmax["is_sound"]
    assert softmax["failed_checks"] == ["linear"]
    assert softmax["reasons"] == [
        "linear: time and memory grow with the square of the number of tokens: softmax(scale(q @ k.T))"
    ]


def test_rejections_account_for_every_draw():
    counts = both_rejections(3000)
    for sampler in {row["sampler"] for row in counts}:
        mine = [row for row in counts if row["sampler"] == sampler]
        assert sum(row["count"] for row in mine) == 3000
        assert all(row["n_drawn"] == 3000 for row in mine)
        assert len({(row["stage"], row["reason"]) for row in mine}) == len(mine)
    ours = {(row["stage"], row["reason"]): row["count"] for row in counts if row["sampler"].endswith("language")}
    assert ours["shape", "two values do not broadcast"] > 200
    assert ours["sound", ""] > 5
    assert {stage for stage, _ in ours} >= {"shape", "gradients", "mixes", "sound"}


@pytest.mark.parametrize(
    ("genotype", "outcome"),
    [
        (Genotype("i3n2", [[1], [0], [0], [0]], [0, 0]), ("shape", "two values do not broadcast")),
        (Genotype("i3n2", [[0]] * 4, [3, 0]), ("shape", "two values do not contract")),
        (Genotype("i3n2", [[1], [0], [0], [0]], [5, 0]), ("shape", "einsum finds no equal axes")),
        (Genotype("i3n2", [[1], [1], [1], [0]], [0, 0]), ("shape", "the result is not (N, d)")),
        (
            Genotype("i3n2", [[0]] * 4, [9, 0]),
            ("shape", "cat doubles the features; the language has no way back to d"),
        ),
        (
            Genotype("i3n2", [[1], [1], [0], [2]], [5, 3]),
            ("linear", "time and memory grow with the square of the number of tokens"),
        ),
        (Genotype("i3n2", [[0]] * 4, [0, 0]), ("mixes", "no other token's k or v reaches a token")),
    ],
)
def test_stages_in_this_language(genotype, outcome):
    assert OurOutcome()(genotype) == outcome


def test_a_second_spelling_is_not_new():
    outcome = OurOutcome()
    assert outcome(Genotype("i3n2", [[0], [0], [0], [0]], [5, 6])) == ("sound", "")
    assert outcome(Genotype("i3n2", [[0, 0], [0], [0], [0]], [5, 6])) == (
        "new",
        "an earlier draw is the same function",
    )


def test_counts_repeat_with_their_seed():
    assert rejections("x", OurOutcome(), 300) == rejections("x", OurOutcome(), 300)


def test_the_builders_write_a_release(tmp_path, capsys):
    assert check_main(["--data", str(tmp_path)]) == 1
    assert "run `python -m builders enumerate` first" in capsys.readouterr().err
    assert enumerate_main(["--data", str(tmp_path), "--size", str(NAMED_AND_GRID)]) == 0
    assert "1400 architectures: 1368 in_grid, 37 is_named, 0 is_wild" in capsys.readouterr().out
    manifest = read_manifest(tmp_path)
    assert manifest.data_version == "0.1.0"
    assert read_table(tmp_path, "cells", manifest).num_rows == 1701
    table = read_table(tmp_path, "architectures", manifest)
    few = table.filter([i % 40 == 0 or "softmax" in row["names"] for i, row in enumerate(table.to_pylist())])
    write_release(tmp_path, {"architectures": few}, "0.2.0")
    assert check_main(["--data", str(tmp_path), "--draws", "500"]) == 0
    assert f"{few.num_rows} architectures, " in capsys.readouterr().out
    manifest = read_manifest(tmp_path)
    rows = read_table(tmp_path, "architectures", manifest).to_pylist()
    assert manifest.data_version == "0.2.0"
    assert {row["names"][0]: row["failed_checks"] for row in rows if "softmax" in row["names"]} == {
        "softmax": ["linear"]
    }
    assert sum(row["is_sound"] for row in rows) > 20
    assert read_table(tmp_path, "rejections", manifest).num_rows > 10


def test_a_released_wild_sample_is_found(tmp_path, rows):
    assert released(tmp_path) == ("0.1.0", [])
    write_release(tmp_path, {"architectures": rows}, "0.3.0")
    assert released(tmp_path) == ("0.3.0", [row["genotype"] for row in rows if row["is_wild"]])


def test_an_unreadable_genotype_is_an_error(rows):
    with pytest.raises(InvalidGraph, match="28 does not exist"):
        candidates(
            NAMED_AND_GRID + 1,
            passes_dynamic_checks,
            kept=[json.dumps({"graph_type": "i3n2", "unary_op": [[28]] * 4, "binary_op": [0, 0]})],
        )
