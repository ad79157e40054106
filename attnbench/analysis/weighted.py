"""Rank statistics of rows that count several times, for many sets of counts at once.

A bootstrap resample of n rows is a count per row, so 1,000 resamples are a matrix of counts, and every statistic
here takes such a matrix: `counts` is (resamples, n), whole numbers; the answer is (resamples,) float64, NaN where
the resample leaves the statistic undefined. All sums are of whole numbers below 2**53, hence exact: negating a
column negates the statistic to the last bit.
"""

from __future__ import annotations

import numpy as np

# Rows of the sign matrix that are held at once: bounds memory at _BLOCK * n * 4 bytes.
_BLOCK = 512


def tau_b(x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Kendall's tau-b with ties, per resample.

    The concordance of all pairs is w.T @ S @ w / 2 with S[i, j] = sign(x_i - x_j) sign(y_i - y_j): a matrix product,
    which a BLAS does in O(n²) per resample far faster than n log n steps of anything interpreted.
    Source: Kendall 1945, "The treatment of ties in ranking problems".
    """
    untied_x, untied_y = _untied_pairs(x, counts), _untied_pairs(y, counts)
    return _ratio(_concordance(x, y, counts), untied_x * untied_y)


def partial_tau_b(x: np.ndarray, y: np.ndarray, z: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Kendall's partial tau of x and y given z, from the three tau-b.

    Undefined where x or y is constant or ordered exactly as z is.
    Source: Kendall 1942, "Partial rank correlation".
    """
    xy, xz, yz = tau_b(x, y, counts), tau_b(x, z, counts), tau_b(y, z, counts)
    return _ratio(xy - xz * yz, (1 - xz**2) * (1 - yz**2))


def banded_tau_b(x: np.ndarray, y: np.ndarray, z: np.ndarray, counts: np.ndarray, *, width: float) -> np.ndarray:
    """Kendall's tau-b over the pairs alone whose z differ by at most `width` of the smaller, per resample."""
    near = np.abs(z[:, None] - z[None, :]) <= width * np.minimum(np.abs(z)[:, None], np.abs(z)[None, :])
    signs_x, signs_y = (np.sign(v[:, None] - v[None, :]) * near for v in (codes(x), codes(y)))
    weights = counts.astype(np.float64)

    def pairs(matrix: np.ndarray) -> np.ndarray:
        return np.einsum("rn,rn->r", weights @ matrix, weights) / 2

    return _ratio(pairs(signs_x * signs_y), pairs(np.abs(signs_x)) * pairs(np.abs(signs_y)))


def spearman_rho(x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Pearson's correlation of mid-ranks, per resample."""
    rank_x, rank_y = _centred_ranks(x, counts), _centred_ranks(y, counts)
    weighted = counts * rank_x
    covariance = np.einsum("rn,rn->r", weighted, rank_y)
    spread_x = np.einsum("rn,rn->r", weighted, rank_x)
    spread_y = np.einsum("rn,rn,rn->r", counts, rank_y, rank_y)
    return _ratio(covariance, spread_x * spread_y)


def top_k_overlap(x: np.ndarray, y: np.ndarray, counts: np.ndarray, k: int) -> np.ndarray:
    """Share of the k highest by x that are among the k highest by y.

    Rows tied across the k-th place are each in by the share of places left, so that no row order decides: the value
    is the expectation over random, independent tie-breaking.
    """
    both = counts * _membership(x, counts, k) * _membership(y, counts, k)
    return both.sum(axis=1) / k


def codes(values: np.ndarray) -> np.ndarray:
    """Dense ranks from 0: ties share one; comparisons of codes are comparisons of values."""
    return np.unique(values, return_inverse=True)[1].ravel()


def _concordance(x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Concordant less discordant pairs, per resample."""
    n = len(x)
    x_codes, y_codes = codes(x).astype(np.float32), codes(y).astype(np.float32)
    # float32 adds whole numbers exactly up to 2**24, and no partial sum exceeds the rows of a resample.
    weights = np.ascontiguousarray(counts, dtype=np.float32)
    total = np.zeros(len(counts))
    for start in range(0, n, _BLOCK):
        block = slice(start, min(start + _BLOCK, n))
        signs = np.sign(x_codes[block, None] - x_codes[None, start:])
        signs *= np.sign(y_codes[block, None] - y_codes[None, start:])
        # S is symmetric: pairs inside the block are met twice, pairs with later rows once.
        signs[:, : signs.shape[0]] *= 0.5
        rows = (weights[:, start:] @ signs.T).astype(np.float64)
        total += np.einsum("rn,rn->r", rows, counts[:, block])
    return total


def _untied_pairs(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Pairs of rows whose values differ, per resample."""
    rows = counts.sum(axis=1).astype(np.float64)
    tied = _group_counts(values, counts)[0]
    return (rows * (rows - 1) - (tied * (tied - 1)).sum(axis=1)) / 2


def _group_counts(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows per distinct value, ascending (resamples, groups), and the group of each row (n,)."""
    group = codes(values)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    if not len(starts):
        return np.zeros((len(counts), 0)), group
    return np.add.reduceat(counts[:, order].astype(np.float64), starts, axis=1), group


def _centred_ranks(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Twice the mid-rank less its mean: whole numbers, (resamples, n)."""
    size, group = _group_counts(values, counts)
    below = np.cumsum(size, axis=1) - size
    doubled = 2 * below + size + 1
    return (doubled - (counts.sum(axis=1, keepdims=True) + 1))[:, group]


def _membership(values: np.ndarray, counts: np.ndarray, k: int) -> np.ndarray:
    """Each row's probability of being among the k highest, (resamples, n)."""
    size, group = _group_counts(-values, counts)
    above = np.cumsum(size, axis=1) - size
    share = np.clip((k - above) / np.maximum(size, 1), 0, 1)
    return share[:, group]


def _ratio(numerator: np.ndarray, product: np.ndarray) -> np.ndarray:
    """numerator / sqrt(product) within [-1, 1]; NaN where the product is not positive."""
    # Kendall's partial tau leaves rounding of order 1e-16 where the exact product is 0.
    defined = product > 1e-12
    root = np.sqrt(np.where(defined, product, 1.0))
    return np.where(defined, np.clip(numerator / root, -1, 1), np.nan)
