"""The command search: searches replayed on the closed grid, or on the subnets of a space, and their figure."""

from __future__ import annotations

import argparse
from statistics import fmean
from typing import TYPE_CHECKING, Any

from attnbench.cli.show import load_bench, number, percent, plural, show, show_json, show_table
from attnbench.cli.windows import window_of
from attnbench.dataset.schema import DEFAULT_BACKBONE, DEFAULT_PROTOCOL, INHERITED_PROTOCOLS
from attnbench.space.subnet import PREFIX

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnbench.dataset.benchmark import Benchmark
    from attnbench.search.measurements import Measurements, Reference
    from attnbench.search.spaces import Space
    from attnbench.search.trace import Trace

GRID = "grid"


def search(args: argparse.Namespace) -> int:
    """Replays searches on the closed grid, or on subnets: regret of what each searcher picks, and its test accuracy."""
    bench = load_bench(args)
    traces = traces_of(bench, args)
    if args.plot:
        save(search_figure(traces, args), args.plot)
    by_name = {name: [trace for trace in traces if trace.searcher == name] for name in args.searcher}
    summary = [_summary(name, of_name) for name, of_name in by_name.items()]
    if args.json:
        return show_json(summary)
    on = args.backbone if args.space == GRID else f"subnets of {args.space}"
    title = (
        f"{plural(args.seeds, 'search', 'es')} each, {args.budget:g} {args.unit}, on {on}, seed {args.shown_seed} shown"
    )
    columns = ("searcher", number("queries"), number("regret, points"), number("validation %"), number("test %"))
    rows = []
    for row in summary:
        regret = percent(row["regret_percent"])
        if row["regret_low"] is not None:
            regret += f" ({row['regret_low']:.2f} to {row['regret_high']:.2f})"
        found = (percent(row["val_top1_percent"]), percent(row["test_top1_percent"]))
        rows.append((row["searcher"], f"{row['evaluations']:,.0f}", regret, *found))
    show_table(title, columns, rows)
    reference = traces[0].reference
    if reference is not None:
        what = "functions of the grid" if args.space == GRID else "subnets"
        best = f"{reference.best_val_top1_percent:.2f} %, the best of {reference.n:,} measured {what}"
        show("", f"regret: points under {best}", f"{_judged(reference)}: {_text(bench, reference.best_key)}", "")
    for row in summary:
        if row["picked"] is not None:
            share = f"{row['times_picked']} of {row['searches']}"
            show(f"{row['searcher']} picked most often ({share}): {_text(bench, row['picked'])}")
        if row["regret_of"] < row["searches"] and reference is not None:
            show(
                f"{row['searcher']}: regret is of the {row['regret_of']} choices that can be judged, not of the others"
            )
    if args.plot:
        show(f"wrote {args.plot}")
    return 0


def traces_of(bench: Benchmark, args: argparse.Namespace) -> list[Trace]:
    """Every search that the options ask for, finished."""
    from attnbench.search.replay import replay

    space, measured = _grid(bench, args) if args.space == GRID else _subnets(bench, args)
    options: dict[str, Any] = {"budget": args.budget, "unit": args.unit, "repeat_price": args.repeat_price}
    return [
        trace
        for searcher in dict.fromkeys(args.searcher)
        for trace in replay(space, measured, searcher, search_seeds=range(args.seeds), **options)
    ]


def _grid(bench: Benchmark, args: argparse.Namespace) -> tuple[Space[Any], Measurements]:
    from attnbench.search.measurements import Measurements
    from attnbench.search.replay import grid_space

    if args.window is not None or args.judged or args.inherited is not None:
        raise ValueError(
            "a space of subnets is what --window, --judged and --inherited are for; on the grid leave them out."
        )
    args.backbone = args.backbone or DEFAULT_BACKBONE
    args.protocol = args.protocol or DEFAULT_PROTOCOL["attention"]
    measured = Measurements.from_benchmark(
        bench, backbone=args.backbone, protocol=args.protocol, shown_seed=args.shown_seed
    )
    return grid_space(bench, measured=measured), measured


def _subnets(bench: Benchmark, args: argparse.Namespace) -> tuple[Space[Any], Measurements]:
    """Subnets with the accuracy that a supernet gives them; their own training from scratch is the truth."""
    from attnbench.search.measurements import Measurements
    from attnbench.search.replay import subnet_space
    from attnbench.space.subnet_named import SPACES

    if args.space not in SPACES:
        raise ValueError(f"there is no space {args.space!r}; choose {GRID} or one of {', '.join(SPACES)}.")
    if args.backbone not in (None, args.space) or args.protocol is not None:
        raise ValueError(
            f"the grid is what --backbone and --protocol are for; the runs of {args.space} are its own, and "
            "--inherited says which of them searchers see."
        )
    measured = Measurements.from_benchmark(
        bench,
        backbone=args.space,
        protocol=args.inherited or INHERITED_PROTOCOLS[0],
        shown_seed=args.shown_seed,
        truth_protocol=DEFAULT_PROTOCOL["subnet"],
    )
    window = None if args.window is None else window_of(args.window)
    return subnet_space(bench, args.space, measured=measured, window=window, judged=args.judged), measured


def _judged(reference: Reference) -> str:
    seeds = ", ".join(map(str, reference.seeds))
    by = {
        "other seeds": "by the other seeds",
        "shown seed": "by the shown seed, which is kind to them",
        "truth": "by training from scratch, seeds",
    }
    return f"{by[reference.definition]} ({seeds})"


def _text(bench: Benchmark, key: str) -> str:
    return bench.subnet(key).text if key.startswith(PREFIX) else bench.graph(key).text


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
    favourite = max(sorted(set(picked)), key=picked.count) if picked else None
    return {
        "searcher": searcher,
        "searches": len(traces),
        "evaluations": fmean(len(trace.evaluations) for trace in traces),
        "regret_of": len(regrets),
        "regret_percent": fmean(regrets) if regrets else None,
        "regret_low": low,
        "regret_high": high,
        "val_top1_percent": _mean_of_known([trace.best_val_top1_percent for trace in traces]),
        "test_top1_percent": _mean_of_known([trace.test_top1_percent for trace in traces]),
        "picked": favourite,
        "times_picked": picked.count(favourite) if favourite else 0,
    }


def search_figure(traces: list[Trace], args: argparse.Namespace) -> Axes:
    import pandas as pd

    from attnbench.analysis.plot import plot_search
    from attnbench.analysis.regret import search_curves

    rows = pd.DataFrame([row for trace in traces for row in trace.rows()])
    if rows.empty:
        raise ValueError(
            f"no query fits into a budget of {args.budget:g} {args.unit}, so there is nothing to draw; give more."
        )
    xlabel = "evaluations" if args.unit == "evaluations" else "simulated seconds"
    return plot_search(search_curves(rows), xlabel=xlabel)


def save(axes: Axes, file: str) -> None:
    axes.figure.savefig(file, dpi=150)  # type: ignore[union-attr]  # made by analysis, never a subfigure


def _mean_of_known(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
