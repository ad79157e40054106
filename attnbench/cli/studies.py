"""Commands that study the table: tau, search, plot. They read frames from the benchmark and hand them to analysis."""

from __future__ import annotations

import argparse
import math
import re
from statistics import fmean
from typing import TYPE_CHECKING, Any

from attnbench.cli.show import count, load_bench, new_table, percent, show, show_json

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from attnbench.dataset.benchmark import Benchmark
    from attnbench.search.trace import Trace


def tau(args: argparse.Namespace) -> int:
    """How well each zero-cost proxy ranks: Kendall's tau with its interval, beside controls and the noise ceiling."""
    ranks = _ranks(load_bench(args), args)
    if args.json:
        return show_json([_finite(row) for row in ranks.to_dict("records")])
    columns = (("n", ">"), ("tau", ">"), (f"given {args.given}", ">"), ("Spearman", ">"), ("top tenth", ">"), "remarks")
    for population, rows in ranks.groupby("population", sort=False):
        ceiling = _known(rows["tau_between_seeds"].iloc[0])
        between = "unknown" if ceiling is None else f"{ceiling:.2f} (n = {rows['ceiling_n'].iloc[0]:,})"
        title = f"{population}: tau with validation accuracy on {args.backbone}; of one seed with another {between}"
        table = new_table(title, ("proxy", *columns))
        for row in rows.to_dict("records"):
            statistics = [_interval(row, name) for name in ("tau", "partial_tau", "spearman")]
            remarks = _remarks(row)
            table.add_row(row["proxy"], count(row["n"]), *statistics, _two(row["top_overlap"]), remarks)
        show(table)
    return 0


def search(args: argparse.Namespace) -> int:
    """Replays searches on the closed grid: regret of what each searcher picks, and its test accuracy at the end."""
    bench = load_bench(args)
    traces = _traces(bench, args)
    if args.plot:
        _save(_search_figure(traces, args), args.plot)
    summary = [_summary(name, [trace for trace in traces if trace.searcher == name]) for name in args.searcher]
    if args.json:
        return show_json(summary)
    reference = traces[0].reference
    title = f"{args.seeds} searches each, {args.budget:g} {args.unit}, on {args.backbone}, seed {args.shown_seed} shown"
    columns = ("searcher", ("evaluations", ">"), ("regret, points", ">"), ("val top-1 %", ">"), ("test %", ">"))
    table = new_table(title, (*columns, "what it picked most often"))
    for row in summary:
        regret = percent(row["regret_percent"])
        if row["regret_low"] is not None:
            regret += f" ({row['regret_low']:.2f} to {row['regret_high']:.2f})"
        found = (percent(row["val_top1_percent"]), percent(row["test_top1_percent"]))
        picked = "-" if row["picked"] is None else bench.graph(row["picked"]).text
        table.add_row(row["searcher"], f"{row['evaluations']:,.0f}", regret, *found, picked)
    show(table)
    if reference is not None:
        seeds = ", ".join(map(str, reference.seeds))
        best = f"{reference.best_val_top1_percent:.2f} %, best of {reference.n:,} by {reference.definition} ({seeds})"
        show(f"regret is against {best}: {bench.graph(reference.best_key).text}")
    if args.plot:
        show(f"wrote {args.plot}")
    return 0


def plot(args: argparse.Namespace) -> int:
    """Draws a figure: `ranks` (tau of every proxy), `search`, or a proxy's name (its scores against accuracy)."""
    bench = load_bench(args)
    if args.what == "ranks":
        from attnbench.analysis.plot import plot_proxy_ranks

        axes = plot_proxy_ranks(_ranks(bench, args))
    elif args.what == "search":
        axes = _search_figure(_traces(bench, args), args)
    else:
        axes = _score_figure(bench, args)
    _save(axes, args.file)
    if args.json:
        return show_json({"file": args.file})
    show(f"wrote {args.file}")
    return 0


def _ranks(bench: Benchmark, args: argparse.Namespace) -> pd.DataFrame:
    from attnbench.analysis.accuracy import seed_matrix
    from attnbench.analysis.proxies import populations, proxy_ranks

    runs, architectures = bench.table("runs"), bench.table("architectures")
    of = populations(seed_matrix(runs, backbone=args.backbone, protocol=args.protocol), architectures)
    return proxy_ranks(
        runs,
        bench.table("proxies"),
        bench.table("costs"),
        of,
        backbone=args.backbone,
        protocol=args.protocol,
        names=args.proxy or None,
        covariate=args.given,
        weight_seed=args.weight_seed,
        n_resamples=args.resamples,
    )


