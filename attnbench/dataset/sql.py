"""SELECT over the tables, in a DuckDB that can reach nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attnbench.dataset.schema import TABLES
from attnbench.errors import InvalidSQL

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa

# In this order: once the configuration is locked, no statement can open what was closed.
_SEALS = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET temp_directory = ''",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


def sealed(read: Callable[[str], pa.Table]) -> duckdb.DuckDBPyConnection:
    """An in-memory database with a copy of every table and no way to files, network or Python's variables."""
    import duckdb

    database = duckdb.connect(":memory:", config={"threads": 1})
    for name in TABLES:
        database.register("arriving", read(name))
        database.execute(f'CREATE TABLE "{name}" AS SELECT * FROM arriving')
        database.unregister("arriving")
    for statement in _SEALS:
        database.execute(statement)
    return database


def select(database: duckdb.DuckDBPyConnection, statement: str, parameters: Any = None) -> pd.DataFrame:
    """The answer of one SELECT as a pandas frame.

    Raises: InvalidSQL (no single SELECT, or DuckDB's own refusal).
    """
    import duckdb

    if not isinstance(statement, str):
        raise InvalidSQL(f"a statement is a string, got {type(statement).__name__}")
    try:
        parsed = database.extract_statements(statement)
        kinds = [str(part.type).rpartition(".")[2] for part in parsed]
        if kinds != ["SELECT"]:
            raise InvalidSQL(
                f"expected one SELECT, got {' and '.join(kinds) or 'nothing'}: the tables are read-only and nothing "
                "else can be reached. Take table(name) or sql('select * from runs') and go on in pandas."
            )
        # A cursor of its own, so that threads do not take each other's answers.
        return database.cursor().execute(parsed[0], parameters).df()
    except duckdb.Error as error:
        raise InvalidSQL(f"{error}\nTables: {', '.join(TABLES)}; columns: data/README.md.") from None
