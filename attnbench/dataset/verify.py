"""Is a release whole and true to its rules? Checksums, schema, identities, keys from texts, and what a run may say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from attnbench.dataset.columns import Columns
from attnbench.dataset.files import read_manifest, read_table
from attnbench.dataset.schema import INHERITED_PROTOCOLS, KINDS, PROTOCOL_CLASSES, STATUSES, TABLES
from attnbench.errors import DataError, InvalidGraph, InvalidSubnet

_SHOWN = 5


@dataclass(frozen=True)
class Problem:
    """One broken rule: the table, the rule's name, and what was found."""

    table: str
    rule: str
    message: str


@dataclass(frozen=True)
class Report:
    """What `verify` found; `rows` counts the rows of every table that could be read."""

    directory: str
    data_version: str
    rows: Mapping[str, int]
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(directory: Path) -> Report:
    """Checks every rule of a release. Nothing is raised for a broken one: it is in the report."""
    try:
        manifest = read_manifest(directory)
    except DataError as error:
        return Report(str(directory), "unknown", {}, (Problem("manifest", "files", str(error)),))
    tables: dict[str, Columns] = {}
    problems: list[Problem] = []
    for name in TABLES:
        try:
            tables[name] = Columns(read_table(directory, name, manifest))
        except DataError as error:
            problems.append(Problem(name, "files", str(error)))
    for name, columns in tables.items():
        if name in manifest.tables and columns.table.num_rows != manifest.tables[name].rows:
            listed = manifest.tables[name].rows
            problems.append(Problem(name, "row count", f"{columns.table.num_rows} rows, the manifest lists {listed}"))
        problems += row_problems(name, columns)
    if "architectures" in tables:
        known = set(tables["architectures"]["key"])
        for name in tables:
            if "key" in TABLES[name].column_names:
                strangers = sorted(set(tables[name]["key"]) - known)
                problems += _some(name, "keys known", strangers, "keys that architectures lacks")
    problems += _key_problems(tables)
    rows = {name: columns.table.num_rows for name, columns in tables.items()}
    return Report(str(directory), manifest.data_version, rows, tuple(problems))


def _some(table: str, rule: str, found: list[str], what: str) -> list[Problem]:
    if not found:
        return []
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return [Problem(table, rule, f"{len(found)} {what}: {'; '.join(found[:_SHOWN])}{more}")]


def row_problems(name: str, columns: Columns) -> Iterator[Problem]:
    """The broken rules that a table shows by itself, without the others and without its texts being parsed."""
    table = TABLES[name]
    for column in table.columns:
        if not column.nullable and columns.table.column(column.name).null_count:
            yield Problem(name, "no null", f"column {column.name} holds null")
    identities = Counter(zip(*(columns[c] for c in table.identity), strict=True))
    doubled = [str(identity) for identity, count in identities.items() if count > 1]
    yield from _some(name, "identity", doubled, f"rows that are not one per ({', '.join(table.identity)})")
    if {"key", "backbone"} <= set(table.column_names):
        yield from _backbone_problems(name, columns)
    if name in _RULES:
        yield from _RULES[name](columns)


def _architecture_problems(table: Columns) -> Iterator[Problem]:
    names = Counter(name.casefold() for names in table["names"] for name in names)
    yield from _some("architectures", "names", [n for n, count in names.items() if count > 1], "names of several rows")
    kinds = [
        f"{key}: {kind}"
        for key, kind in zip(table["key"], table["kind"], strict=True)
        if kind not in KINDS or (kind == "subnet") != key.startswith("sn")
    ]
    yield from _some("architectures", "kind", kinds, f"kinds outside {', '.join(KINDS)}, or other than the key says")
    unclear = [
        key
        for key, sound, failed in zip(table["key"], table["is_sound"], table["failed_checks"], strict=True)
        if sound is not None and sound == bool(failed)
    ]
    yield from _some("architectures", "soundness", unclear, "rows whose is_sound and failed_checks disagree")


def _key_problems(tables: Mapping[str, Columns]) -> Iterator[Problem]:
    """Every key is what its row's text says today."""
    from attnbench.space.architecture import read_architecture

    keys: dict[str, str] = {}
    for name, table in tables.items():
        if not {"key", "text"} <= set(TABLES[name].column_names):
            continue
        wrong = []
        for key, text in sorted(set(zip(table["key"], table["text"], strict=True))):
            if text not in keys:
                try:
                    keys[text] = read_architecture(text).key
                except InvalidGraph as error:
                    keys[text] = f"no graph ({error.reason})"
                except InvalidSubnet as error:
                    keys[text] = f"no subnet ({error})"
            if keys[text] != key:
                wrong.append(f"{text} is {keys[text]}, stored as {key}")
        yield from _some(name, "keys derivable", wrong, "rows whose key does not follow from their text")


