"""Writes the table of published figures from `published.csv`, which holds them with their sources.

`python -m builders published`, after a figure was added there.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attnbench.dataset.files import write_release
from attnbench.dataset.schema import PUBLISHED
from attnbench.errors import AttnBenchError, DataError
from builders.shards import DATA, only_builder

FIGURES = Path(__file__).with_name("published.csv")
_READ: dict[str, Callable[[str], Any]] = {"string": str, "int32": int, "int64": int, "float64": float}


def figures(path: Path = FIGURES) -> list[dict[str, Any]]:
    """The rows of `published`; an empty number is null. Raises: DataError (which line, which column)."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, restkey="further")
        if tuple(reader.fieldnames or ()) != PUBLISHED.column_names:
            raise DataError(f"{path} has columns {reader.fieldnames}, expected {', '.join(PUBLISHED.column_names)}.")
        return [_row(line, f"{path}, line {reader.line_num}") for line in reader]


def _row(line: dict[str, Any], where: str) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for column in PUBLISHED.columns:
        text = line[column.name]
        try:
            if text is None:
                raise TypeError
            row[column.name] = None if column.nullable and text == "" else _READ[column.dtype](text)
        except (ValueError, TypeError):
            raise DataError(f"{where}: {column.name} is {text!r}, expected {column.dtype}.") from None
    if "further" in line:
        raise DataError(f"{where} has more values than columns: {line['further']}. Quote a value that holds a comma.")
    return row


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m builders published", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    args = parser.parse_args(argv)
    try:
        with only_builder(args.data, "published"):
            rows = figures()
            write_release(args.data, {"published": rows})
    except (AttnBenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"published: {len(rows)} figures of {len({row['source'] for row in rows})} sources")
    return 0
