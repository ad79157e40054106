"""How well a score ranks accuracies: Kendall, partial Kendall, Spearman, top-k overlap, each with its interval.

A score is turned the right way up first: with direction="lower" its sign is flipped, so that a positive value always
means that the score's better end is the accuracy's better end. What cannot be computed is None with a reason; NaN
never leaves this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from attnbench.analysis.bootstrap import LEVEL, N_RESAMPLES, check_options, percentile_interval, resample_counts
from attnbench.analysis.rows import Dropped, UsableRows, usable_rows
from attnbench.analysis.weighted import banded_tau_b, partial_tau_b, spearman_rho, tau_b, top_k_overlap

Direction = Literal["higher", "lower"]
Column = Iterable[object]
Kernel = Callable[[np.ndarray], np.ndarray]

SCORE, ACCURACY, COVARIATE = "score", "accuracy", "covariate"


@dataclass(frozen=True)
class RankStatistic:
    """One rank statistic of a score against accuracies, with everything needed to judge it.

    value: in [-1, 1], of overlap in [0, 1]; None where it is undefined, and then `reason` says why.
    low, high: percentile bootstrap interval at `level`; None where there is none, and then `interval_reason` says why.
    chance: the value expected of a score that knows nothing.
    n, n_rows: rows used and rows given; `dropped` counts the difference by column and reason.
    n_undefined: resamples, of `n_resamples`, without a value of their own; the interval is taken over the others.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    level: float
    chance: float
    n: int
    n_rows: int
    dropped: tuple[Dropped, ...]
    direction: Direction
    reason: str | None
    interval_reason: str | None
    n_resamples: int
    n_undefined: int

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.name}: undefined ({self.reason}; n = {self.n} of {self.n_rows})"
        interval = self.interval_reason if self.low is None else f"{self.low:.3f} to {self.high:.3f}"
        return f"{self.name}: {self.value:.3f} ({interval}; n = {self.n} of {self.n_rows})"


