"""Tables on disk: where they are found, the manifest that vouches for them, writes that are whole or can be finished.

A release is a directory with `manifest.json` and one Parquet file per table. The manifest holds the data version,
the schema version and, for every table, its file, sha256, rows and bytes. A table is hashed whenever it is read,
so that a damaged file is an error and never a wrong number.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnbench.dataset.atomic import only_writer, replacing
from attnbench.dataset.schema import TABLES
from attnbench.dataset.table import READABLE_VERSIONS, SCHEMA_VERSION, Table
from attnbench.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"
_PENDING = ".manifest.json.next"  # vouches for tables that still lie beside their places
DATA_SETTING = "ATTNBENCH_DATA"
_WAY_OUT = (
    "Install attnbench again for its own tables, fetch a release with `attnbench download ADDRESS`, "
    f"or point load(...) or {DATA_SETTING} at a directory that holds one."
)


@dataclass(frozen=True)
class FileInfo:
    """What the manifest says of one table's file."""

    file: str
    sha256: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Manifest:
    """The contents of one data release."""

    data_version: str
    schema_version: int
    tables: Mapping[str, FileInfo]


def find_data() -> Path:
    """The directory of the tables that came with the package: in the wheel, else the checkout's `data/`.

    Raises: DataError where neither holds a manifest.
    """
    package = Path(__file__).resolve().parent.parent
    places = (package / "data", package.parent / "data")
    for place in places:
        if (place / MANIFEST).is_file():
            return place
    raise DataError(f"no tables came with this attnbench: no {MANIFEST} in {places[0]} or {places[1]}. {_WAY_OUT}")


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a release, with every table's file present in its full length.

    Raises: DataError (missing or unreadable manifest, other schema version, missing or cut file).
    """
    path = directory / MANIFEST
    try:
        if not path.is_file():
            raise DataError(f"{directory} is no data release: it has no {MANIFEST}. {_WAY_OUT}")
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. {_WAY_OUT}") from None
    manifest = parse_manifest(content, str(path))
    for info in manifest.tables.values():
        file = directory / info.file
        if not file.is_file():
            raise DataError(f"{file} is missing, though {MANIFEST} lists it. {_WAY_OUT}")
        if file.stat().st_size != info.bytes:
            why = "it was cut short or changed"
            if (directory / _PENDING).is_file():
                why = "writing the next release was interrupted, `python -m builders merge` finishes it"
            raise DataError(f"{file} has {file.stat().st_size} bytes, {MANIFEST} says {info.bytes}: {why}. {_WAY_OUT}")
    return manifest


def parse_manifest(content: bytes, where: str) -> Manifest:
    """A manifest from its JSON; `where` names it in errors.

    Raises: DataError (not JSON, fields missing, other schema version, unknown table, a file name with a path).
    """
    try:
        raw = json.loads(content)
        version, schema_version = str(raw["data_version"]), int(raw["schema_version"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(f"{where} is no manifest ({type(error).__name__}: {error}). {_WAY_OUT}") from None
    if schema_version not in READABLE_VERSIONS:
        newer = "Upgrade attnbench" if schema_version > SCHEMA_VERSION else "Fetch a newer data release"
        readable = " and ".join(map(str, READABLE_VERSIONS))
        raise DataError(f"{where} has schema version {schema_version}; this attnbench reads {readable}. {newer}.")
    try:
        tables = {name: FileInfo(**info) for name, info in raw["tables"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{where} lists no usable tables ({type(error).__name__}: {error}). {_WAY_OUT}") from None
    for name, info in tables.items():
        if name not in TABLES or info.file != f"{name}.parquet":
            raise DataError(
                f"{where} lists table {name!r} in file {info.file!r}; expected one of "
                f"{', '.join(f'{table}.parquet' for table in TABLES)}. {_WAY_OUT}"
            )
        if type(info.bytes) is not int or info.bytes < 0:
            raise DataError(f"{where} gives {info.file} a length of {info.bytes!r:.40}; expected bytes. {_WAY_OUT}")
    return Manifest(version, schema_version, tables)


def read_table(directory: Path, name: str, manifest: Manifest) -> pa.Table:
    """One table of a release, checked against the manifest and the schema; without rows where it is not listed.

    Raises: DataError (changed content, no Parquet, other columns than the schema's).
    """
    table = TABLES[name]
    if name not in manifest.tables:
        return table.arrow.empty_table()
    info = manifest.tables[name]
    path = directory / info.file
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. {_WAY_OUT}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != info.sha256:
        raise DataError(
            f"{path} was changed: its sha256 is {found}, {MANIFEST} says {info.sha256}. "
            f"`attnbench verify` lists all that differs. {_WAY_OUT}"
        )
    return parse_table(content, table, str(path))


def parse_table(content: bytes, table: Table, where: str, *, shard: bool = False) -> pa.Table:
    """A table (or a fresh shard of it) from the bytes of a Parquet file.

    Raises: DataError (no Parquet, other columns than the schema's).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = table.shard if shard else table.arrow
    way_out = "Copy it again from where it was measured, or move it away." if shard else _WAY_OUT
    try:
        # Not read_table: it loads pyarrow.dataset, and that loads pandas.
        rows = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{where} is no whole Parquet file ({error}). {way_out}") from None
    if not rows.schema.equals(schema):
        have, want = set(map(str, rows.schema)), set(map(str, schema))
        raise DataError(
            f"{where} has other columns than schema version {SCHEMA_VERSION} of {table.name}: "
            f"unexpected {sorted(have - want)}, missing {sorted(want - have)}. {way_out}"
        )
    return rows


def to_arrow(rows: Iterable[Mapping[str, Any]] | pa.Table, table: Table, *, shard: bool = False) -> pa.Table:
    """Rows as a table of the schema (of its shard, without `key`, on request), every value checked.

    Raises: DataError (columns missing or unknown, values of another type, null where the schema allows none).
    """
    import pyarrow as pa

    schema = table.shard if shard else table.arrow
    if isinstance(rows, pa.Table):
        given = [set(rows.column_names)]
    else:
        rows = list(rows)
        given = [set(row) for row in rows]
    for number, names in enumerate(given):
        if names != set(schema.names):
            raise DataError(
                f"row {number} for {table.name} has other columns than the schema: "
                f"unknown {sorted(names - set(schema.names))}, missing {sorted(set(schema.names) - names)}."
            )
    try:
        if isinstance(rows, pa.Table):
            made = rows.select(schema.names).cast(schema)
        else:
            made = pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"rows for {table.name} do not fit the schema: {error}") from None
    for field in schema:
        if not field.nullable and made.column(field.name).null_count:
            raise DataError(f"column {field.name} of {table.name} holds null, which the schema does not allow there.")
    return made


def write_table(
    path: Path, rows: Iterable[Mapping[str, Any]] | pa.Table, table: Table, *, shard: bool = False
) -> pa.Table:
    """Writes rows as Parquet (zstd), beside and then into place: a reader sees the old file or the new one.

    Returns: the table written. Raises: DataError (see `to_arrow`), DiskFull.
    """
    import pyarrow.parquet as pq

    made = to_arrow(rows, table, shard=shard)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as beside:
        pq.write_table(made, beside, compression="zstd")
    return made


def write_release(
    directory: Path, tables: Mapping[str, Iterable[Mapping[str, Any]] | pa.Table], data_version: str | None = None
) -> Manifest:
    """Writes some tables of a release, sorted by their identity, then the manifest over all tables present.

    Tables not given stay as they are, and without a data version the release keeps its own. Killed at any moment, it
    leaves the old release, or one that `finish_release` makes the new one. One process writes at a time, others wait.
    Raises: DataError (see `to_arrow`, `read_manifest`).
    """
    made = {name: to_arrow(rows, TABLES[name]) for name, rows in tables.items()}
    directory.mkdir(parents=True, exist_ok=True)
    with only_writer(directory):
        _finish(directory)
        for name, rows in made.items():
            table = TABLES[name]
            write_table(_beside(directory, name), rows.sort_by([(c, "ascending") for c in table.identity]), table)
        # Read only now: another builder may have made a release meanwhile.
        version = data_version or read_manifest(directory).data_version
        manifest = _write_manifest(directory, version, _PENDING)
        _finish(directory)
    return manifest


def finish_release(directory: Path) -> None:
    """Completes a release whose writing was cut short: all of its tables were written, not all were in place.

    What was not yet vouched for is dropped: the release before it is still whole.
    """
    with only_writer(directory):
        _finish(directory)


def write_manifest(directory: Path, data_version: str) -> Manifest:
    """Writes `manifest.json` over the tables that lie in a directory. Raises: DataError (a file that is no table)."""
    return _write_manifest(directory, data_version, MANIFEST)


def _write_manifest(directory: Path, data_version: str, file: str) -> Manifest:
    infos = {}
    for name, table in TABLES.items():
        place, beside = directory / f"{name}.parquet", _beside(directory, name)
        path = beside if beside.is_file() else place
        if path.is_file():
            content = path.read_bytes()
            rows = parse_table(content, table, str(path)).num_rows
            infos[name] = FileInfo(place.name, hashlib.sha256(content).hexdigest(), rows, len(content))
    manifest = Manifest(data_version, SCHEMA_VERSION, infos)
    with replacing(directory / file) as fresh:
        fresh.write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
    return manifest


def _beside(directory: Path, name: str) -> Path:
    return directory / f".{name}.parquet.next"


def _finish(directory: Path) -> None:
    """Moves the tables of a pending manifest into place, the manifest last; without one, drops what lies beside."""
    pending = directory / _PENDING
    vouched = pending.is_file()
    for name in TABLES:
        beside = _beside(directory, name)
        if vouched and beside.is_file():
            os.replace(beside, directory / f"{name}.parquet")
        beside.unlink(missing_ok=True)
    for half_written in directory.glob(".*.next.*.tmp"):
        half_written.unlink()
    if vouched:
        os.replace(pending, directory / MANIFEST)
