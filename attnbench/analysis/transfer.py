"""Does a ranking on one backbone hold on another? Kendall's tau between backbones, and what seed noise allows."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from attnbench.analysis.accuracy import mean_accuracy, seed_matrix
from attnbench.analysis.bootstrap import LEVEL, N_RESAMPLES
from attnbench.analysis.noise import reliability_from_agreement, tau_of_correlation
from attnbench.analysis.rank import kendall_tau, top_overlap
from attnbench.analysis.regret import selection_regret

if TYPE_CHECKING:
    import pandas as pd

# Fewer architectures with two seeds say too little of how well seeds agree.
MIN_WITH_SEEDS = 10


def transfer_ranks(
    runs: pd.DataFrame,
    *,
    backbones: Sequence[str] | None = None,
    protocol: str = "fmnist-micro",
    keys: Collection[str] | None = None,
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> pd.DataFrame:
    """How accuracies on one backbone rank those of the same architectures on another, for every two backbones.

    An accuracy is an architecture's mean validation top-1 over its seeds. backbones: by default all that have runs of
    the protocol, the most measured first. keys: only these architectures.
    Returns: one row per two backbones: n architectures measured on both; tau, tau_low, tau_high; tau_of_noise, what
    two backbones that agree in truth are expected to reach (`tau_under_noise`), from seeds_n and other_seeds_n of these
    architectures that have two seeds, whose seeds agree with tau_between_seeds and other_tau_between_seeds;
    top_overlap of the best tenth (k rows; chance_overlap); regret and random_regret on `other` of the best of the k
    that are best on `backbone`, percentage points. What is undefined is None; `note` says why tau is.
    Raises: ValueError for fewer than two backbones, and for one without runs of the protocol; see also `seed_matrix`.
    """
    import pandas as pd

    counts = runs.loc[runs["protocol"] == protocol, "backbone"].value_counts()
    measured = sorted(counts.index, key=lambda name: (-counts[name], name))
    names = measured if backbones is None else list(dict.fromkeys(backbones))
    absent = [name for name in names if name not in measured]
    if absent or len(names) < 2:
        raise ValueError(
            f"{f'no runs of {protocol!r} on {absent[0]!r}' if absent else f'backbones: {names}'}; pass two or more of "
            f"those with runs of {protocol!r}: {', '.join(measured) or 'none'}."
        )
    matrices = {name: seed_matrix(runs, backbone=name, protocol=protocol) for name in names}
    if keys is not None:
        matrices = {name: matrix[matrix.index.isin(list(keys))] for name, matrix in matrices.items()}
    table = []
    for one, other in combinations(names, 2):
        both = matrices[one].index.intersection(matrices[other].index)
        mine, others = (matrices[name].loc[both] for name in (one, other))
        scores, accuracies = (mean_accuracy(matrix)["mean"].tolist() for matrix in (mine, others))
        tau = kendall_tau(scores, accuracies, n_resamples=n_resamples, level=level, seed=seed)
        k = max(1, round(tau.n / 10))
        overlap = top_overlap(scores, accuracies, k, n_resamples=0)
        regret = selection_regret(scores, accuracies, k)
        (own, own_n), (its, its_n) = _between_seeds(mine), _between_seeds(others)
        row: dict[str, object] = {"backbone": one, "other": other, "n": tau.n}
        row |= {"tau": tau.value, "tau_low": tau.low, "tau_high": tau.high}
        row |= {"tau_of_noise": tau_under_noise(own, its, _seeds(mine), _seeds(others))}
        row |= {"tau_between_seeds": own, "seeds_n": own_n, "other_tau_between_seeds": its, "other_seeds_n": its_n}
        row |= {"k": k, "top_overlap": overlap.value, "chance_overlap": overlap.chance}
        row |= {"regret": regret.regret, "random_regret": regret.random_regret}
        table.append(row | {"note": f"{tau.name}: {tau.reason}" if tau.reason else ""})
    return pd.DataFrame(table)


def tau_under_noise(
    one: float | None, other: float | None, one_seeds: float = 1, other_seeds: float = 1
) -> float | None:
    """The tau between two noisy rankings of one truth, from how well two seeds of each agree.

    one, other: tau between two single seeds; one_seeds, other_seeds: how many seeds each ranking is a mean of.
    Where accuracies and noise are normal, or are so after a change of scale that keeps their order, the correlation is
    the root of the product of reliabilities. Two rankings of one seed each with equal noise
    thus reach what two seeds of either do.
    Returns: tau in (0, 1]; None where a tau is unknown or not positive.
    Raises: ValueError (see `reliability_from_agreement`).
    Source: Spearman 1904 (attenuation).
    """
    if one is None or other is None:
        return None
    reliability, its = reliability_from_agreement(one, one_seeds), reliability_from_agreement(other, other_seeds)
    if reliability is None or its is None:
        return None
    return tau_of_correlation(math.sqrt(reliability * its))


def _between_seeds(matrix: pd.DataFrame) -> tuple[float | None, int]:
    """Tau between the first and the second seed of each architecture that has two, and how many have."""
    values = matrix.to_numpy(dtype=float)
    values = values[np.isfinite(values).sum(axis=1) >= 2]
    if len(values) < MIN_WITH_SEEDS:
        return None, len(values)
    # Known values first, in the order of the seeds.
    first, second = np.take_along_axis(values, np.argsort(np.isnan(values), axis=1, kind="stable"), axis=1)[:, :2].T
    return kendall_tau(first, second, n_resamples=0).value, len(values)


def _seeds(matrix: pd.DataFrame) -> float:
    """Seeds behind a mean, such that the noise of the means is that of one seed over it: their harmonic mean."""
    return float(1 / (1 / mean_accuracy(matrix)["n_seeds"]).mean()) if len(matrix) else 1.0
