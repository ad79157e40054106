"""The registry of tables: what is promised to readers is what is written."""

import pyarrow as pa
import pytest

from attnbench.dataset.schema import (
    DEFAULT_PROTOCOL,
    INHERITED_PROTOCOLS,
    KINDS,
    PROTOCOL_CLASSES,
    TABLES,
)
from attnbench.dataset.table import READABLE_VERSIONS, SCHEMA_VERSION, Table

every_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)

# Names, types and order of schema version 2. A change here is a new schema version.
GOLDEN = {
    "architectures": "key:string kind:string text:string in_grid:bool is_named:bool is_wild:bool names:list<string> "
    "graph_type:string genotype:string complexity:string is_sound:bool failed_checks:list<string> "
    "reasons:list<string> signature:list<float64>",
    "cells": "family:string q_activation:string q_norm:string k_activation:string k_norm:string middle:string "
    "key:string",
    "costs": "key:string backbone:string params:int64 macs:int64 step_ms:float64",
    "latency": "key:string text:string n_tokens:int32 latency_ms:float64 peak_bytes:int64 device:string threads:int32 "
    "torch_version:string",
    "runs": "key:string text:string backbone:string protocol:string protocol_hash:string seed:int32 status:string "
    "val_curve:list<float64> val_loss_curve:list<float64> train_loss_curve:list<float64> val_top1_percent:float64 "
    "val_loss:float64 test_top1_percent:float64 test_loss:float64 train_seconds:float64 device:string "
    "torch_version:string code_version:string finished_at:string",
    "proxies": "key:string text:string backbone:string proxy:string value:float64 seconds:float64 weight_seed:int32 "
    "status:string",
    "rejections": "stage:string sampler:string reason:string count:int64 n_drawn:int64",
    "published": "model:string method:string dataset:string image_size:int32 metric:string value:float64 unit:string "
    "params:int64 macs:int64 source:string note:string",
}


def test_schema_of_this_version_stays() -> None:
    assert SCHEMA_VERSION == 2
    assert SCHEMA_VERSION in READABLE_VERSIONS
    assert {n: " ".join(f"{c.name}:{c.dtype}" for c in t.columns) for n, t in TABLES.items()} == GOLDEN


def test_data_of_the_first_version_is_read_as_it_was_written() -> None:
    """Version 2 only added tables, so every column of version 1 must stay, null or not."""
    added = {"latency", "published"}
    nullable = {f"{n}.{c.name}" for n, t in TABLES.items() if n not in added for c in t.columns if c.nullable}
    assert nullable == {
        "architectures.graph_type",
        "architectures.genotype",
        "architectures.is_sound",
        "architectures.signature",
        "costs.step_ms",
        "runs.val_top1_percent",
        "runs.val_loss",
        "runs.test_top1_percent",
        "runs.test_loss",
        "proxies.value",
    }


def test_protocols_that_are_asked_for_or_treated_apart_are_known() -> None:
    assert set(DEFAULT_PROTOCOL) == set(KINDS)
    assert {*DEFAULT_PROTOCOL.values(), *INHERITED_PROTOCOLS} <= set(PROTOCOL_CLASSES)


@every_table
def test_arrow_follows_the_columns(table: Table) -> None:
    assert table.arrow.names == list(table.column_names)
    assert [field.nullable for field in table.arrow] == [column.nullable for column in table.columns]
    assert table.arrow.metadata[b"attnbench.table"].decode() == table.name
    assert set(table.shard.names) == set(table.arrow.names) - {"key"}


@every_table
def test_identity_and_units(table: Table) -> None:
    assert set(table.identity) <= set(table.column_names)
    for column in table.columns:
        assert column.meaning, column.name
        assert column.better in ("", "higher", "lower")
        if column.name.endswith("_percent"):
            assert column.unit == "percent"
        if column.name.endswith("_ms"):
            assert column.unit == "ms"
        if pa.types.is_floating(table.arrow.field(column.name).type) and column.name != "value":
            assert column.unit, f"{column.name} has no unit"
