"""Commands that study the table: tau, transfer, plot. They read frames from the benchmark and hand them to analysis."""

from __future__ import annotations

import argparse
import math
import re
from typing import TYPE_CHECKING, Any

from attnbench.cli.searches import save, search_figure, traces_of
from attnbench.cli.show import count, load_bench, number, show, show_json, show_table
from attnbench.dataset.directions import proxy_direction
from attnbench.dataset.schema import DEFAULT_BACKBONE, DEFAULT_PROTOCOL

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from attnbench.dataset.benchmark import Benchmark


# Attention has as many parameters whatever the graph.
DEFAULT_GIVEN = {"attention": "macs", "subnet": "params"}

POPULATIONS = {
    "all": "all measured graphs",
    "sound": "sound graphs only (those that pass every check)",
    "top quarter": "the top quarter by accuracy",
}


def tau(args: argparse.Namespace) -> int:
    """How well each zero-cost proxy ranks: Kendall's tau with its interval, beside controls and the noise ceiling."""
    ranks = proxy_ranks_of(load_bench(args), **_ranking(args))
    if args.json:
        return show_json(ranks.to_dict("records"))
    interval = "95 % bootstrap intervals" if args.resamples else "no intervals"
    show(f"Kendall's tau with mean validation top-1 on {args.backbone}, {args.protocol}", f"({interval})", "")
    columns = ("proxy", number("n"), number("tau"), number(f"tau given {args.given}"), number("top tenth"))
    for population, rows in ranks.groupby("population", sort=False):
        records = rows.to_dict("records")
        cells = [
            (
                row["proxy"],
                count(row["n"]),
                interval_text(row, "tau"),
                interval_text(row, "partial_tau"),
                interval_text(row, "top_overlap"),
            )
            for row in records
        ]
        show_table(title_of(str(population), args.backbone), columns, cells)
        show(*remarks_of(records, args.given, column="proxy"))
        show(f"ceiling: {ceiling_text(records[0])}", "")
    show("top tenth: overlap of the best tenth by score and by accuracy; chance is 0.1")
    return 0


def transfer(args: argparse.Namespace) -> int:
    """Whether a ranking on one backbone holds on another: tau between backbones, and what seed noise lets it reach."""
    ranks = transfer_ranks_of(
        load_bench(args),
        sound=not args.all,
        protocol=args.protocol,
        backbones=args.backbone,
        n_resamples=args.resamples,
    )
    records = ranks.to_dict("records")
    if args.json:
        return show_json(records)
    columns = (
        "measured on",
        "used on",
        number("n"),
        number("tau"),
        number("if they agree"),
        number("top tenth"),
        number("regret"),
        number("random"),
    )
    show(f"Kendall's tau between mean validation top-1 on two backbones, {args.protocol}", "")
    show_table(POPULATIONS["all" if args.all else "sound"], columns, [transfer_cells(row) for row in records])
    show(*(f"{row['backbone']} and {row['other']}: {row['note']}" for row in records if row["note"]))
    show(
        "if they agree: tau of two equal rankings under the noise that two seeds of one backbone show (a normal model)",
        "top tenth: overlap of the best tenths; chance is about 0.1",
        "regret: points lost on the second by the best of the first's best tenth; random: of as many drawn at random",
    )
    return 0


def transfer_ranks_of(bench: Benchmark, *, sound: bool = True, **options: Any) -> pd.DataFrame:
    """`transfer_ranks` of a benchmark's runs, over its sound graphs or over all.

    Raises: ValueError (see `transfer_ranks`).
    """
    from attnbench.analysis.transfer import transfer_ranks

    architectures = bench.table("architectures")
    checked = architectures.dropna(subset=["is_sound"])
    keys = checked.loc[checked["is_sound"].astype(bool), "key"] if sound else architectures["key"]
    return transfer_ranks(bench.table("runs"), keys=set(keys), **options)


def transfer_cells(row: dict[str, Any]) -> tuple[str, ...]:
    """What a row of `transfer_ranks` says, a cell each: backbones, n, tau, and what it is judged by."""
    numbers = (_two(row[name]) for name in ("tau_of_noise", "top_overlap", "regret", "random_regret"))
    return (row["backbone"], row["other"], count(row["n"]), interval_text(row, "tau"), *numbers)


def plot(args: argparse.Namespace) -> int:
    """Draws a figure: `ranks` (tau of every proxy), `search`, or a proxy's name (its scores against accuracy)."""
    bench = load_bench(args)
    if args.what == "ranks":
        from attnbench.analysis.plot import plot_proxy_ranks

        axes = plot_proxy_ranks(proxy_ranks_of(bench, **_ranking(args)))
    elif args.what == "search":
        axes = search_figure(traces_of(bench, args), args)
    else:
        _ranking(args)
        axes = _score_figure(bench, args)
    save(axes, args.file)
    if args.json:
        return show_json({"file": args.file})
    show(f"wrote {args.file}")
    return 0


