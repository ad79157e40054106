"""How answers are printed: tables for people, one line of JSON for programs."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from attnbench.dataset.benchmark import Benchmark
    from attnbench.dataset.records import Result

# Between two columns, and what a shortened text keeps at least: less says nothing.
_GAP = 2
_LEAST_TEXT = 12
_RULE_OF_A_PIPE = 100
SHORTENED = "… texts cut to fit; a wider terminal, a pipe (| less -S) or --json shows them whole"


class Column(NamedTuple):
    """A column of a printed table. Numbers and words stay whole; texts, such as formulas, may be shortened with …"""

    heading: str
    kind: str = "word"


def number(heading: str) -> Column:
    return Column(heading, "number")


def text(heading: str) -> Column:
    return Column(heading, "text")


def load_bench(args: argparse.Namespace) -> Benchmark:
    """The release that --data names, else the package's own."""
    from attnbench.dataset.benchmark import load

    return load(args.data)


def show_json(value: Any) -> int:
    """Prints a value of mappings, sequences, texts and numbers; what is not finite, which JSON lacks, as null."""
    print(json.dumps(_finite(value), ensure_ascii=False, allow_nan=False))
    return 0


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show(*lines: str) -> None:
    for line in lines:
        print(line)  # never wrapped: a formula must stay on one line to be copied


def show_table(title: str, columns: Sequence[str | Column], rows: Iterable[Sequence[str]]) -> None:
    """Prints a table no wider than the terminal, where that can be without cutting numbers or words.

    Output that goes to a file or pipe has no width: every row is one line, with nothing left out. Where even shortened
    texts do not fit, every row becomes a block of lines, one a column.
    """
    kept = [column if isinstance(column, Column) else Column(column) for column in columns]
    # One line a cell, whatever it holds.
    cells = [[" ".join(cell.split()) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip([column.heading for column in kept], *cells, strict=True)]
    limit = _line_width()
    fitted = widths if limit is None else _fit(widths, [column.kind == "text" for column in kept], limit)
    if title:
        _show_bold(title)
    if fitted is None:
        return _show_blocks([column.heading for column in kept], cells)
    short = [[_shorten(cell, width) for cell, width in zip(row, fitted, strict=True)] for row in cells]
    _show_bold(_line([column.heading for column in kept], kept, fitted))
    total = sum(fitted) + _GAP * (len(fitted) - 1)
    show("─" * min(total, limit or _RULE_OF_A_PIPE), *(_line(row, kept, fitted) for row in short))
    if short != cells:
        show(SHORTENED)


def with_spread(result: Result) -> str:
    spread = result.val_top1_sd_percent
    return f"{result.val_top1_percent:.2f}" + ("" if spread is None else f" ± {spread:.2f}")


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def plural(n: int, noun: str, ending: str = "s") -> str:
    return f"{n:,} {noun}" + ending * (n != 1)


def _line_width() -> int | None:
    """Characters that a line may take: $COLUMNS, else the terminal's; None where the output is a file or a pipe."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given):
        return int(given)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _fit(widths: list[int], is_text: list[bool], limit: int) -> list[int] | None:
    """Widths that fill a line of `limit`, all taken from the widest texts; None where it cannot be."""
    fitted = list(widths)
    over = sum(widths) + _GAP * (len(widths) - 1) + 1 - limit
    while over > 0:
        open_to_it = [i for i, width in enumerate(fitted) if is_text[i] and width > _LEAST_TEXT]
        if not open_to_it:
            return None
        widest = max(open_to_it, key=lambda i: fitted[i])
        fitted[widest] -= 1
        over -= 1
    return fitted


def _shorten(cell: str, width: int) -> str:
    return cell if len(cell) <= width else cell[: width - 1].rstrip() + "…"


def _line(row: Iterable[str], columns: Iterable[Column], widths: Iterable[int]) -> str:
    cells = (
        f"{cell:>{width}}" if column.kind == "number" else f"{cell:<{width}}"
        for cell, column, width in zip(row, columns, widths, strict=True)
    )
    return (" " * _GAP).join(cells).rstrip()


def _show_blocks(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    margin = max(map(len, headings))
    for row in rows:
        show(*(f"{heading:<{margin}}  {cell}" for heading, cell in zip(headings, row, strict=True)), "")


def _show_bold(line: str) -> None:
    """Bold in a terminal that can, plain elsewhere; never wrapped."""
    from rich.console import Console

    # No markup: formulas hold brackets. No highlighting: numbers in formulas are no results.
    Console(markup=False, highlight=False).print(line, style="bold", soft_wrap=True)
