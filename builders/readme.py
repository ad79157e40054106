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
import statistics
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import attnbench
from attnbench.dataset.files import replacing

ROOT = Path(__file__).resolve().parents[1]
BACKBONE = "deit"

# Names of the graphs that show whether the table can be trusted: three that attend to nothing, and known good ones.
CONTROLS = (
    "v",
    "zeros",
    "uniform",
    "softmax",
    "kernel linear elu1",
    "kernel linear relu",
    "xca",
    "hydra",
    "Trial 105",
    "Trial 140",
)


@cache
def _load(data: Path) -> Any:
    return attnbench.load(data)


def counts(data: Path) -> str:
    """Rows of each table."""
    lines = ["| table | rows |", "|---|---:|"]
    lines += [f"| `{name}` | {rows:,} |" for name, rows in sorted(_load(data).tables.items())]
    return "\n".join(lines)


def runs(data: Path) -> str:
    """Training runs by backbone and seed, how they ended, and the range of what they reached."""
    frame = _load(data).sql(
        """
        select backbone, protocol, seed, count(*) as n,
               count(*) filter (status = 'ok') as ok, count(*) filter (status = 'stopped') as stopped,
               count(*) filter (status = 'diverged') as diverged,
               quantile_cont(val_top1_percent, 0.5) filter (status = 'ok') as median,
               max(val_top1_percent) filter (status = 'ok') as best
        from runs group by all order by backbone, protocol, seed
        """
    )
    lines = [
        "| backbone | protocol | seed | runs | ok | stopped | diverged | median validation top-1 of ok, % | best, % |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in frame.itertuples():
        lines.append(
            f"| {row.backbone} | `{row.protocol}` | {row.seed} | {row.n:,} | {row.ok:,} | {row.stopped:,} "
            f"| {row.diverged:,} | {row.median:.1f} | {row.best:.1f} |"
        )
    return "\n".join(lines)


def controls(data: Path) -> str:
    """Mean and spread of the control graphs over their seeds."""
    lines = [
        "| name | formula | validation top-1, % | test top-1, % | seeds | status |",
        "|---|---|---:|---:|---:|---|",
    ]
    for name in CONTROLS:
        row = _load(data).query(name, backbone=BACKBONE)
        tests = [run.test_top1_percent for run in row.runs if run.test_top1_percent is not None]
        lines.append(
            f"| {name} | `{row.text}` | {_spread([run.val_top1_percent for run in row.runs])} "
            f"| {_spread(tests)} | {row.n_seeds} | {row.status} |"
        )
    return "\n".join(lines)


def command(line: str) -> Callable[[Path], str]:
    """A section that shows one command and what it prints."""

    def show(data: Path) -> str:
        from attnbench.cli import main

        out = io.StringIO()
        plain = {"COLUMNS": "110", "NO_COLOR": "1", "TERM": "dumb"}
        with mock.patch.dict(os.environ, plain), contextlib.redirect_stdout(out):
            code = main([*shlex.split(line), "--data", str(data)])
        if code:
            raise RuntimeError(f"`attnbench {line}` exited with {code}; README.md shows working commands only.")
        printed = "\n".join(text.rstrip() for text in out.getvalue().splitlines()).strip("\n")
        return f"```console\n$ attnbench {line}\n{printed}\n```"

    return show


SECTIONS: dict[str, Callable[[Path], str]] = {
    "counts": counts,
    "runs": runs,
    "controls": controls,
    "query": command('query "softmax(q) @ (softmax(k, axis=-2).T @ v)"'),
    "top": command("top -n 5"),
    "search": command("search --budget 100 --seeds 20"),
    "tau": command("tau"),
    "sql": command(
        'sql "select graph_type, count(*) as n from architectures where is_named group by all order by all"'
    ),
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
    with replacing(path) as beside:
        beside.write_text(new, encoding="utf-8")
    return 0


def _spread(values: list[float]) -> str:
    """Mean ± sample standard deviation; nothing where nothing was measured."""
    if not values:
        return "none"
    mean = f"{statistics.fmean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
