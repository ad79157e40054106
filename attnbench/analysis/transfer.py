"""Does a ranking on one backbone hold on another? Kendall's tau between backbones, and what seed noise allows."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from attnbench.analysis.accuracy import mean_accuracy, seed_matrix
from attnbench.analysis.bootstrap import LEVEL, N_RESAMPLES
from attnbench.analysis.noise import seed_noise
from attnbench.analysis.rank import kendall_tau, top_overlap
from attnbench.analysis.regret import selection_regret

if TYPE_CHECKING:
    import pandas as pd


def transfer_ranks(
    runs: pd.DataFrame,
    *,
    backbones: Sequence[str] | None = None,
    protocol: str = "fmnist-micro",
    keys: Collection[str] | None = None,
    value: str = "val_top1_percent",
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> pd.DataFrame:
    """How accuracies on one backbone rank those of the same architectures on another, for every two backbones.

    An accuracy is the mean of `value` over an architecture's seeds. backbones: by default all that have runs of the
    protocol, the most measured first. keys: only these architectures.
    Returns: one row per two backbones: n architectures measured on both; tau, tau_low, tau_high; tau_of_noise, what
    two backbones that agree in truth are expected to reach (`tau_under_noise`); top_overlap of the best tenth (k rows;
    chance_overlap); regret and random_regret on `other` of the best of the k that are best on `backbone`, percentage
    points. What is undefined is None, with the reason in `note`.
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
    matrices = {name: seed_matrix(runs, backbone=name, protocol=protocol, value=value) for name in names}
    if keys is not None:
        matrices = {name: matrix[matrix.index.isin(list(keys))] for name, matrix in matrices.items()}
    options = {"n_resamples": n_resamples, "level": level, "seed": seed}
    table = []
    for one, other in combinations(names, 2):
        both = matrices[one].index.intersection(matrices[other].index)
        scores, accuracies = (mean_accuracy(matrices[name].loc[both])["mean"].tolist() for name in (one, other))
        tau = kendall_tau(scores, accuracies, **options)  # type: ignore[arg-type]
        k = max(1, round(tau.n / 10))
        overlap = top_overlap(scores, accuracies, k, n_resamples=0)
        regret = selection_regret(scores, accuracies, k)
        row: dict[str, object] = {"backbone": one, "other": other, "n": tau.n}
        row |= {"tau": tau.value, "tau_low": tau.low, "tau_high": tau.high}
        row |= {"tau_of_noise": tau_under_noise(*(_reliability(matrices[name], both) for name in (one, other)))}
        row |= {"k": k, "top_overlap": overlap.value, "chance_overlap": overlap.chance}
        row |= {"regret": regret.regret, "random_regret": regret.random_regret}
        table.append(row | {"note": f"{tau.name}: {tau.reason}" if tau.reason else ""})
    return pd.DataFrame(table)


def tau_under_noise(one: float | None, other: float | None) -> float | None:
    """The tau between two noisy rankings of one truth, from the reliability of each.

    one, other: share of the variance of measured accuracies that is not noise, in [0, 1]; None where unknown.
    Where accuracies and noise are normal, the correlation is the root of the product, and tau = 2/π asin(ρ).
    Raises: ValueError for a reliability outside [0, 1].
    Source: Spearman 1904 (attenuation); Greiner 1909 (tau and ρ).
    """
    if one is None or other is None:
        return None
    if not (0 <= one <= 1 and 0 <= other <= 1):
        raise ValueError(f"reliabilities are {one!r} and {other!r}; expected shares of variance, from 0 to 1.")
    return 2 / math.pi * math.asin(math.sqrt(one * other))


def _reliability(matrix: pd.DataFrame, keys: pd.Index) -> float | None:
    """Share of the variance of these keys' means that is not seed noise; the noise is that of all keys with seeds."""
    noise = seed_noise(matrix, n_resamples=0)
    means = mean_accuracy(matrix.loc[keys])
    variance = float(means["mean"].var()) if len(keys) > 1 else 0.0
    if noise.seed_sd is None or variance == 0:
        return None
    return max(0.0, 1 - noise.seed_sd**2 * float((1 / means["n_seeds"]).mean()) / variance)
