"""Makes a data release: takes the fresh shards into the tables, then removes them. `python -m builders merge`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnbench.dataset.columns import Columns
from attnbench.dataset.files import MANIFEST, finish_release, read_manifest, read_table, to_arrow, write_release
from attnbench.dataset.schema import TABLES
from attnbench.dataset.verify import row_problems
from attnbench.errors import AttnBenchError, DataError
from attnbench.nn.frozen_hashes import FROZEN
from attnbench.space.architecture import read_architecture
from builders.options import data_version
from builders.shards import DATA, MEASURED, only_builder, read_shard, read_shards, shard_paths

if TYPE_CHECKING:
    import pyarrow as pa

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

    Returns: rows before and after, per table.
    Raises: DataError (a damaged shard, a row that breaks a rule, of an unknown architecture or of another recipe).
    """
    manifest = read_manifest(data)
    known = set(read_table(data, "architectures", manifest).column("key").to_pylist())
    tables: dict[str, pa.Table] = {}
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
        tables[name], counts[name] = to_arrow(rows, TABLES[name]), (len(before), len(rows))
        refuse_broken(data, name, tables[name])
    if data.resolve() == DATA:
        refuse_unfrozen(tables["runs"])
    write_release(data, tables, version)
    # Only now: until the manifest is in place, the shards are the only whole copy. Those that a killed merge leaves are
    # rows that the release has, and go with the next one.
    for path in taken:
        path.unlink()
    return counts


def refuse_broken(data: Path, name: str, rows: pa.Table) -> None:
    """Raises: DataError where the rows break a rule of their table, with the shards that do so by themselves."""
    problems = list(row_problems(name, Columns(rows)))
    if problems:
        paths = [path for path in shard_paths(data, name) if any(row_problems(name, Columns(read_shard(path, name))))]
        found = f"; found in {', '.join(map(str, paths))}" if paths else ""
        raise DataError(
            f"{name} would break the rule {problems[0].rule!r}: {problems[0].message}{found}. Nothing was merged: "
            "correct the rows where they were measured, or move their shards away."
        )


def refuse_unfrozen(runs: pa.Table) -> None:
    """Raises: DataError for runs of the table whose recipe is not the frozen one of their backbone."""
    recipes = runs.select(["protocol", "backbone", "protocol_hash"]).to_pydict().values()
    for protocol, backbone, found in sorted(set(zip(*recipes, strict=True))):
        frozen = FROZEN.get(protocol, {}).get(backbone)
        if found != frozen:
            raise DataError(
                f"runs of {protocol} on {backbone} have the recipe {found}, and frozen is {frozen or 'none'}. Nothing "
                "was merged; move their shards into a --data directory of their own."
            )


def version_after(version: str, asked: str | None) -> str:
    """The data version of the next release. Raises: DataError where the one asked for is not higher than this one."""
    if asked is not None and numbers_of(asked) <= numbers_of(version):
        raise DataError(f"--version {asked} is not higher than {version}, which this release has already.")
    return asked or next_version(version)


def numbers_of(version: str) -> tuple[int, ...]:
    """Major, minor, patch; what stands behind a hyphen does not count."""
    numbers = [int(part) for part in version.split("-")[0].split(".")]
    return (*numbers, 0, 0)[:3]


def next_version(version: str) -> str:
    """The data version after a patch: 0.1.0 becomes 0.1.1."""
    major, minor, patch = numbers_of(version)
    return f"{major}.{minor}.{patch + 1}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m builders merge", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    parser.add_argument("--version", type=data_version, help="data version of the release; default: the next patch")
    args = parser.parse_args(argv)
    try:
        with only_builder(args.data):
            finish_release(args.data)
            if not (args.data / MANIFEST).is_file():
                raise DataError(f"{args.data} has no {MANIFEST}: run `python -m builders enumerate` first")
            released = version_after(read_manifest(args.data).data_version, args.version)
            counts = release(args.data, released)
    except (AttnBenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, (before, after) in counts.items():
        print(f"{name}: {before} rows, now {after}")
    print(f"data version {released}")
    return 0
