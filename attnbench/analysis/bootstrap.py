"""The percentile bootstrap over rows, with every resample written as how often each row is drawn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

N_RESAMPLES = 1_000
LEVEL = 0.95
# Counts of this many cells (resamples × rows) are drawn at once: 32 MB of int64.
_CELLS = 4_000_000


def resample_counts(n: int, n_resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each of n rows is drawn in each bootstrap resample: blocks of (resamples, n), int64.

    The draws depend on n, n_resamples and seed alone, so statistics of the same rows are resampled alike.
    """
    rng = np.random.default_rng(seed)
    block = max(1, min(n_resamples, _CELLS // max(n, 1)))
    for start in range(0, n_resamples, block):
        size = min(block, n_resamples - start)
        drawn = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)


def percentile_interval(values: np.ndarray, level: float) -> tuple[float, float] | None:
    """The middle `level` of the resamples' values; None where most of them are undefined (NaN)."""
    defined = values[~np.isnan(values)]
    if not len(values) or 2 * len(defined) < len(values):
        return None
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(defined, [tail, 100 - tail])
    return float(low), float(high)


def check_options(n_resamples: int, level: float) -> None:
    """Raises: ValueError for a level outside (0, 1) or a negative number of resamples."""
    if not 0 < level < 1:
        raise ValueError(f"level is {level!r}; an interval's coverage lies between 0 and 1, such as 0.95.")
    if n_resamples < 0:
        raise ValueError(f"n_resamples is {n_resamples}; pass the number of bootstrap resamples, or 0 for no interval.")
