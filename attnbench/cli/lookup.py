"""Commands that look up: query, top, sql."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from attnbench.cli.show import count, load_bench, new_table, percent, show, show_json, with_spread

if TYPE_CHECKING:
    from rich.table import Table

    from attnbench.dataset.records import Result


def query(args: argparse.Namespace) -> int:
    """What was measured of one architecture: mean, spread, every run, costs, scores."""
    result = load_bench(args).query(args.arch, backbone=args.backbone, protocol=args.protocol, seed=args.seed)
    if args.json:
        return show_json(result.as_dict())
    show(*_result_lines(result), _runs_table(result))
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
    table = new_table(
        f"best by validation on {args.backbone}, {args.protocol}",
        (">", ("val top-1 %", ">"), ("test %", ">"), ("seeds", ">"), "status", ("MACs", ">"), "architecture"),
    )
    for place, r in enumerate(results, 1):
        measured = (with_spread(r), percent(r.test_top1_percent), str(r.n_seeds), r.status)
        table.add_row(str(place), *measured, count(r.macs), _described(r))
    show(table)
    return 0


def sql(args: argparse.Namespace) -> int:
    """One SELECT over the tables, in a database that reaches nothing else."""
    frame = load_bench(args).sql(args.statement)
    if args.json:
        print(frame.to_json(orient="records"))
        return 0
    table = new_table("", tuple(frame.columns))
    for row in frame.head(args.limit).itertuples(index=False):
        table.add_row(*("" if value is None else str(value) for value in row))
    show(table)
    if len(frame) > args.limit:
        show(f"{len(frame) - args.limit:,} more rows: --limit {len(frame)}, or --json for all")
    return 0


def _result_lines(result: Result) -> list[str]:
    seeds = f"{result.n_seeds} seed{'s' * (result.n_seeds != 1)}"
    lines = [
        *([", ".join(result.names)] if result.names else []),
        result.text,
        result.key,
        "",
        f"{result.backbone}, {result.protocol}: validation top-1 {with_spread(result)} %, test "
        f"{percent(result.test_top1_percent)} %, {seeds}, status {result.status}",
        f"parameters {count(result.params)}, multiply-adds {count(result.macs)}, "
        f"step {'-' if result.step_ms is None else f'{result.step_ms:.2f} ms'}",
    ]
    if result.status == "diverged":
        lines.append("a diverged run counts as chance in validation")
    if result.proxies:
        lines.append("scores " + ", ".join(f"{name} {value:.4g}" for name, value in result.proxies.items()))
    return lines


def _runs_table(result: Result) -> Table:
    columns = (("seed", ">"), "status", "validation top-1 % after each epoch", ("test %", ">"), ("train s", ">"))
    table = new_table("", columns)
    for run in result.runs:
        curve = " ".join(f"{value:.1f}" for value in run.val_curve)
        seconds = f"{run.train_seconds:.1f}"
        table.add_row(str(run.seed), run.status, curve, percent(run.test_top1_percent), seconds)
    return table


def _described(result: Result) -> str:
    return f"{result.names[0]}: {result.text}" if result.names else result.text