def _backbone_problems(name: str, table: Columns) -> Iterator[Problem]:
    """Subnets stand in their space, attention in a backbone."""
    from attnbench.space.subnet_named import SPACES

    pairs = sorted(set(zip(table["key"], table["backbone"], strict=True)))
    odd = [f"{key} on {backbone}" for key, backbone in pairs if key.startswith("sn") != (backbone in SPACES)]
    yield from _some(name, "backbone", odd, "attentions in a space of subnets, or subnets outside every space")


def _run_problems(runs: Columns) -> Iterator[Problem]:
    rules: dict[str, Callable[[int], bool]] = {
        "status": lambda i: runs["status"][i] in STATUSES,
        "protocol": lambda i: runs["protocol"][i] in PROTOCOL_CLASSES,
        "seed": lambda i: runs["seed"][i] >= 0,
        "time": lambda i: _is_time(runs["finished_at"][i]),
        "curves of one length": lambda i: len(runs["val_curve"][i]) == len(runs["val_loss_curve"][i]),
        "validation is the curve's end": lambda i: (
            runs["status"][i] == "diverged" or runs["val_curve"][i][-1:] == (runs["val_top1_percent"][i],)
        ),
        "diverged has no validation": lambda i: (
            (runs["status"][i] == "diverged") == (runs["val_top1_percent"][i] is None)
        ),
        "test only when ok": lambda i: (
            (runs["status"][i] == "ok" and runs["protocol"][i] not in INHERITED_PROTOCOLS)
            == (runs["test_top1_percent"][i] is not None)
        ),
        "percent": lambda i: (
            not any(
                value < 0 or value > 100  # NaN, in the curve of a run that diverged, is neither
                for value in (*runs["val_curve"][i], runs["val_top1_percent"][i], runs["test_top1_percent"][i])
                if value is not None
            )
        ),
        "finite": lambda i: runs["status"][i] != "ok" or all(map(math.isfinite, runs["val_loss_curve"][i])),
    }
    for rule, holds in rules.items():
        broken = [_name(runs, i) for i in range(runs.table.num_rows) if not holds(i)]
        yield from _some("runs", rule, broken, "rows that break this rule")
    hashes: dict[tuple[str, str], set[str]] = {}
    for backbone, protocol, value in zip(runs["backbone"], runs["protocol"], runs["protocol_hash"], strict=True):
        hashes.setdefault((backbone, protocol), set()).add(value)
    mixed = [
        f"{backbone}, {protocol}: {sorted(found)}" for (backbone, protocol), found in hashes.items() if len(found) > 1
    ]
    yield from _some("runs", "one recipe", mixed, "backbones and protocols with several protocol hashes")


def _is_time(stamp: str) -> bool:
    """Whether it is a date and time of ISO 8601."""
    try:
        datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    except ValueError:
        return False
    return True


def _latency_problems(table: Columns) -> Iterator[Problem]:
    measured = zip(table["key"], table["n_tokens"], table["latency_ms"], table["peak_bytes"], strict=True)
    odd = [f"{key} N={n}" for key, n, ms, peak in measured if n < 1 or not 0 < ms < math.inf or peak < 0]
    yield from _some("latency", "positive", odd, "rows whose tokens, time or memory cannot be")


def _published_problems(table: Columns) -> Iterator[Problem]:
    figures = zip(table["model"], table["metric"], table["value"], table["unit"], table["source"], strict=True)
    odd = [
        f"{model}, {metric}: {value} {unit}"
        for model, metric, value, unit, source in figures
        if not (0 <= value < math.inf) or (unit == "percent" and value > 100) or not source
    ]
    yield from _some("published", "figures", odd, "figures out of range or without a source")


def _name(runs: Columns, row: int) -> str:
    return f"{runs['key'][row]} {runs['backbone'][row]} seed {runs['seed'][row]}"


def _cell_problems(cells: Columns) -> Iterator[Problem]:
    identity = TABLES["cells"].identity
    full = math.prod(len(set(cells[name])) for name in identity)
    if cells.table.num_rows and cells.table.num_rows != full:
        yield Problem("cells", "closed grid", f"{cells.table.num_rows} cells; all combinations would be {full}")


# What a table's rows must hold beyond the schema.
_RULES: Mapping[str, Callable[[Columns], Iterator[Problem]]] = {
    "architectures": _architecture_problems,
    "cells": _cell_problems,
    "latency": _latency_problems,
    "published": _published_problems,
    "runs": _run_problems,
}
