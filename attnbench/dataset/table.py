"""What a column and a table are, and the pyarrow schema that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

# Version 2 added the tables `latency` and `published`; the tables of version 1 are the same in both.
SCHEMA_VERSION = 2
READABLE_VERSIONS = (1, 2)


@dataclass(frozen=True)
class Column:
    """One column: what it holds, in which unit, which direction is better, and who wrote it.

    `dtype` is one of string, bool, int32, int64, float64, timestamp-free ISO strings being `string`, or
    `list<...>` of these. `nullable` says that null is a meaningful value, explained in `meaning`.
    """

    name: str
    dtype: str
    meaning: str
    unit: str = ""
    better: str = ""
    nullable: bool = False
    source: str = ""


@dataclass(frozen=True)
class Table:
    """One table: its columns, the columns that identify a row, and the builder that writes it."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    identity: tuple[str, ...]
    source: str

    @cached_property
    def arrow(self) -> pa.Schema:
        """The pyarrow schema of the released table; its metadata names the table and the schema version."""
        return _arrow(self, self.columns)

    @cached_property
    def shard(self) -> pa.Schema:
        """The pyarrow schema of a fresh shard: without `key`, which a merge derives from `text`."""
        return _arrow(self, tuple(c for c in self.columns if c.name != "key"))

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def _arrow(table: Table, columns: tuple[Column, ...]) -> pa.Schema:
    import pyarrow as pa

    simple = {
        "string": pa.string(),
        "bool": pa.bool_(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float64": pa.float64(),
    }
    types = simple | {f"list<{name}>": pa.list_(dtype) for name, dtype in simple.items()}
    return pa.schema(
        [pa.field(column.name, types[column.dtype], nullable=column.nullable) for column in columns],
        metadata={"attnbench.table": table.name, "attnbench.schema_version": str(SCHEMA_VERSION)},
    )
