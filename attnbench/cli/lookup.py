"""Commands that look up: query, top, sql."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from attnbench.cli.show import (
    Column,
    count,
    load_bench,
    number,
    percent,
    plural,
    show,
    show_json,
    show_table,
    text,
    with_spread,
)

if TYPE_CHECKING:
    import pandas as pd

    from attnbench.dataset.records import Result


def query(args: argparse.Namespace) -> int:
    """What was measured of one architecture: mean, spread, every run, costs, scores."""
    result = load_bench(args).query(args.arch, backbone=args.backbone, protocol=args.protocol, seed=args.seed)
    if args.json:
        return show_json(result.as_dict())
    show(*_result_lines(result), "")
    columns = (number("seed"), "status", "validation top-1 % after each epoch", number("test %"), number("train s"))
    rows = []
    for run in result.runs:
        curve = " ".join(f"{value:.1f}" for value in run.val_curve)
        test, seconds = percent(run.test_top1_percent), f"{run.train_seconds:.1f}"
        rows.append((str(run.seed), run.status, curve, test, seconds))
    show_table("", columns, rows)
    return 0


def top(args: argparse.Namespace) -> int:
    """The best architectures by mean validation accuracy; test is shown and never selects."""
    results = load_bench(args).top(
        args.n,
        backbone=args.backbone,
        protocol=args.protocol,
        sound=args.sound,
        named=args.named,
        min_seeds=args.min_seeds,
    )
    if args.json:
        return show_json([result.as_dict() for result in results])
    title = f"best by mean validation top-1 on {args.backbone}, {args.protocol}"
    if not results:
        show(f"{title}: no architecture has such runs")
        return 0
    measured = (number("validation %"), number("test %"), number("seeds"), "status", number("MACs"))
    rows = [
        (str(place), with_spread(r), percent(r.test_top1_percent), str(r.n_seeds), r.status, count(r.macs), _named(r))
        for place, r in enumerate(results, 1)
    ]
    show_table(title, (number(""), *measured, text("architecture")), rows)
    if any(r.n_seeds == 1 for r in results):
        show("rows of one seed may owe their place to luck: --min-seeds 2 leaves them out")
    return 0


def sql(args: argparse.Namespace) -> int:
    """One SELECT over the tables, in a database that reaches nothing else."""
    frame = load_bench(args).sql(args.statement)
    if args.json:
        print(frame.to_json(orient="records"))
        return 0
    shown = frame.head(max(args.limit, 0))
    columns = [_column(name, shown[name]) for name in shown.columns]
    show_table("", columns, ([_cell(value) for value in row] for row in shown.itertuples(index=False, name=None)))
    if len(frame) > len(shown):
        show(f"{plural(len(frame) - len(shown), 'more row')}: --limit {len(frame)}, or --json for all")
    return 0


def _result_lines(result: Result) -> list[str]:
    costs = [f"parameters {count(result.params)}", f"multiply-adds {count(result.macs)}"]
    if result.step_ms is not None:
        costs.append(f"step {result.step_ms:.2f} ms")
    lines = [
        *([", ".join(result.names)] if result.names else []),
        result.text,
        result.key,
        "",
        f"{result.backbone}, {result.protocol}, {plural(result.n_seeds, 'seed')}, status {result.status}",
        f"validation top-1 {with_spread(result)} %, test {percent(result.test_top1_percent)} %",
        ", ".join(costs),
    ]
    if result.status == "diverged":
        lines.append("a diverged run counts as chance in validation")
    # Parts of a score (with a dot) are for programs: --json has them.
    scores = [f"{name} {value:.4g}" for name, value in result.proxies.items() if "." not in name]
    return lines + (["scores " + ", ".join(scores)] if scores else [])


def _named(result: Result) -> str:
    return f"{result.names[0]}: {result.text}" if result.names else result.text


def _column(name: str, values: pd.Series) -> Column:
    if values.dtype.kind in "iuf":
        return number(name)
    # Formulas, reasons and lists hold spaces; keys and names of things do not, and stay whole.
    return text(name) if any(" " in _cell(value) for value in values) else Column(name)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if hasattr(value, "tolist"):  # numpy: an array of a list column, or one number
        value = value.tolist()
    if isinstance(value, list):
        return "[" + ", ".join(map(_cell, value)) + "]"
    # None, NaN, NaT and pandas' NA: what SQL calls null.
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return "null"
    return f"{value:.8g}" if isinstance(value, float) else str(value)
