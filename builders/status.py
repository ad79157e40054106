"""What the campaign has measured, what it lacks, and how long that takes: `python -m builders status`."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from attnbench.dataset.files import read_manifest, read_table
from attnbench.dataset.schema import STATUSES
from attnbench.errors import AttnBenchError
from attnbench.space.architecture import read_architecture
from builders.campaign import ORDERS, Row, campaign_backbones, candidates, order
from builders.shards import DATA, stored_rows

N_RECENT = 200
PAUSE_SECONDS = 600  # rows further apart belong to two sittings


@dataclass(frozen=True)
class Progress:
    """How much of one class there is on one backbone with one seed; classes overlap."""

    protocol: str
    backbone: str
    kind: str
    seed: int
    wanted: int
    rows: int
    statuses: dict[str, int]


@dataclass(frozen=True)
class Pace:
    """How fast a backbone's rows come. Null where there are no rows to tell.

    train_seconds: median of a run, without evaluation; the recent figures are from the times at which rows were
    finished, with everything. recent_workers: the most that were at work at once. remaining_hours: of the
    missing runs with the workers asked about, at the recent pace, else by train_seconds.
    """

    protocol: str
    backbone: str
    wanted: int
    missing: int
    train_seconds: float | None
    rows_per_core_hour: float | None
    recent_rows_per_hour: float | None
    recent_workers: int | None
    recent_rows_per_core_hour: float | None
    remaining_hours: float | None


@dataclass(frozen=True)
class Sitting:
    """The last runs that were trained without a pause in between."""

    rows_per_hour: float
    workers: int


def last_sitting(rows: Iterable[dict[str, Any]]) -> Sitting | None:
    """Pace of the last rows, by `finished_at`; None where fewer than two rows, or no time, tell it."""
    runs = sorted((_seconds(row["finished_at"]), row["key"], row["train_seconds"]) for row in rows)[-N_RECENT:]
    start = max((i for i in range(1, len(runs)) if runs[i][0] - runs[i - 1][0] > PAUSE_SECONDS), default=0)
    runs = runs[start:]
    if len(runs) < 2 or runs[-1][0] == runs[0][0]:
        return None
    # Seeds that one worker trained in one pass end together, and each has its share of the time.
    units: Counter[tuple[float, str]] = Counter()
    for end, key, seconds in runs:
        units[end, key] += seconds
    # A worker's runs never overlap, and the time between them, when it evaluates, is not known: hence the most.
    in_flight = max(
        sum(other - took <= end - seconds / 2 <= other for (other, _), took in units.items())
        for (end, _), seconds in units.items()
    )
    return Sitting(3600 * (len(runs) - 1) / (runs[-1][0] - runs[0][0]), in_flight)


def _seconds(stamp: str) -> float:
    """Raises: ValueError."""
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def keys_of_candidates(data: Path) -> dict[str, list[str]]:
    """The campaign's classes as keys. Raises: DataError."""
    table = read_table(data, "architectures", read_manifest(data))
    known = dict(zip(table.column("text").to_pylist(), table.column("key").to_pylist(), strict=True))
    return {
        kind: [known.get(text) or read_architecture(text).key for text in texts]
        for kind, texts in candidates(data).items()
    }


