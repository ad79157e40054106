"""Commands that look up: query, top, sql."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import asdict
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
from attnbench.errors import NoSuchRun

if TYPE_CHECKING:
    import pandas as pd

    from attnbench.dataset.benchmark import Benchmark
    from attnbench.dataset.records import Costs, Result


def query(args: argparse.Namespace) -> int:
    """What was measured of one architecture: mean, spread, every run, costs, scores."""
    bench = load_bench(args)
    try:
        result = bench.query(args.arch, backbone=args.backbone, protocol=args.protocol, seed=args.seed)
    except NoSuchRun as error:
        if (args.backbone, args.protocol, args.seed) != (None, None, None):
            raise
        return _untrained(bench, args.arch, error, args.json)
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
    protocols = {args.protocol or result.protocol for result in results[:1]} or {args.protocol or "its own protocol"}
    title = f"best by mean validation top-1 on {args.backbone}, {protocols.pop()}"
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
        rows = frame.itertuples(index=False, name=None)
        return show_json([dict(zip(frame.columns, map(_plain, row), strict=True)) for row in rows])
    shown = frame.head(max(args.limit, 0))
    columns = [_column(name, shown[name]) for name in shown.columns]
    show_table("", columns, ([_cell(value) for value in row] for row in shown.itertuples(index=False, name=None)))
    if len(frame) > len(shown):
        show(f"{plural(len(frame) - len(shown), 'more row')}: --limit {len(frame)}, or --json for all")
    return 0


def _untrained(bench: Benchmark, arch: str, error: NoSuchRun, as_json: bool) -> int:
    """Shows the costs and scores of what was not trained by the usual protocol, and what the error says."""
    try:
        costs = bench.costs(arch)
    except NoSuchRun:
        raise error from None
    try:
        scores = dict(bench.proxies(arch))
    except NoSuchRun:
        scores = {}
    read = bench.subnet if costs.key.startswith("sn") else bench.graph
    spelled = read(arch).text
    said = str(error).removeprefix(f"{spelled!r} ({costs.key}) ")
    if as_json:
        return show_json({"text": spelled, **asdict(costs), "proxies": scores, "runs": [], "message": str(error)})
    show(spelled, costs.key, "", costs.backbone, _costs(costs), *_scores(scores), "", said)
    return 0


def _result_lines(result: Result) -> list[str]:
    lines = [
        *([", ".join(result.names)] if result.names else []),
        result.text,
        result.key,
        "",
        f"{result.backbone}, {result.protocol}, {plural(result.n_seeds, 'seed')}, status {result.status}",
        f"validation top-1 {with_spread(result)} %, test {percent(result.test_top1_percent)} %",
        _costs(result),
    ]
    if result.status == "diverged":
        lines.append("a diverged run counts as chance in validation")
    return lines + _scores(result.proxies)


def _costs(of: Result | Costs) -> str:
    step = "" if of.step_ms is None else f", step {of.step_ms:.2f} ms"
    return f"parameters {count(of.params)}, multiply-adds {count(of.macs)}{step}"


def _scores(proxies: Mapping[str, float]) -> list[str]:
    """One line, or none. Parts of a score that is there as a whole are for programs: --json has them."""
    whole = [name for name in proxies if "." not in name or name.partition(".")[0] not in proxies]
    return ["scores " + ", ".join(f"{name} {proxies[name]:.4g}" for name in whole)] if whole else []


def _named(result: Result) -> str:
    return f"{result.names[0]}: {result.text}" if result.names else result.text


def _column(name: str, values: pd.Series) -> Column:
    if values.dtype.kind in "iuf":
        return number(name)
    # Formulas, reasons and lists hold spaces; keys and names of things do not, and stay whole.
    return text(name) if any(" " in _cell(value) for value in values) else Column(name)


def _cell(value: Any) -> str:
    if hasattr(value, "tolist"):  # numpy: an array of a list column, or one number
        value = value.tolist()
    if isinstance(value, list):
        return "[" + ", ".join(map(_cell, value)) + "]"
    if _is_null(value):
        return "null"
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    """What JSON can hold: bytes as hex digits, times and spans as ISO 8601, null for what is no finite number."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if _is_null(value) or (isinstance(value, float) and math.isinf(value)):
        return None
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _is_null(value: Any) -> bool:
    """None, NaN, NaT and pandas' NA: what SQL calls null."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)
