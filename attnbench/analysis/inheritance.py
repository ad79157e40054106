"""Does a supernet rank its subnets as training from scratch does? Entangled and classical sharing, with controls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attnbench.analysis.accuracy import mean_accuracy, seed_matrix
from attnbench.analysis.bootstrap import LEVEL, N_RESAMPLES, check_options, percentile_interval, resample_counts
from attnbench.analysis.noise import noise_ceiling
from attnbench.analysis.rank import kendall_tau, partial_tau
from attnbench.analysis.weighted import tau_b

if TYPE_CHECKING:
    import pandas as pd

SUPERNETS = ("micro-entangled", "micro-classical")


def inheritance_ranks(
    runs: pd.DataFrame,
    costs: pd.DataFrame,
    *,
    space: str = "autoformer-micro",
    scratch: str = "micro-scratch",
    value: str = "val_top1_percent",
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> pd.DataFrame:
    """How what subnets inherit ranks them, against the mean over seeds of training each from scratch.

    runs, costs: the tables. value: an accuracy of `runs`, percent.
    Returns: one row per score: each supernet's inherited values, the parameters, and "one seed", which is one seed
    from scratch against another. Columns: seed of the supernet (None for controls); mean inherited accuracy of the
    n_inherited subnets that have one, its sd between subnets, and mean_of_ranked over the n subnets that were trained
    from scratch too; tau and partial_tau (given the parameters), each with _low and _high; note says what is
    undefined, and why.
    Raises: ValueError where no subnet of the space was trained from scratch; see also `seed_matrix`.
    """
    import pandas as pd

    matrix = seed_matrix(runs, backbone=space, protocol=scratch, value=value)
    if matrix.empty:
        raise ValueError(f"no run of {scratch} on {space} is in the table: python -m builders train writes them.")
    truth = mean_accuracy(matrix)["mean"]
    params = costs[costs["backbone"] == space].set_index("key")["params"]
    options = {"n_resamples": n_resamples, "level": level, "seed": seed}
    table: list[dict[str, object]] = []

    def add(name: str, supernet_seed: int | None, score: pd.Series, inherited: bool) -> None:
        keys = [key for key in truth.index if key in score.index]
        columns = score.loc[keys].tolist(), truth.loc[keys].tolist()
        tau = kendall_tau(*columns, **options)  # type: ignore[arg-type]
        partial = partial_tau(*columns, params.reindex(keys).tolist(), **options)  # type: ignore[arg-type]
        row: dict[str, object] = {"score": name, "seed": supernet_seed}
        row |= {"n_inherited": len(score), "mean": score.mean(), "sd": score.std()} if inherited else {}
        row |= {"mean_of_ranked": score.loc[keys].mean()} if inherited else {}
        row |= {"n": tau.n, "tau": tau.value, "tau_low": tau.low, "tau_high": tau.high}
        row |= {"partial_tau": partial.value, "partial_tau_low": partial.low, "partial_tau_high": partial.high}
        row["note"] = "; ".join(f"{s.name}: {s.reason}" for s in (tau, partial) if s.reason)
        table.append(row)

    for name in SUPERNETS:
        values = seed_matrix(runs, backbone=space, protocol=name, value=value)
        for supernet_seed in values.columns:
            add(name, int(supernet_seed), values[supernet_seed].dropna(), inherited=True)
    add("params", None, params, inherited=False)
    ceiling = noise_ceiling(matrix, n_resamples=n_resamples, level=level, seed=seed)
    table.append(
        {
            "score": "one seed",
            "n": ceiling.n,
            "tau": ceiling.tau,
            "tau_low": ceiling.low,
            "tau_high": ceiling.high,
            "note": ceiling.reason or "one seed from scratch against another",
        }
    )
    return pd.DataFrame(table)


@dataclass(frozen=True)
class SharingGap:
    """What entangled sharing has over classical sharing, on the subnets that have both and training from scratch.

    points: mean inherited accuracy, entangled minus classical, percent. below_scratch: mean accuracy from scratch minus
    mean inherited accuracy of each, percent. tau: difference of the two taus with training from scratch; low, high: its
    paired percentile bootstrap over subnets; None where it is undefined.
    """

    points: float
    below_scratch: tuple[float, float]
    tau: float | None
    low: float | None
    high: float | None
    n: int


def sharing_gap(
    runs: pd.DataFrame,
    *,
    space: str = "autoformer-micro",
    scratch: str = "micro-scratch",
    value: str = "val_top1_percent",
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> SharingGap:
    """Entangled against classical sharing, each by the mean over its supernets' seeds.

    Raises: ValueError where fewer than 3 subnets have all three accuracies; see also `seed_matrix`.
    """
    check_options(n_resamples, level)
    means = [
        mean_accuracy(seed_matrix(runs, backbone=space, protocol=name, value=value))["mean"].dropna()
        for name in (*SUPERNETS, scratch)
    ]
    keys = sorted(set.intersection(*(set(mean.index) for mean in means)))
    if len(keys) < 3:
        names = ", ".join((*SUPERNETS, scratch))
        raise ValueError(f"{len(keys)} subnets of {space} have runs of all of {names}; at least 3 are needed.")
    entangled, classical, truth = (mean.loc[keys].to_numpy(dtype=float) for mean in means)
    once = np.ones((1, len(keys)))
    taus = [float(tau_b(score, truth, once)[0]) for score in (entangled, classical)]
    blocks = [
        tau_b(entangled, truth, counts) - tau_b(classical, truth, counts)
        for counts in resample_counts(len(keys), n_resamples, seed)
    ]
    low, high = (percentile_interval(np.concatenate(blocks), level) if blocks else None) or (None, None)
    return SharingGap(
        points=float(entangled.mean() - classical.mean()),
        below_scratch=(float(truth.mean() - entangled.mean()), float(truth.mean() - classical.mean())),
        tau=None if np.isnan(taus).any() else taus[0] - taus[1],
        low=low,
        high=high,
        n=len(keys),
    )