def proxy_ranks_of(
    bench: Benchmark,
    *,
    backbone: str = "deit",
    protocol: str = "fmnist-micro",
    names: list[str] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """`proxy_ranks` of a benchmark's tables in its three populations, each score the right way up.

    Raises: ValueError for a name that no score has.
    """
    from attnbench.analysis.accuracy import seed_matrix
    from attnbench.analysis.proxies import populations, proxy_ranks

    runs, proxies = bench.table("runs"), bench.table("proxies")
    stored = sorted({*proxies["proxy"], "params", "macs"})
    unknown = sorted(set(names or ()) - set(stored))
    if unknown:
        raise ValueError(f"no score is called {unknown[0]!r}; stored: {', '.join(stored)}.")
    matrix = seed_matrix(runs, backbone=backbone, protocol=protocol)
    if matrix.empty:
        measured = sorted(set(zip(runs["backbone"], runs["protocol"], strict=True)))
        have = ", ".join(f"{b} with {p}" for b, p in measured) or "none"
        raise ValueError(f"no runs of {protocol!r} on {backbone!r}; stored: {have}.")
    return proxy_ranks(
        runs,
        proxies,
        bench.table("costs"),
        populations(matrix, bench.table("architectures")),
        backbone=backbone,
        protocol=protocol,
        names=names,
        directions={name: proxy_direction(name) for name in stored},
        **options,
    )


def _ranking(args: argparse.Namespace) -> dict[str, Any]:
    """Options of `proxy_ranks_of`; a space in the place of a backbone has defaults of its own."""
    from attnbench.space.subnet_named import SPACES

    args.backbone = args.backbone or DEFAULT_BACKBONE
    kind = "subnet" if args.backbone in SPACES else "attention"
    args.protocol = args.protocol or DEFAULT_PROTOCOL[kind]
    args.given = args.given or DEFAULT_GIVEN[kind]
    return {
        "backbone": args.backbone,
        "protocol": args.protocol,
        "names": args.proxy or None,
        "covariate": args.given,
        "weight_seed": args.weight_seed,
        "n_resamples": args.resamples,
    }


def title_of(population: str, backbone: str) -> str:
    """What a population of graphs, or of the subnets of a space, is."""
    return POPULATIONS[population].replace("graphs", members_of(backbone))


def members_of(backbone: str) -> str:
    """What is ranked on a backbone, or in a space that stands in its place."""
    from attnbench.space.subnet_named import SPACES

    return "subnets" if backbone in SPACES else "graphs"


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


def interval_text(row: dict[str, Any], name: str) -> str:
    """A statistic of a row of `proxy_ranks` with its interval, such as "0.28 (0.09 to 0.44)"."""
    value, low, high = (_known(row.get(part)) for part in (name, f"{name}_low", f"{name}_high"))
    if value is None:
        return "-"
    return _two(value) if low is None or high is None else f"{_two(value)} ({_two(low)} to {_two(high)})"


def ceiling_text(row: dict[str, Any]) -> str:
    """How far seed noise lets a score come, from a row of `proxy_ranks`."""
    from attnbench.analysis.noise import ceiling_from_agreement

    between = _known(row["tau_between_seeds"])
    if between is None:
        return "unknown; it takes graphs with several seeds"
    perfect = ceiling_from_agreement(between, 1)
    reach = "" if perfect is None else f"; a perfect score: about {perfect:.2f}"
    return f"two seeds agree with tau {_two(between)} (n = {row['ceiling_n']:,}){reach}"


def remarks_of(rows: list[dict[str, Any]], given: str, *, column: str) -> list[str]:
    """What rows of `rank_row` need said, each once, behind its scores: direction, rows left out, what is undefined.

    column: holds a row's score.
    """
    named: dict[str, list[str]] = {}
    for row in rows:
        remarks = ["lower is better"] if row["direction"] == "lower" else []
        remarks += [f"left out: {row['dropped']}"] if row["dropped"] else []
        for remark in [*remarks, *_reasons(row["note"], is_given=row[column] == given)]:
            named.setdefault(remark, []).append(row[column])
    return [f"{', '.join(dict.fromkeys(scores))}: {remark}" for remark, scores in named.items()]


def _reasons(note: str, *, is_given: bool) -> list[str]:
    """Why statistics of a row of `rank_row` are undefined, without their names.

    is_given: that a cost says nothing beyond itself needs no words.
    """
    parts = re.split(r"(?:^|; )(\w+): ", note)[1:]
    return [
        reason
        for statistic, reason in zip(parts[::2], parts[1::2], strict=True)
        if not (is_given and statistic.startswith(("partial_", "banded_")))
    ]


def _two(value: Any) -> str:
    return "-" if _known(value) is None else f"{round(value, 2) + 0.0:.2f}"  # + 0.0: no "-0.00"


def _known(value: Any) -> float | None:
    """A frame turns None into NaN; this turns it back."""
    return None if value is None or (isinstance(value, float) and math.isnan(value)) else float(value)
