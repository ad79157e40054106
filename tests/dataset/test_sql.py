"""SQL: SELECT over the tables, and nothing else in reach."""

from pathlib import Path

import pytest

from attnbench.dataset.benchmark import Benchmark
from attnbench.dataset.schema import TABLES
from attnbench.errors import InvalidSQL
from tests.dataset.tiny import ELU


def test_select_over_joined_tables(bench: Benchmark) -> None:
    frame = bench.sql(
        "select text, max(val_top1_percent) as best from runs join costs using (key, backbone) "
        "group by text order by best"
    )
    assert frame["best"].tolist() == [82.0, 84.5]
    assert frame["text"].tolist()[1] == ELU


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_there(bench: Benchmark, table: str) -> None:
    assert bench.sql(f"select count(*) as n from {table}")["n"][0] == bench.tables[table]


@pytest.mark.parametrize(
    "statement", ["with a as (from runs) select * from a", "from runs", "describe runs", "show tables"]
)
def test_other_forms_of_select(bench: Benchmark, statement: str) -> None:
    assert len(bench.sql(statement))


def test_parameters(bench: Benchmark) -> None:
    assert bench.sql("select count(*) as n from runs where text = ?", [ELU])["n"][0] == 2
    assert bench.sql("select count(*) as n from runs where seed = $seed", {"seed": 2})["n"][0] == 2


NO_SELECT = {
    "nothing": ("", "expected one SELECT, got nothing"),
    "drop": ("drop table runs", "got DROP: the tables are read-only"),
    "update": ("update runs set val_top1_percent = 100", "got UPDATE"),
    "two": ("select 1; select 2", "got SELECT and SELECT"),
    "hidden": ("select 1; delete from runs", "got SELECT and DELETE"),
    "explained": ("explain analyze delete from runs", "got EXPLAIN"),
    "attach": ("attach 'other.db'", "got ATTACH"),
    "copy": ("copy runs to 'runs.csv'", "got COPY"),
    "install": ("install httpfs", "got LOAD"),
    "setting": ("set enable_external_access = true", "got SET"),
    "pragma": ("pragma database_list", "got PRAGMA"),
    "syntax": ("selec 1", "(?s)Parser Error.*Tables: architectures, cells"),
    "table": ("select * from rnus", "(?s)Catalog Error.*columns: data/README.md"),
    "column": ("select accuracy from runs", "(?s)Binder Error.*Tables:"),
    "value": ("select cast('a' as int)", "Conversion Error"),
    "no string": (None, "a statement is a string, got NoneType"),
    "missing parameter": ("select ?", "Error"),
}


@pytest.mark.parametrize(("statement", "message"), NO_SELECT.values(), ids=NO_SELECT)
def test_what_is_no_select_is_refused(bench: Benchmark, statement, message: str) -> None:
    with pytest.raises(InvalidSQL, match=message):
        bench.sql(statement)
    assert bench.sql("select count(*) as n from runs")["n"][0] == 12


ESCAPES = (
    "select * from read_csv('{file}')",
    "select * from read_text('{file}')",
    "select * from read_blob('{file}')",
    "select * from '{file}'",
    "select * from read_parquet('{parquet}')",
    "select * from '{parquet}'",
    "select * from glob('{folder}/*')",
    "select * from read_csv('https://127.0.0.1:9/x.csv')",
    "select * from secret_frame",
    "select getenv('HOME')",
)


@pytest.mark.parametrize("statement", ESCAPES)
def test_nothing_else_is_in_reach(bench: Benchmark, release: Path, tmp_path: Path, statement: str) -> None:
    secret_frame = bench.table("runs")  # noqa: F841 - DuckDB would find it by name
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    filled = statement.format(file=file, parquet=release / "runs.parquet", folder=tmp_path)
    with pytest.raises(InvalidSQL, match="Error"):
        bench.sql(filled)


def test_the_seal_is_locked(bench: Benchmark) -> None:
    frame = bench.sql("select name, value from duckdb_settings()").set_index("name")["value"]
    assert frame["enable_external_access"] == "false"
    assert frame["lock_configuration"] == "true"
    assert frame["temp_directory"] in ("", None)


def test_nothing_is_written_beside_the_tables(bench: Benchmark, release: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    bench.sql("select a.text from runs a, runs b, runs c, runs d order by 1")
    assert sorted(tmp_path.rglob("*")) == before