def status(data: Path, protocols: Sequence[str], workers: int) -> dict[str, Any]:
    """The report, as what `--json` prints. Raises: DataError (no release, a damaged table or shard)."""
    from attnbench.nn.frozen import FROZEN, run_hash

    facts = [*Row._fields, "protocol", "status", "train_seconds", "finished_at"]
    stored = stored_rows(data, "runs").select(facts).to_pylist()
    stored.sort(key=lambda row: row["finished_at"], reverse=True)
    rows = {Row(*(row[name] for name in Row._fields)): row for row in stored}  # of a doubled run the earliest
    keys = keys_of_candidates(data)
    classes: list[Progress] = []
    paces: list[Pace] = []
    not_frozen: list[str] = []
    for protocol in protocols:
        backbones, left_out = campaign_backbones(FROZEN.get(protocol, {}), protocol)
        not_frozen += [f"{protocol} on {backbone}" for backbone in left_out]
        for backbone in backbones:
            found = run_hash(protocol, backbone)
            wanted: dict[Row, None] = {}
            for wish in order(protocol):
                if wish.backbone == backbone:
                    for seed in wish.seeds:
                        names = [Row(key, backbone, found, seed) for key in dict.fromkeys(keys[wish.kind])]
                        wanted |= dict.fromkeys(names)
                        statuses = Counter(rows[name]["status"] for name in names if name in rows)
                        counts = {name: statuses[name] for name in STATUSES}
                        classes.append(
                            Progress(protocol, backbone, wish.kind, seed, len(names), statuses.total(), counts)
                        )
            of_backbone = [row for name, row in rows.items() if name[1:3] == (backbone, found)]
            paces.append(pace(protocol, backbone, len(wanted), len(wanted.keys() - rows.keys()), of_backbone, workers))
    hashes = {(name, on, found) for name in ORDERS for on, found in FROZEN.get(name, {}).items()}
    others = Counter((row["protocol"], row["backbone"], row["protocol_hash"]) for row in rows.values())
    hours = [pace.remaining_hours for pace in paces]
    return {
        "classes": [asdict(progress) for progress in classes],
        "backbones": [asdict(pace) for pace in paces],
        "not_frozen": not_frozen,
        "other_rows": [
            {"protocol": name[0], "backbone": name[1], "protocol_hash": name[2], "rows": count}
            for name, count in sorted(others.items())
            if name not in hashes
        ],
        "workers": workers,
        "remaining_hours": sum(hour for hour in hours if hour is not None),
        "without_pace": [f"{pace.protocol} on {pace.backbone}" for pace in paces if pace.remaining_hours is None],
    }


def pace(
    protocol: str, backbone: str, wanted: int, n_missing: int, rows: Sequence[dict[str, Any]], workers: int
) -> Pace:
    """How fast the rows came, and what the missing ones take."""
    train_seconds = median(row["train_seconds"] for row in rows) if rows else None
    by_training = 3600 / train_seconds if train_seconds else None
    sitting = last_sitting(rows)
    recent = sitting.rows_per_hour / sitting.workers if sitting else None
    rate = recent or by_training
    return Pace(
        protocol=protocol,
        backbone=backbone,
        wanted=wanted,
        missing=n_missing,
        train_seconds=train_seconds,
        rows_per_core_hour=by_training,
        recent_rows_per_hour=sitting.rows_per_hour if sitting else None,
        recent_workers=sitting.workers if sitting else None,
        recent_rows_per_core_hour=recent,
        remaining_hours=0.0 if not n_missing else n_missing / rate / workers if rate else None,
    )


def show(report: dict[str, Any]) -> None:
    """The report as tables."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=140)
    table = Table("protocol", "backbone", "class", title="Rows of the campaign", title_justify="left")
    for name in ("seed", "rows", "wanted", *STATUSES):
        table.add_column(name, justify="right")
    for row in report["classes"]:
        counts = (row["seed"], row["rows"], row["wanted"], *row["statuses"].values())
        table.add_row(row["protocol"], row["backbone"], row["kind"], *map(str, counts))
    console.print(table)
    table = Table("protocol", "backbone", title="Pace", title_justify="left")
    for name in ("missing", "wanted", "s a run", "rows / core h", "recently / h", "with", "/ core h", "hours left"):
        table.add_column(name, justify="right")
    for row in report["backbones"]:
        figures = (
            (row["missing"], "d"),
            (row["wanted"], "d"),
            (row["train_seconds"], ".1f"),
            (row["rows_per_core_hour"], ".0f"),
            (row["recent_rows_per_hour"], ".0f"),
            (row["recent_workers"], "d"),
            (row["recent_rows_per_core_hour"], ".0f"),
            (row["remaining_hours"], ".1f"),
        )
        shown = ("?" if value is None else format(value, form) for value, form in figures)
        table.add_row(row["protocol"], row["backbone"], *shown)
    console.print(table)
    for row in report["other_rows"]:
        console.print("beside the campaign: {rows} rows of {protocol} on {backbone}, {protocol_hash}".format(**row))
    if report["not_frozen"]:
        console.print(f"not frozen, left out: {', '.join(report['not_frozen'])}")
    console.print(f"{report['remaining_hours']:.1f} hours left with {report['workers']} workers")
    if report["without_pace"]:
        console.print(f"and what no row tells yet: {', '.join(report['without_pace'])}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m builders status", description=__doc__)
    parser.add_argument("--protocol", action="append", choices=list(ORDERS), help="repeat for several; default: all")
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count() or 1), help="for the hours that are left")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    args = parser.parse_args(argv)
    if args.workers < 1:
        parser.error(f"--workers must be 1 or more to finish anything; it was {args.workers}")
    try:
        report = status(args.data, args.protocol or list(ORDERS), args.workers)
    except (AttnBenchError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)
    return 0
