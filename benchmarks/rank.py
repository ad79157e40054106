"""Time of rank statistics with 1,000 bootstrap resamples of 2,000 rows, and of scipy's tau in a loop.

OMP_NUM_THREADS=1 python benchmarks/rank.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from attnbench.analysis.bootstrap import N_RESAMPLES
from attnbench.analysis.rank import kendall_tau, partial_tau, spearman, top_overlap

ROWS = 2_000
LOOPED = 50


def main() -> None:
    """Print one line per statistic."""
    from scipy import stats

    rng = np.random.default_rng(0)
    score = rng.normal(size=ROWS).round(1)
    accuracy = score + rng.normal(size=ROWS)
    cost = score + rng.normal(size=ROWS)
    print(f"{ROWS:,} rows, {N_RESAMPLES:,} resamples")
    for name, call in (
        ("kendall_tau", lambda: kendall_tau(score, accuracy)),
        ("partial_tau", lambda: partial_tau(score, accuracy, cost)),
        ("spearman", lambda: spearman(score, accuracy)),
        ("top_overlap", lambda: top_overlap(score, accuracy, 100)),
    ):
        print(f"{name:12} {_seconds(call):6.2f} s")
    drawn = rng.integers(ROWS, size=(LOOPED, ROWS))
    looped = _seconds(lambda: [stats.kendalltau(score[rows], accuracy[rows]) for rows in drawn])
    print(f"{'scipy, loop':12} {looped * N_RESAMPLES / LOOPED:6.2f} s  kendalltau, from {LOOPED} resamples")


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
