"""How much of a ranking is chance: spread between seeds, and how well one seed ranks as another does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from attnbench.analysis.bootstrap import LEVEL, N_RESAMPLES, check_options, percentile_interval, resample_counts
from attnbench.analysis.rank import RankStatistic, kendall_tau
from attnbench.analysis.weighted import tau_b

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SeedNoise:
    """Spread between the seeds of one architecture against spread between architectures, in the value's own unit.

    seed_sd: pooled standard deviation within an architecture; variant_sd: of the architectures' means, seed noise
    included; true_variant_sd: with seed noise taken out (0 where noise explains all). snr = variant_sd / seed_sd.
    low, high: percentile bootstrap of `snr` over architectures. None, with a reason, where seeds are too few.
    """

    seed_sd: float | None
    variant_sd: float | None
    true_variant_sd: float | None
    snr: float | None
    low: float | None
    high: float | None
    n: int
    n_rows: int
    reason: str | None


@dataclass(frozen=True)
class SeedAgreement:
    """How one seed's ranking agrees with another's, or with the mean of the others ("mean of 1, 2")."""

    seed: int
    against: str
    tau: RankStatistic


@dataclass(frozen=True)
class NoiseCeiling:
    """What a ranking of these architectures can reach, given that their accuracies are noisy.

    tau: mean tau-b over all pairs of seeds; low, high: percentile bootstrap over architectures.
    tau_others: mean tau-b of one seed against the mean of the others (with two seeds, the same as tau).
    perfect_tau: what the noiseless ranking is expected to reach against one seed, `perfect_tau_mean` against the mean
    of all seeds, both by `ceiling_from_agreement`, hence under its normal model.
    Rows are the architectures that have every seed. None, with a reason, where a value cannot be had.
    """

    tau: float | None
    low: float | None
    high: float | None
    tau_others: float | None
    perfect_tau: float | None
    perfect_tau_mean: float | None
    seeds: tuple[int, ...]
    n: int
    n_rows: int
    pairs: tuple[SeedAgreement, ...]
    others: tuple[SeedAgreement, ...]
    reason: str | None


def seed_noise(
    matrix: pd.DataFrame, *, n_resamples: int = N_RESAMPLES, level: float = LEVEL, seed: int = 0
) -> SeedNoise:
    """Signal and noise of a `seed_matrix`, over the architectures that have at least two seeds."""
    check_options(n_resamples, level)
    values = matrix.to_numpy(dtype=float)
    values = values[np.isfinite(values).sum(axis=1) >= 2]
    n = len(values)
    if n < 2:
        reason = f"n = {n}; at least 2 architectures with at least 2 seeds each are needed"
        return SeedNoise(None, None, None, None, None, None, n, len(matrix), reason)
    known = np.isfinite(values)
    n_seeds = known.sum(axis=1).astype(float)
    means = np.where(known, values, 0).sum(axis=1) / n_seeds
    squares = (np.where(known, values - means[:, None], 0) ** 2).sum(axis=1)
    # The spread does not depend on the origin, but its rounding does.
    means = means - means.mean()
    seed_sd, variant_sd, true_sd, snr = (float(v[0]) for v in _spreads(means, squares, n_seeds, np.ones((1, n))))
    if np.isnan(snr):
        reason = "the seeds of every architecture agree exactly"
        return SeedNoise(seed_sd, variant_sd, true_sd, None, None, None, n, len(matrix), reason)
    blocks = [_spreads(means, squares, n_seeds, counts)[3] for counts in resample_counts(n, n_resamples, seed)]
    low, high = (percentile_interval(np.concatenate(blocks), level) if blocks else None) or (None, None)
    return SeedNoise(seed_sd, variant_sd, true_sd, snr, low, high, n, len(matrix), None)


def noise_ceiling(
    matrix: pd.DataFrame, *, n_resamples: int = N_RESAMPLES, level: float = LEVEL, seed: int = 0
) -> NoiseCeiling:
    """Agreement between the seeds of a `seed_matrix`, over the architectures that have all of them."""
    check_options(n_resamples, level)
    complete = matrix[np.isfinite(matrix.to_numpy(dtype=float)).all(axis=1)]
    seeds = tuple(int(column) for column in matrix.columns)
    n, n_rows = len(complete), len(matrix)
    if len(seeds) < 2 or n < 2:
        reason = f"{len(seeds)} seeds and n = {n} architectures that have them all; at least 2 of each are needed"
        return NoiseCeiling(None, None, None, None, None, None, seeds, n, n_rows, (), (), reason)
    column = {s: complete[s].to_numpy(dtype=float) for s in matrix.columns}

    def agreement(one: np.ndarray, other: np.ndarray) -> RankStatistic:
        return kendall_tau(one, other, n_resamples=n_resamples, level=level, seed=seed)

    pairs = tuple(SeedAgreement(a, str(b), agreement(column[a], column[b])) for a, b in combinations(seeds, 2))
    others = []
    for one in seeds:
        rest = [s for s in seeds if s != one]
        mean = np.mean([column[s] for s in rest], axis=0)
        others.append(SeedAgreement(one, "mean of " + ", ".join(map(str, rest)), agreement(column[one], mean)))
    undefined = next((a for a in (*pairs, *others) if a.tau.value is None), None)
    if undefined is not None:
        reason = f"seed {undefined.seed} against {undefined.against}: {undefined.tau.reason}"
        return NoiseCeiling(None, None, None, None, None, None, seeds, n, n_rows, pairs, tuple(others), reason)
    tau = float(np.mean([a.tau.value for a in pairs]))
    low, high = _mean_tau_interval(column, n, n_resamples, level, seed)
    return NoiseCeiling(
        tau=tau,
        low=low,
        high=high,
        tau_others=float(np.mean([a.tau.value for a in others])),
        perfect_tau=ceiling_from_agreement(tau, 1),
        perfect_tau_mean=ceiling_from_agreement(tau, len(seeds)),
        seeds=seeds,
        n=n,
        n_rows=n_rows,
        pairs=pairs,
        others=tuple(others),
        reason=None,
    )


def ceiling_from_agreement(tau: float, n_seeds: int) -> float | None:
    """The tau that the noiseless ranking would reach against the mean of n seeds, from tau between two single seeds.

    Where accuracies and noise are normal, the root of a mean's reliability is its correlation with the truth.
    Returns: tau in (0, 1]; None for tau <= 0, where the seeds share no ranking.
    Raises: ValueError for n_seeds < 1 or |tau| > 1.
    """
    reliability = reliability_from_agreement(tau, n_seeds)
    return None if reliability is None else tau_of_correlation(math.sqrt(reliability))


def tau_of_correlation(rho: float) -> float:
    """Kendall's tau of two normal variables with correlation rho. Source: Greiner 1909."""
    return 2 / math.pi * math.asin(rho)