def kendall_tau(
    score: Column,
    accuracy: Column,
    *,
    direction: Direction = "higher",
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> RankStatistic:
    """Kendall's tau-b, ties counted on both sides. n_resamples=0 leaves the interval out.

    Raises: ValueError, TypeError (columns, direction, level: see the messages).
    Source: Kendall 1945.
    """
    rows = _rows({SCORE: score, ACCURACY: accuracy}, direction)
    kernel = partial(tau_b, rows.columns[SCORE], rows.columns[ACCURACY])
    return _statistic("kendall_tau_b", rows, direction, kernel, n_resamples, level, seed)


def partial_tau(
    score: Column,
    accuracy: Column,
    covariate: Column,
    *,
    direction: Direction = "higher",
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> RankStatistic:
    """Kendall's tau-b of score and accuracy given a covariate, such as the cost: what the score adds to it.

    Raises: ValueError, TypeError (columns, direction, level: see the messages).
    Source: Kendall 1942: (t_xy - t_xz t_yz) / sqrt((1 - t_xz²)(1 - t_yz²)).
    """
    rows = _rows({SCORE: score, ACCURACY: accuracy, COVARIATE: covariate}, direction)
    kernel = partial(partial_tau_b, rows.columns[SCORE], rows.columns[ACCURACY], rows.columns[COVARIATE])
    return _statistic("partial_kendall_tau_b", rows, direction, kernel, n_resamples, level, seed)


def banded_tau(
    score: Column,
    accuracy: Column,
    covariate: Column,
    *,
    width: float = 0.05,
    direction: Direction = "higher",
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> RankStatistic:
    """Kendall's tau-b over the pairs whose covariates are nearly equal: what the score knows at one cost.

    width: by how much of the smaller they may differ.
    Raises: ValueError, TypeError (width, columns, direction, level: see the messages).
    """
    if not width >= 0:
        raise ValueError(f"width is {width!r}; pass a share of the covariate from 0, such as 0.05.")
    rows = _rows({SCORE: score, ACCURACY: accuracy, COVARIATE: covariate}, direction)
    columns = (rows.columns[name] for name in (SCORE, ACCURACY, COVARIATE))
    kernel = partial(banded_tau_b, *columns, width=width)
    reason = f"no two rows whose covariates differ by up to {width:.3g} of the smaller can be compared"
    return _statistic("banded_kendall_tau_b", rows, direction, kernel, n_resamples, level, seed, why_nan=reason)


def spearman(
    score: Column,
    accuracy: Column,
    *,
    direction: Direction = "higher",
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> RankStatistic:
    """Spearman's rank correlation, with mid-ranks for ties.

    Raises: ValueError, TypeError (columns, direction, level: see the messages).
    Source: Spearman 1904.
    """
    rows = _rows({SCORE: score, ACCURACY: accuracy}, direction)
    kernel = partial(spearman_rho, rows.columns[SCORE], rows.columns[ACCURACY])
    return _statistic("spearman_rho", rows, direction, kernel, n_resamples, level, seed)


def top_overlap(
    score: Column,
    accuracy: Column,
    k: int,
    *,
    direction: Direction = "higher",
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> RankStatistic:
    """Share of the k best by score that are among the k best by accuracy; ties across place k share the places left.

    Raises: ValueError, TypeError (k, columns, direction, level: see the messages).
    """
    check_k(k)
    rows = _rows({SCORE: score, ACCURACY: accuracy}, direction)
    kernel = partial(top_k_overlap, rows.columns[SCORE], rows.columns[ACCURACY], k=int(k))
    reason = f"k = {k} exceeds the {rows.n} usable rows" if k > rows.n else None
    chance = k / rows.n if k <= rows.n else 1.0
    return _statistic(f"top_{k}_overlap", rows, direction, kernel, n_resamples, level, seed, reason, chance)


def check_k(k: int) -> None:
    """Raises: ValueError unless k is a whole number from 1."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueError(f"k is {k!r}; the number of best rows is a whole number from 1.")


def check_direction(direction: str) -> None:
    """Raises: ValueError unless it is "higher" or "lower"."""
    if direction not in ("higher", "lower"):
        raise ValueError(f'direction is {direction!r}; say which end of the score is better: "higher" or "lower".')


def _rows(columns: dict[str, Column], direction: Direction) -> UsableRows:
    check_direction(direction)
    rows = usable_rows(columns)
    if direction == "lower":
        rows.columns[SCORE] *= -1
    return rows


def _statistic(
    name: str,
    rows: UsableRows,
    direction: Direction,
    kernel: Kernel,
    n_resamples: int,
    level: float,
    seed: int,
    reason: str | None = None,
    chance: float = 0.0,
    why_nan: str = "the covariate orders the rows exactly as the score or the accuracy does",
) -> RankStatistic:
    check_options(n_resamples, level)
    value, reason = None, reason or _why_undefined(rows)
    if reason is None:
        exact = float(kernel(np.ones((1, rows.n), dtype=np.int64))[0])
        if np.isnan(exact):
            reason = why_nan
        else:
            value = exact
    low = high = None
    n_undefined, interval_reason = 0, reason
    if value is not None:
        low, high, n_undefined, interval_reason = _interval(kernel, rows.n, n_resamples, level, seed)
    return RankStatistic(
        name=name,
        value=value,
        low=low,
        high=high,
        level=level,
        chance=chance,
        n=rows.n,
        n_rows=len(rows.kept),
        dropped=rows.dropped,
        direction=direction,
        reason=reason,
        interval_reason=interval_reason,
        n_resamples=n_resamples,
        n_undefined=n_undefined,
    )


def _why_undefined(rows: UsableRows) -> str | None:
    if rows.n < 2:
        return f"n = {rows.n}; a ranking needs at least 2 usable rows"
    for column, values in rows.columns.items():
        if (values == values[0]).all():
            return f"constant {column}"
    return None


def _interval(
    kernel: Kernel, n: int, n_resamples: int, level: float, seed: int
) -> tuple[float | None, float | None, int, str | None]:
    """Percentile bootstrap over rows: low, high, undefined resamples, and the reason where there is no interval."""
    if n_resamples == 0:
        return None, None, 0, "no resamples were asked for"
    if n < 3:
        return None, None, 0, f"n = {n}; resampling says nothing about fewer than 3 rows"
    values = np.concatenate([kernel(counts) for counts in resample_counts(n, n_resamples, seed)])
    n_undefined = int(np.isnan(values).sum())
    interval = percentile_interval(values, level)
    if interval is None:
        return None, None, n_undefined, f"{n_undefined} of {n_resamples} resamples are undefined"
    return *interval, n_undefined, None
