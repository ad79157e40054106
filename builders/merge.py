"""Makes a data release: takes the fresh shards into the tables, then removes them. `python -m builders merge`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnbench.dataset.files import MANIFEST, finish_release, read_manifest, read_table, write_release
from attnbench.dataset.schema import TABLES
from attnbench.errors import AttnBenchError, DataError
from attnbench.space.architecture import read_architecture
from builders.shards import DATA, MEASURED, only_builder, read_shards, shard_paths

Rows = list[dict[str, Any]]


def merged(released: Rows, fresh: Rows, identity: Sequence[str]) -> Rows:
    """One row per identity: the released one, else the earliest fresh one."""
    kept: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in [*released, *sorted(fresh, key=lambda row: row.get("finished_at", ""))]:
        kept.setdefault(tuple(row[column] for column in identity), row)
    return list(kept.values())


def rekeyed(rows: Rows) -> Rows:
    """Rows with the key that today's rules give to their text: rows belong to formulas, keys are derived."""
    return [row | {"key": read_architecture(row["text"]).key} for row in rows]


def release(data: Path, version: str) -> dict[str, tuple[int, int]]:
    """Writes the release and removes the shards it took in.

    Returns: rows before and after, per table. Raises: DataError (a damaged shard, a row of an unknown architecture).
    """
    manifest = read_manifest(data)
    known = set(read_table(data, "architectures", manifest).column("key").to_pylist())
    tables: dict[str, Rows] = {}
    counts: dict[str, tuple[int, int]] = {}
    taken: list[Path] = []
    for name in MEASURED:
        taken += shard_paths(data, name)
        before = read_table(data, name, manifest).to_pylist()
        rows = merged(rekeyed(before), read_shards(data, name).to_pylist(), TABLES[name].identity)
        strangers = sorted({row["text"] for row in rows if row["key"] not in known})
        if strangers:
            raise DataError(
                f"{len(strangers)} formulas of {name} are not in the table `architectures`, such as {strangers[0]!r}: "
                "run `python -m builders enumerate`, or train only what it lists"
            )
        tables[name], counts[name] = rows, (len(before), len(rows))
    write_release(data, tables, version)
    # Only now: until the manifest is in place, the shards are the only whole copy. Those that a killed merge leaves are
    # rows that the release has, and go with the next one.
    for path in taken:
        path.unlink()
    return counts


def next_version(version: str) -> str:
    """The data version after a patch: 0.1.0 becomes 0.1.1."""
    numbers = [int(part) for part in version.split("-")[0].split(".")]
    major, minor, patch = (*numbers, 0, 0)[:3]
    return f"{major}.{minor}.{patch + 1}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m builders merge", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    parser.add_argument("--version", help="data version of the release; default: the next patch")
    args = parser.parse_args(argv)
    try:
        with only_builder(args.data):
            finish_release(args.data)
            if not (args.data / MANIFEST).is_file():
                raise DataError(f"{args.data} has no {MANIFEST}: run `python -m builders enumerate` first")
            version = args.version or next_version(read_manifest(args.data).data_version)
            counts = release(args.data, version)
    except (AttnBenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, (before, after) in counts.items():
        print(f"{name}: {before} rows, now {after}")
    print(f"data version {version}")
    return 0
