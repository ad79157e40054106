"""Fresh rows in data/incoming: one content-named Parquet shard per unit of work, appended and never edited."""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnbench.dataset.files import MANIFEST, parse_table, read_manifest, read_table, write_table
from attnbench.dataset.schema import TABLES
from attnbench.errors import DataError, InvalidGraph, InvalidSubnet
from attnbench.space.architecture import read_architecture

if TYPE_CHECKING:
    import pyarrow as pa

DATA = Path(__file__).resolve().parent.parent / "data"
MEASURED = ("runs", "proxies", "latency")  # the tables whose rows arrive as shards


def finished_at() -> str:
    """Now, as the column of that name holds it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def incoming(data: Path) -> Path:
    return data / "incoming"


def write_shard(data: Path, table: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Writes rows as one shard, atomically, named by its content.

    Raises: DataError (rows that do not fit the schema), DiskFull.
    """
    content = json.dumps(rows, sort_keys=True).encode()
    path = incoming(data) / f"{table}-{hashlib.blake2b(content, digest_size=8).hexdigest()}.parquet"
    write_table(path, rows, TABLES[table], shard=True)
    return path


def shard_paths(data: Path, table: str) -> list[Path]:
    """The table's shards, in order of name."""
    return sorted(incoming(data).glob(f"{table}-*.parquet"))


def read_shards(data: Path, table: str) -> pa.Table:
    """All fresh rows of a table, with `key` derived from `text` by today's rules.

    Raises: DataError (a damaged shard, or a text that no longer parses, by the shard's name).
    """
    import pyarrow as pa

    parts = [read_shard(path, table) for path in shard_paths(data, table)]
    return pa.concat_tables(parts) if parts else TABLES[table].arrow.empty_table()


def read_shard(path: Path, table: str) -> pa.Table:
    """The rows of one shard, with `key` derived from `text`. Raises: DataError (damaged, or a text that is none)."""
    import pyarrow as pa

    schema = TABLES[table]
    rows = parse_table(path.read_bytes(), schema, str(path), shard=True)
    try:
        keys = [read_architecture(text).key for text in rows.column("text").to_pylist()]
    except (InvalidGraph, InvalidSubnet) as error:
        raise DataError(f"{path} holds a text that is no architecture: {error}") from None
    return rows.append_column("key", pa.array(keys, pa.string())).select(schema.column_names).cast(schema.arrow)


def stored_rows(data: Path, table: str) -> pa.Table:
    """Every row of a table, released or fresh. Raises: DataError."""
    import pyarrow as pa

    tables = [read_shards(data, table)]  # first: a merge writes the release before it removes the shards
    if (data / MANIFEST).is_file():
        tables.append(read_table(data, table, read_manifest(data)))
    return pa.concat_tables(reversed(tables))


def stored_columns(data: Path, table: str, *names: str) -> Iterator[tuple[Any, ...]]:
    """Some columns of every row of a table, a tuple per row. Raises: as `stored_rows`."""
    rows = stored_rows(data, table)
    return zip(*(rows.column(name).to_pylist() for name in names), strict=True)


@contextmanager
def only_builder(data: Path, *tables: str) -> Iterator[None]:
    """Holds the fresh rows of some tables for one builder at a time, and clears what a killed one left half written.

    tables: those that the builder writes, by default every measured one; training and scoring go on side by side.
    Raises: DataError when another builder holds one of them.
    """
    directory = incoming(data)
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as locks:
        for table in tables or MEASURED:
            lock = locks.enter_context(open(directory / f".{table}.lock", "w"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataError(
                    f"another builder is writing {table} to {directory}; wait for it to end, "
                    "or give this one its own --data"
                ) from None
            for beside in directory.glob(f".{table}-*.tmp"):
                beside.unlink()
        yield
