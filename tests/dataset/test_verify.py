"""Verify: a good release passes, and every rule can fail."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnbench.dataset.files import write_release
from attnbench.dataset.verify import verify
from tests.dataset import tiny
from tests.dataset.tiny import ELU, SOFTMAX

Tables = dict[str, list[dict[str, Any]]]


def test_a_whole_release_passes(release: Path) -> None:
    report = verify(release)
    assert report.ok
    assert report.problems == ()
    assert report.rows == {name: len(rows) for name, rows in tiny.tables().items()}
    assert report.rows["runs"] == 12
    assert report.data_version == "0.0-test"


def doubled(tables: Tables) -> None:
    tables["costs"].append(tables["costs"][0])


def unknown_key(tables: Tables) -> None:
    tables["costs"][0]["key"] = "ag1-" + "0" * 32


def wrong_key(tables: Tables) -> None:
    tables["runs"][0]["text"] = ELU


def no_graph(tables: Tables) -> None:
    tables["proxies"][0]["text"] = "tanh(v)"


def no_subnet(tables: Tables) -> None:
    tables["latency"][0]["text"] = "pit(base_dim=8)"


def two_rows_of_one_name(tables: Tables) -> None:
    tables["architectures"][1]["names"] = ["SOFTMAX"]


def runs(**changes: Any) -> Callable[[Tables], None]:
    return lambda tables: tables["runs"][0].update(changes)


RULES = {
    "identity": (doubled, "costs", r"1 rows that are not one per \(key, backbone\): \('ag1-"),
    "keys known": (unknown_key, "costs", "1 keys that architectures lacks: ag1-000"),
    "keys derivable": (wrong_key, "runs", r"1 rows whose key does not follow from their text: elu1\(q\).* is ag1-"),
    "keys derivable, no graph": (no_graph, "proxies", r"tanh\(v\) is no graph \(.*\), stored as ag1-"),
    "keys derivable, no subnet": (no_subnet, "latency", r"no subnet \(pit got no depths.*\), stored as ag1-"),
    "names": (two_rows_of_one_name, "architectures", "1 names of several rows: softmax"),
    "kind": (lambda t: t["architectures"][0].update(kind="mlp"), "architectures", "1 kinds outside attention, subnet"),
    "backbone": (lambda t: t["costs"][0].update(backbone="pit-micro"), "costs", "1 attentions .*: ag1-.* on pit-micro"),
    "kind, of another key": (lambda t: t["architectures"][0].update(kind="subnet"), "architectures", "than the key"),
    "soundness": (lambda t: t["architectures"][0].update(is_sound=True), "architectures", "is_sound and failed_checks"),
    "status": (runs(status="fine", test_top1_percent=None), "runs", "1 rows that break this rule: ag1-.* deit seed 0"),
    "protocol": (runs(protocol="mine", protocol_hash="1"), "runs", "1 rows"),
    "curves of one length": (runs(val_loss_curve=[1.0]), "runs", "1 rows"),
    "validation is the curve's end": (runs(val_top1_percent=99.0), "runs", "1 rows"),
    "diverged has no validation": (runs(val_top1_percent=None), "runs", "1 rows"),
    "test only when ok": (runs(test_top1_percent=None), "runs", "1 rows"),
    "test only when ok, inherited": (runs(protocol="micro-entangled", protocol_hash="1"), "runs", "1 rows"),
    "percent": (runs(test_top1_percent=101.0), "runs", "1 rows"),
    "seed": (runs(seed=-5), "runs", "1 rows that break this rule: ag1-.* deit seed -5"),
    "time": (runs(finished_at="yesterday"), "runs", "1 rows"),
    "finite": (runs(val_loss_curve=[1.0, float("nan"), 1.0]), "runs", "1 rows"),
    "one recipe": (runs(protocol_hash="beef"), "runs", r"1 backbones and .*: deit, fmnist-micro: \['beef', 'f00d'\]"),
    "positive": (lambda t: t["latency"][0].update(latency_ms=0.0), "latency", "1 rows .* cannot be: ag1-.* N=64"),
    "figures": (lambda t: t["published"][0].update(value=722.0), "published", "1 figures .*: DeiT-T, top1: 722.0 per"),
    "figures, no source": (lambda t: t["published"][0].update(source=""), "published", "without a source: DeiT-T"),
    "closed grid": (lambda t: t["cells"][0].update(middle="l2norm"), "cells", "2 cells; all combinations would be 4"),
}


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_can_fail(release: Path, rule: str) -> None:
    damage, table, message = RULES[rule]
    tables = tiny.tables()
    damage(tables)
    write_release(release, tables, "0.1")
    problems = {problem.rule: problem for problem in verify(release).problems}
    found = problems[rule.partition(",")[0]]
    assert found.table == table
    assert re.search(message, found.message), found.message


def test_a_long_list_is_cut(release: Path) -> None:
    tables = tiny.tables()
    tables["runs"] += [tiny.run(SOFTMAX, seed, 80.0, status="odd") for seed in range(3, 12)]
    write_release(release, tables, "0.1")
    messages = [problem.message for problem in verify(release).problems if problem.rule == "status"]
    assert messages[0].startswith("9 rows that break this rule: ")
    assert messages[0].endswith(" and 4 more")


def test_damaged_files_are_reported_and_the_others_still_checked(release: Path) -> None:
    for name in ("runs", "cells"):
        path = release / f"{name}.parquet"
        content = bytearray(path.read_bytes())
        content[20] ^= 1
        path.write_bytes(content)
    report = verify(release)
    assert [(p.table, p.rule) for p in report.problems] == [("cells", "files"), ("runs", "files")]
    assert "sha256" in report.problems[0].message
    assert report.rows["architectures"] == 6


def test_row_count_and_null_are_checked_against_the_manifest(release: Path) -> None:
    path = release / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["tables"]["costs"]["rows"] = 3
    path.write_text(json.dumps(manifest))
    problem = verify(release).problems[0]
    assert (problem.rule, problem.message) == ("row count", "2 rows, the manifest lists 3")


def test_no_release_is_one_problem(tmp_path: Path) -> None:
    report = verify(tmp_path)
    assert not report.ok
    assert [(p.table, p.rule) for p in report.problems] == [("manifest", "files")]
    assert "is no data release" in report.problems[0].message
