"""Writes the parts of README.md that follow from the tables: `python -m builders readme`.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`; SECTIONS says what each name is made of.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import attnbench

ROOT = Path(__file__).resolve().parents[1]
BACKBONE = "deit"

# The graphs that tell whether the table can be trusted: two that must fail, and what is known to work.
CONTROLS = {
    "identity": "v",
    "depthwise convolution only": "zeros(v)",
    "uniform attention": "zeros(q) + mean(v, axis=-2)",
    "softmax attention": "softmax(scale(q @ k.T)) @ v",
}


@cache
def _load(data: Path) -> Any:
    return attnbench.load(data)


def counts(data: Path) -> str:
    """Rows of each table, and training runs by backbone."""
    bench = _load(data)
    lines = ["| table | rows |", "|---|---:|"]
    for name in bench.tables:
        lines.append(f"| `{name}` | {bench.table(name).num_rows:,} |")
    return "\n".join(lines)


def controls(data: Path) -> str:
    """Mean and spread of the control graphs over their seeds."""
    bench = _load(data)
    lines = [
        "| graph | formula | validation top-1, % | test top-1, % | seeds | status |",
        "|---|---|---:|---:|---:|---|",
    ]
    for label, formula in CONTROLS.items():
        row = bench.query(formula, backbone=BACKBONE)
        lines.append(
            f"| {label} | `{formula}` | {_spread(row.val_top1_percent, row.val_top1_sd_percent)} "
            f"| {'' if row.test_top1_percent is None else format(row.test_top1_percent, '.1f')} "
            f"| {row.n_seeds} | {row.status} |"
        )
    return "\n".join(lines)


def command(line: str) -> Callable[[Path], str]:
    """A section that shows one command and what it prints."""

    def show(data: Path) -> str:
        from attnbench.cli import main

        out = io.StringIO()
        plain = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        with mock.patch.dict(os.environ, plain), contextlib.redirect_stdout(out):
            main(shlex.split(line))
        printed = "\n".join(text.rstrip() for text in out.getvalue().strip("\n").splitlines())
        return f"```console\n$ attnbench {line}\n{printed}\n```"

    return show


SECTIONS: dict[str, Callable[[Path], str]] = {
    "counts": counts,
    "controls": controls,
}

_PART = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.S)


def render(text: str, data: Path) -> str:
    """The README `text` with every generated part made again from the tables in `data`.

    Raises: ValueError for an unknown part, or one that does not end.
    """
    starts, parts = text.count("<!-- generated: "), _PART.findall(text)
    if starts != len(parts) or any("<!-- generated: " in body for _, _, body, _ in parts):
        raise ValueError(f"{starts - len(parts) or 1} of README.md's generated parts has no <!-- end -->; add it.")
    for _, name, _, _ in parts:
        if name not in SECTIONS:
            raise ValueError(f"README.md asks for {name!r}, which nothing generates; known: {', '.join(SECTIONS)}.")
    return _PART.sub(lambda part: f"{part[1]}{SECTIONS[part['name']](data)}\n{part[4]}", text)


def main(argv: list[str] | None = None) -> int:
    """Write README.md again, or with --check only say whether it is up to date."""
    parser = argparse.ArgumentParser(prog="python -m builders readme", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if README.md is out of date")
    args = parser.parse_args(argv)
    path = ROOT / "README.md"
    old = path.read_text(encoding="utf-8")
    new = render(old, ROOT / "data")
    if args.check:
        print("README.md is up to date" if new == old else "README.md is out of date: python -m builders readme")
        return int(new != old)
    beside = path.with_suffix(".md.tmp")
    beside.write_text(new, encoding="utf-8")
    beside.replace(path)
    return 0


def _spread(mean: float, sd: float | None) -> str:
    return f"{mean:.1f}" if sd is None else f"{mean:.1f} ± {sd:.1f}"