def _traces(bench: Benchmark, args: argparse.Namespace) -> list[Trace]:
    from attnbench.search.measurements import Measurements
    from attnbench.search.replay import grid_space, replay

    measured = Measurements.from_benchmark(
        bench, backbone=args.backbone, protocol=args.protocol, shown_seed=args.shown_seed
    )
    space = grid_space(bench, measured=measured)
    options: dict[str, Any] = {"budget": args.budget, "unit": args.unit, "repeat_price": args.repeat_price}
    return [
        trace
        for searcher in args.searcher
        for trace in replay(space, measured, searcher, search_seeds=range(args.seeds), **options)
    ]


def _summary(searcher: str, traces: list[Trace]) -> dict[str, Any]:
    """Means over the traces of one searcher; the interval of regret is a bootstrap over search seeds."""
    import numpy as np

    from attnbench.analysis.bootstrap import LEVEL, N_RESAMPLES, percentile_interval, resample_counts

    regrets = [trace.regret_percent for trace in traces if trace.regret_percent is not None]
    interval = None
    if len(regrets) >= 3:
        counts = np.concatenate(list(resample_counts(len(regrets), N_RESAMPLES, 0)))
        interval = percentile_interval(counts @ np.array(regrets) / len(regrets), LEVEL)
    low, high = interval or (None, None)
    picked = [trace.best_key for trace in traces if trace.best_key is not None]
    return {
        "searcher": searcher,
        "searches": len(traces),
        "evaluations": fmean(len(trace.evaluations) for trace in traces),
        "regret_percent": fmean(regrets) if regrets else None,
        "regret_low": low,
        "regret_high": high,
        "val_top1_percent": _mean_of_known([trace.best_val_top1_percent for trace in traces]),
        "test_top1_percent": _mean_of_known([trace.test_top1_percent for trace in traces]),
        "picked": max(sorted(set(picked)), key=picked.count) if picked else None,
    }


def _search_figure(traces: list[Trace], args: argparse.Namespace) -> Axes:
    import pandas as pd

    from attnbench.analysis.plot import plot_search
    from attnbench.analysis.regret import search_curves

    rows = pd.DataFrame([row for trace in traces for row in trace.rows()])
    xlabel = "evaluations" if args.unit == "evaluations" else "simulated seconds"
    return plot_search(search_curves(rows), xlabel=xlabel)


def _score_figure(bench: Benchmark, args: argparse.Namespace) -> Axes:
    from attnbench.analysis.accuracy import mean_accuracy, seed_matrix
    from attnbench.analysis.plot import plot_score

    matrix = seed_matrix(bench.table("runs"), backbone=args.backbone, protocol=args.protocol)
    accuracy = mean_accuracy(matrix)["mean"]
    proxies = bench.table("proxies")
    mine = proxies[(proxies["backbone"] == args.backbone) & (proxies["weight_seed"] == args.weight_seed)]
    scores = mine[mine["proxy"] == args.what].set_index("key")["value"]
    if scores.empty:
        stored = ", ".join(sorted(set(mine["proxy"]))) or "none"
        raise ValueError(
            f"no figure {args.what!r}: pass ranks, search, or a proxy scored on {args.backbone} with weight seed "
            f"{args.weight_seed}; stored: {stored}."
        )
    return plot_score(scores.reindex(accuracy.index), accuracy, name=args.what)


def _save(axes: Axes, file: str) -> None:
    axes.figure.savefig(file, dpi=150)  # type: ignore[union-attr]  # made by analysis, never a subfigure


def _interval(row: dict[str, Any], name: str) -> str:
    value, low, high = (_known(row[part]) for part in (name, f"{name}_low", f"{name}_high"))
    if value is None:
        return "-"
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} ({low:.2f} to {high:.2f})"


def _remarks(row: dict[str, Any]) -> str:
    """Direction, rows left out, and each reason once, without the names of the statistics that share it."""
    reasons = dict.fromkeys(filter(None, re.split(r"(?:^|; )\w+: ", row["note"])))
    lower = ["lower is better"] if row["direction"] == "lower" else []
    dropped = [f"left out: {row['dropped']}"] if row["dropped"] else []
    return "; ".join([*lower, *dropped, *reasons])


def _two(value: Any) -> str:
    return "-" if _known(value) is None else f"{value:.2f}"


def _mean_of_known(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _known(value: Any) -> float | None:
    """A frame turns None into NaN; this turns it back."""
    return None if value is None or (isinstance(value, float) and math.isnan(value)) else float(value)


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
