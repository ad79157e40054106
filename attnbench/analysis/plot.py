"""Figures, drawn without pyplot's global state. matplotlib is loaded when a figure is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from attnbench.analysis.rank import Direction, kendall_tau
from attnbench.analysis.rows import usable_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Colours that stay apart for colour-blind readers (Okabe and Ito 2008).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def plot_score(
    score: Iterable[object],
    accuracy: Iterable[object],
    *,
    name: str = "score",
    direction: Direction = "higher",
    ylabel: str = "validation top-1 (%)",
    ax: Axes | None = None,
) -> Axes:
    """Scatter of a score against accuracy, titled with its tau, interval and n. Save with `ax.figure.savefig(path)`."""
    score, accuracy = list(score), list(accuracy)
    rows = usable_rows({"score": score, "accuracy": accuracy})
    tau = kendall_tau(score, accuracy, direction=direction)
    ax = ax if ax is not None else _new_axes()
    ax.scatter(rows.columns["score"], rows.columns["accuracy"], s=9, alpha=0.5, color=_COLOURS[0], linewidths=0)
    positive = rows.n and rows.columns["score"].min() > 0
    if positive and rows.columns["score"].max() > 1_000 * rows.columns["score"].min():
        ax.set_xscale("log")
    value = f"τ undefined: {tau.reason}" if tau.value is None else f"τ = {tau.value:.2f}"
    interval = "" if tau.low is None else f" ({tau.low:.2f} to {tau.high:.2f})"
    ax.set_title(f"{name}: {value}{interval}, n = {tau.n} of {tau.n_rows}", fontsize="medium")
    ax.set_xlabel(f"{name} ({direction} is better)")
    ax.set_ylabel(ylabel)
    return ax


def plot_curves(
    curves: Mapping[str, Sequence[Sequence[float]]], *, ylabel: str = "validation top-1 (%)", ax: Axes | None = None
) -> Axes:
    """Learning curves over epochs: one colour per name, one line for each of its runs."""
    ax = ax if ax is not None else _new_axes()
    for i, (name, runs) in enumerate(curves.items()):
        for n, curve in enumerate(runs):
            label = name if n == 0 else None
            ax.plot(range(1, len(curve) + 1), curve, color=_COLOURS[i % len(_COLOURS)], label=label, linewidth=1)
    ax.set_xticks(range(1, 1 + max((len(curve) for runs in curves.values() for curve in runs), default=0)))
    ax.set_xlabel("epoch")
    ax.set_ylabel(ylabel)
    if curves:
        ax.legend(frameon=False, fontsize="small")
    return ax


def plot_search(
    curves: pd.DataFrame,
    *,
    xlabel: str = "evaluations",
    ylabel: str = "regret (percentage points)",
    ax: Axes | None = None,
) -> Axes:
    """One line per searcher of `search_curves`, its interval over search seeds shaded."""
    ax = ax if ax is not None else _new_axes()
    for i, (searcher, rows) in enumerate(curves.groupby("searcher", sort=False)):
        colour = _COLOURS[i % len(_COLOURS)]
        label = f"{searcher} (mean of {int(rows['n'].max())})"
        ax.plot(rows["spent"], rows["mean"], drawstyle="steps-post", color=colour, label=label)
        ax.fill_between(rows["spent"], rows["low"], rows["high"], step="post", color=colour, alpha=0.2, linewidth=0)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if len(curves):
        ax.legend(frameon=False)
    return ax


def plot_proxy_ranks(ranks: pd.DataFrame, *, statistic: str = "tau", ax: Axes | None = None) -> Axes:
    """Each proxy's tau with its interval, one colour per population, the tau between seeds as a dashed line.

    ranks: of `proxy_ranks`. statistic: "tau", "partial_tau" or "spearman".
    """
    ax = ax if ax is not None else _new_axes()
    names = list(dict.fromkeys(ranks["proxy"]))
    groups = list(ranks.groupby("population", sort=False))
    for i, (population, rows) in enumerate(groups):
        colour, shift = _COLOURS[i % len(_COLOURS)], (i - (len(groups) - 1) / 2) * 0.2
        known = rows[rows[statistic].notna()]
        at = [names.index(name) + shift for name in known["proxy"]]
        ax.hlines(at, known[f"{statistic}_low"].astype(float), known[f"{statistic}_high"].astype(float), color=colour)
        ax.plot(known[statistic].astype(float), at, "o", color=colour, markersize=4, label=f"{population}")
        ceiling = rows["tau_between_seeds"].dropna()
        if statistic == "tau" and len(ceiling):
            ax.axvline(float(ceiling.iloc[0]), color=colour, linestyle="--", linewidth=0.8)
    ax.axvline(0, color="grey", linewidth=0.8)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel(f"{statistic.replace('_', ' ')} with accuracy (dashed: one seed against another)")
    if len(ranks):
        ax.legend(frameon=False, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(groups))
    return ax


def _new_axes() -> Axes:
    from matplotlib.figure import Figure

    return Figure(figsize=(6, 4), layout="constrained").subplots()
