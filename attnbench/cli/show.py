"""How answers are printed: tables for people, one line of JSON for programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from attnbench.dataset.benchmark import Benchmark
    from attnbench.dataset.records import Result


def load_bench(args: argparse.Namespace) -> Benchmark:
    """The release that --data names, else the package's own."""
    from attnbench.dataset.benchmark import load

    return load(args.data)


def show_json(value: Any) -> int:
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))
    return 0


def show(*parts: Any) -> None:
    from rich.console import Console

    # No markup: formulas hold brackets. No highlighting: numbers in formulas are no results.
    console = Console(markup=False, highlight=False)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))  # a formula must stay on one line to be copied


def new_table(title: str, columns: Sequence[str | tuple[str, str]]) -> Table:
    """An empty table; a column is its heading, or heading and ">" for numbers."""
    from rich import box
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        heading, align = column if isinstance(column, tuple) else ("", ">") if column == ">" else (column, "")
        table.add_column(heading, justify="right" if align == ">" else "left", no_wrap=align == ">", overflow="fold")
    return table


def with_spread(result: Result) -> str:
    spread = result.val_top1_sd_percent
    return f"{result.val_top1_percent:.2f}" + ("" if spread is None else f" ± {spread:.2f}")


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
