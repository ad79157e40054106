"""The list of subnets: what it holds, that it stays, and what else the tables keep beside it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from attnbench.dataset.files import read_manifest, read_table, write_release
from attnbench.dataset.verify import verify
from attnbench.space.architecture import read_architecture
from attnbench.space.subnet_cost import subnet_cost
from attnbench.space.subnet_named import PUBLISHED_SUBNETS, SPACES
from builders.campaign import candidates, most_wanted
from builders.check import main as check_main
from builders.enumerate import listed_subnets
from builders.enumerate import main as enumerate_main
from builders.subnets import MICRO, N_FROM_SCRATCH, SAMPLES, architecture_rows, cost_rows, drawn, from_scratch, main
from tests.dataset import tiny


def test_a_sample_is_distinct_in_its_space_and_any_beginning_is_one() -> None:
    for space, n in SAMPLES.items():
        subnets = drawn(space, n)
        assert len(set(subnets)) == n
        assert all(subnet in SPACES[space] for subnet in subnets)
        assert drawn(space, 20) == subnets[:20]
    assert from_scratch() == drawn(MICRO, N_FROM_SCRATCH)


def test_the_from_scratch_sample_has_small_and_large_ones_alike() -> None:
    for counts in (
        Counter(subnet.depth for subnet in from_scratch()),
        Counter(subnet.embed_dim for subnet in from_scratch()),  # type: ignore[attr-defined]
    ):
        assert min(counts.values()) > 45, counts
    params = [subnet_cost(subnet, SPACES[MICRO].frame).params for subnet in from_scratch()]
    assert max(params) > 7 * min(params)


def test_golden_first_of_the_sample() -> None:
    """Rows of the table were measured for this sample: it must not be drawn anew."""
    assert drawn(MICRO, 1)[0].text == (
        "autoformer(embed_dim=24, heads=[2, 4, 2, 3], mlp_ratios=[2, 4, 2, 1], head_dim=12)"
    )


def test_rows_follow_from_subnets() -> None:
    rows = {row["key"]: row for row in architecture_rows()}
    assert len(rows) == sum(SAMPLES.values()) + len(PUBLISHED_SUBNETS)
    for published in PUBLISHED_SUBNETS.values():
        row = rows[published.subnet.key]
        assert (row["names"], row["is_named"], row["kind"]) == ([published.name], True, "subnet")
        assert read_architecture(row["text"]) == published.subnet
    costs = {(row["key"], row["backbone"]): row for row in cost_rows()}
    assert {key for key, _ in costs} == set(rows)
    tiny_row = costs[PUBLISHED_SUBNETS["AutoFormer-T"].subnet.key, "autoformer-tiny"]
    assert (tiny_row["params"], tiny_row["step_ms"]) == (5_867_944, None)


def test_it_adds_to_a_release_once_and_keeps_what_is_there(tmp_path: Path, capsys) -> None:
    data = tiny.write(tmp_path / "data")
    before = {name: read_table(data, name, read_manifest(data)).to_pylist() for name in ("architectures", "costs")}
    contents = []
    for _ in range(2):
        assert main(["--data", str(data)]) == 0
        contents.append([(data / f"{name}.parquet").read_bytes() for name in ("architectures", "costs")])
    assert contents[0] == contents[1]
    assert "2012 subnets, 12 of them published" in capsys.readouterr().out
    assert verify(data).ok, verify(data).problems
    for name, rows in before.items():
        after = read_table(data, name, read_manifest(data)).to_pylist()
        assert all(row in after for row in rows)
        assert len(after) == len(rows) + 2012


def test_a_missing_release_is_named(tmp_path: Path, capsys) -> None:
    assert main(["--data", str(tmp_path)]) == 1
    assert "manifest.json" in capsys.readouterr().err


def test_other_builders_keep_subnets_and_do_not_take_them_for_formulas(tmp_path: Path, monkeypatch) -> None:
    data = tiny.write(tmp_path / "data")
    assert listed_subnets(tmp_path) == []
    few = architecture_rows()[-2:]
    version = read_manifest(data).data_version
    write_release(data, {"architectures": [*tiny.tables()["architectures"][:1], *few]}, version)
    monkeypatch.setattr("builders.check.both_rejections", lambda draws: [])
    assert check_main(["--data", str(data)]) == 0
    assert listed_subnets(data) == sorted(few, key=lambda row: row["key"])
    monkeypatch.setattr("builders.enumerate.candidates", lambda *_, **__: tiny.tables()["architectures"])
    assert enumerate_main(["--data", str(data)]) == 0
    rows = read_table(data, "architectures", read_manifest(data)).to_pylist()
    assert Counter(row["kind"] for row in rows) == {"attention": 6, "subnet": 2}
    write_release(data, {"cells": tiny.tables()["cells"]}, version)
    found = candidates(data)
    assert not {row["text"] for row in few} & {
        text for kind in ("in_grid", "is_named", "is_wild") for text in found[kind]
    }


def test_the_from_scratch_runs_are_wanted_of_their_protocol_only() -> None:
    formulas = {"from_scratch": ["a", "b"], "in_grid": [], "is_named": [], "is_wild": []}
    wanted = [(run.text, run.seed) for run in most_wanted(formulas, ["autoformer-micro", "deit"], "micro-scratch")]
    assert wanted == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert not list(most_wanted(formulas, ["autoformer-micro"], "fmnist-micro"))
