"""What a choice costs in accuracy: picking by a score, and searching, against the best there is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attnbench.analysis.bootstrap import LEVEL, N_RESAMPLES, check_options, percentile_interval, resample_counts
from attnbench.analysis.rank import ACCURACY, SCORE, Direction, check_direction, check_k
from attnbench.analysis.rows import Dropped, usable_rows

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SelectionRegret:
    """Measuring only the k best by score and keeping the best of them, against measuring everything.

    regret, random_regret: percentage points that the kept one lies under the best of all rows; by the score, and
    expected of k rows drawn at random. None, with a reason, where fewer than k rows are usable.
    """

    regret: float | None
    random_regret: float | None
    k: int
    n: int
    n_rows: int
    dropped: tuple[Dropped, ...]
    direction: Direction
    reason: str | None


def selection_regret(
    score: Iterable[object], accuracy: Iterable[object], k: int, *, direction: Direction = "higher"
) -> SelectionRegret:
    """Regret of the best of the k best by score; rows tied across place k are drawn at random, in expectation.

    Raises: ValueError, TypeError (k, columns, direction: see the messages).
    """
    check_k(k)
    check_direction(direction)
    rows = usable_rows({SCORE: score, ACCURACY: accuracy})
    if rows.n < k:
        reason = f"k = {k} exceeds the {rows.n} usable rows"
        return SelectionRegret(None, None, k, rows.n, len(rows.kept), rows.dropped, direction, reason)
    values, accuracies = rows.columns[SCORE], rows.columns[ACCURACY]
    if direction == "lower":
        values = -values
    threshold = np.sort(values)[-k]
    above, tied = accuracies[values > threshold], accuracies[values == threshold]
    kept = _expected_best(tied, k - len(above), floor=above.max(initial=-np.inf))
    best = accuracies.max()
    return SelectionRegret(
        regret=float(best - kept),
        random_regret=float(best - _expected_best(accuracies, k)),
        k=k,
        n=rows.n,
        n_rows=len(rows.kept),
        dropped=rows.dropped,
        direction=direction,
        reason=None,
    )


def search_curves(
    rows: pd.DataFrame,
    *,
    value: str = "regret_percent",
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> pd.DataFrame:
    """Mean of a searcher's traces at every amount spent, with a percentile bootstrap interval over search seeds.

    rows: those of `Trace.rows()` of any number of traces, one `searcher`, `search_seed`, `spent` and `value` each.
    Between two evaluations, and after its last, a trace keeps its value; before its first it has none.
    Returns: searcher, spent, mean, low, high, n (traces with a value there); low and high NaN below 3 traces.
    Raises: ValueError where the frame lacks a column, or a search seed.
    """
    import pandas as pd

    check_options(n_resamples, level)
    absent = [name for name in ("searcher", "search_seed", "spent", value) if name not in rows.columns]
    if absent:
        raise ValueError(f"the frame of evaluations lacks {absent}; pass the rows of traces, Trace.rows().")
    nameless = int(rows["search_seed"].isna().sum())
    if nameless:
        raise ValueError(f"{nameless} evaluations have no search_seed, which tells traces apart; number the traces.")
    parts = []
    for searcher, of_searcher in rows.groupby("searcher", sort=False):
        table = of_searcher.groupby(["spent", "search_seed"])[value].last().unstack("search_seed").sort_index()
        table = table.astype("float64").ffill()
        values = table.to_numpy()
        n = np.isfinite(values).sum(axis=1)
        low, high = _interval_of_means(values, n_resamples, level, seed)
        part = {"searcher": searcher, "spent": table.index, "mean": table.mean(axis=1).to_numpy()}
        parts.append(pd.DataFrame(part | {"low": low, "high": high, "n": n}))
    columns = ["searcher", "spent", "mean", "low", "high", "n"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def _expected_best(values: np.ndarray, k: int, floor: float = -np.inf) -> float:
    """Expected maximum of k of the values, drawn without replacement, and of `floor`."""
    ordered = np.maximum(np.sort(values), floor)
    n = len(ordered)
    # P(the i-th smallest is the highest drawn) = C(i-1, k-1) / C(n, k), built up by ratios to stay within floats.
    chance = np.zeros(n)
    chance[n - 1] = k / n
    for i in range(n - 1, k - 1, -1):
        chance[i - 1] = chance[i] * (i - k + 1) / i
    return float(chance @ ordered)


def _interval_of_means(values: np.ndarray, n_resamples: int, level: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Interval of each row's mean over its columns (search seeds), resampling columns; NaN with fewer than 3."""
    edges = np.full((2, len(values)), np.nan)
    n_traces = values.shape[1]
    if n_traces >= 3 and n_resamples:
        known = np.isfinite(values)
        counts = np.concatenate(list(resample_counts(n_traces, n_resamples, seed)))
        size = counts @ known.T
        sums = counts @ np.where(known, values, 0).T
        means = np.divide(sums, size, out=np.full(sums.shape, np.nan), where=size > 0)
        for i in range(len(values)):
            edges[:, i] = percentile_interval(means[:, i], level) or (np.nan, np.nan)
    return edges[0], edges[1]