def reliability_from_agreement(tau: float, n_seeds: float) -> float | None:
    """The share of the variance of a mean of n seeds that is no noise, from tau between two single seeds.

    Where accuracies and noise are normal, or are so after a change of scale that keeps their order, ρ = sin(π/2 tau)
    between two seeds is the reliability of one, and the mean of n seeds has reliability nρ / (1 + (n-1)ρ).
    Returns: a share in (0, 1]; None for tau <= 0, where the seeds share no ranking.
    Raises: ValueError for n_seeds < 1 or |tau| > 1.
    Source: Greiner 1909 (tau and ρ); Spearman 1910, Brown 1910 (reliability of a mean).
    """
    if n_seeds < 1 or abs(tau) > 1:
        raise ValueError(f"tau = {tau!r}, n_seeds = {n_seeds!r}; expected tau in [-1, 1] and at least one seed.")
    if tau <= 0:
        return None
    one = math.sin(math.pi * tau / 2)
    return min(1.0, n_seeds * one / (1 + (n_seeds - 1) * one))


def _spreads(
    means: np.ndarray, squares: np.ndarray, n_seeds: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """seed_sd, variant_sd, true_variant_sd and snr, each (resamples,), of architectures that count several times."""
    rows = counts.sum(axis=1)
    noise = counts @ squares / (counts @ (n_seeds - 1))
    centre = counts @ means / rows
    variant = np.maximum(counts @ means**2 - rows * centre**2, 0) / (rows - 1)
    true = np.maximum(variant - noise * (counts @ (1 / n_seeds)) / rows, 0)
    snr = np.sqrt(np.divide(variant, noise, out=np.full(len(noise), np.nan), where=noise > 0))
    return np.sqrt(noise), np.sqrt(variant), np.sqrt(true), snr


def _mean_tau_interval(
    column: dict[int, np.ndarray], n: int, n_resamples: int, level: float, seed: int
) -> tuple[float | None, float | None]:
    if n_resamples == 0 or n < 3:
        return None, None
    drawn = [
        np.mean([tau_b(column[a], column[b], counts) for a, b in combinations(column, 2)], axis=0)
        for counts in resample_counts(n, n_resamples, seed)
    ]
    return percentile_interval(np.concatenate(drawn), level) or (None, None)
