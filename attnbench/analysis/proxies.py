"""How well each zero-cost proxy ranks: the table of tau per proxy and population, with its controls beside it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from attnbench.analysis.accuracy import mean_accuracy, seed_matrix
from attnbench.analysis.bootstrap import LEVEL, N_RESAMPLES
from attnbench.analysis.noise import noise_ceiling
from attnbench.analysis.rank import (
    Direction,
    RankStatistic,
    banded_tau,
    kendall_tau,
    partial_tau,
    spearman,
    top_overlap,
)
from attnbench.analysis.regret import selection_regret
from attnbench.analysis.rows import Dropped

if TYPE_CHECKING:
    import pandas as pd


def populations(matrix: pd.DataFrame, architectures: pd.DataFrame) -> dict[str, list[str]]:
    """Keys of a `seed_matrix` by population: "all", "sound" (passes every check), "top quarter" (by mean accuracy).

    A control that ranks failures low looks good on all rows; the other two ask whether it can tell good from better.
    Subnets are not checked, and so have no "sound".
    """
    import pandas as pd

    mean = mean_accuracy(matrix)["mean"].dropna()
    checked = architectures.set_index("key")["is_sound"].reindex(mean.index).dropna()
    top = mean[mean >= mean.quantile(0.75)] if len(mean) else pd.Series(dtype=float)
    sound = {"sound": list(checked.index[checked.astype(bool)])} if len(checked) else {}
    return {"all": list(mean.index), **sound, "top quarter": list(top.index)}


def proxy_ranks(
    runs: pd.DataFrame,
    proxies: pd.DataFrame,
    costs: pd.DataFrame,
    of: Mapping[str, Collection[str]],
    *,
    backbone: str = "deit",
    protocol: str = "fmnist-micro",
    value: str = "val_top1_percent",
    names: Sequence[str] | None = None,
    directions: Mapping[str, Direction] | None = None,
    covariate: str = "macs",
    weight_seed: int = 0,
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank statistics of each proxy, and of params and macs as controls, in each population of keys.

    The accuracy is the mean over seeds of `value` of `runs`; the score is the proxy's value with one weight seed.
    names: proxies to compare; by default all, without the parts (names with a dot) of those that are a whole as well.
    directions: "higher" unless said.
    Returns: one row per population and proxy: tau, partial_tau (given the covariate) and spearman, each with _low and
    _high; top_overlap of the best tenth (k rows; chance_overlap of a random score); regret and random_regret of the
    best of those k; n of n_rows used, with `dropped` in words; tau_between_seeds, the noise ceiling, over ceiling_n
    architectures. What is undefined is None, with the reason in `note`.
    Raises: ValueError for a covariate that is no column of numbers in costs, and for a name without a score on this
    backbone with this weight seed; see also `seed_matrix`.
    """
    import pandas as pd

    if covariate not in costs.columns:
        raise ValueError(f"costs has no column {covariate!r}; it has {', '.join(costs.columns)}.")
    if covariate in ("key", "backbone") or not pd.api.types.is_numeric_dtype(costs[covariate]):
        numeric = [name for name in costs.columns if pd.api.types.is_numeric_dtype(costs[name])]
        raise ValueError(
            f"column {covariate!r} of costs holds no numbers; a covariate is one of {', '.join(numeric) or 'none'}."
        )
    matrix = seed_matrix(runs, backbone=backbone, protocol=protocol, value=value)
    accuracy = mean_accuracy(matrix)["mean"].to_dict()
    cost = costs[costs["backbone"] == backbone].set_index("key")
    scores: dict[str, dict[str, object]] = {}
    mine = proxies[(proxies["backbone"] == backbone) & (proxies["weight_seed"] == weight_seed)]
    whole = {str(name) for name in mine["proxy"]}
    for name, rows in mine.groupby("proxy"):
        stem, dot, _ = str(name).partition(".")
        if name in names if names is not None else not dot or stem not in whole:
            scores[str(name)] = dict(zip(rows["key"], rows["value"], strict=True))
    for name in ("params", "macs"):
        if name in cost.columns and (names is None or name in names):
            scores[name] = scores.get(name, {}) | cost[name].to_dict()
    absent = [name for name in names or () if name not in scores]
    if absent:
        scored = proxies[(proxies["backbone"] == backbone) & proxies["proxy"].isin(absent)]["weight_seed"]
        raise ValueError(
            f"no scores of {', '.join(absent)} on {backbone} with weight seed {weight_seed}; "
            f"scored weight seeds: {', '.join(map(str, sorted(set(scored)))) or 'none'}."
        )
    options = {"n_resamples": n_resamples, "level": level, "seed": seed}
    table = []
    for population, keys in of.items():
        keys = [key for key in keys if key in accuracy]
        ceiling = noise_ceiling(matrix.loc[keys], n_resamples=0)
        given = cost[covariate].reindex(keys).tolist()
        for name, score in scores.items():
            direction = (directions or {}).get(name, "higher")
            columns = [score.get(key) for key in keys], [accuracy[key] for key in keys]
            row: dict[str, object] = {"population": population, "proxy": name, "direction": direction}
            row |= rank_row(*columns, given, direction=direction, **options)  # type: ignore[arg-type]
            note = row.pop("note")
            table.append(row | {"tau_between_seeds": ceiling.tau, "ceiling_n": ceiling.n, "note": note})
    return pd.DataFrame(table)


def rank_row(
    score: Sequence[object],
    accuracy: Sequence[object],
    covariate: Sequence[object],
    *,
    direction: Direction = "higher",
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> dict[str, object]:
    """The statistics of one score against one accuracy, as `proxy_ranks` names them, from n to `note`.

    Raises: ValueError, TypeError (see `kendall_tau`).
    """
    tau = kendall_tau(score, accuracy, direction=direction, n_resamples=n_resamples, level=level, seed=seed)
    # A score that is the covariate itself has no partial tau; the reason says so.
    partial = partial_tau(
        score, accuracy, covariate, direction=direction, n_resamples=n_resamples, level=level, seed=seed
    )
    rho = spearman(score, accuracy, direction=direction, n_resamples=n_resamples, level=level, seed=seed)
    k = max(1, round(tau.n / 10))
    overlap = top_overlap(score, accuracy, k, direction=direction, n_resamples=0)
    regret = selection_regret(score, accuracy, k, direction=direction)
    row: dict[str, object] = {"n": tau.n, "n_rows": tau.n_rows, "dropped": dropped_in_words(tau.dropped)}
    row |= _with_interval("tau", tau) | _with_interval("partial_tau", partial) | _with_interval("spearman", rho)
    row |= {"k": k, "top_overlap": overlap.value, "chance_overlap": overlap.chance}
    row |= {"regret": regret.regret, "random_regret": regret.random_regret}
    reasons = [f"{s.name}: {s.reason}" for s in (tau, partial, rho, overlap) if s.reason]
    return row | {"note": "; ".join(reasons)}


def rank_columns(
    frame: pd.DataFrame,
    scores: Mapping[str, Direction],
    accuracies: Sequence[str],
    *,
    covariate: str = "params",
    width: float = 0.05,
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> pd.DataFrame:
    """How each score column of a frame ranks each accuracy column: a row of `rank_row` for every two.

    Beside it stands `banded_tau`, over the pairs whose covariates differ by up to `width`. scores: column, and which
    end of it is better. An accuracy without a single value is left out.
    Raises: ValueError where the frame lacks a column.
    """
    import pandas as pd

    absent = [name for name in (*scores, *accuracies, covariate) if name not in frame.columns]
    if absent:
        raise ValueError(f"the frame lacks {', '.join(map(repr, absent))}; it has {', '.join(frame.columns)}.")
    options = {"n_resamples": n_resamples, "level": level, "seed": seed}
    given = frame[covariate].tolist()
    table = []
    for accuracy in accuracies:
        if frame[accuracy].isna().all():
            continue
        for score, direction in scores.items():
            columns = frame[score].tolist(), frame[accuracy].tolist(), given
            near = banded_tau(*columns, width=width, direction=direction, **options)  # type: ignore[arg-type]
            row = rank_row(*columns, direction=direction, **options)  # type: ignore[arg-type]
            notes = [str(row.pop("note")), f"{near.name}: {near.reason}" if near.reason else ""]
            names = {"accuracy": accuracy, "score": score, "direction": direction}
            table.append(names | row | _with_interval("banded_tau", near) | {"note": "; ".join(filter(None, notes))})
    return pd.DataFrame(table)


def dropped_in_words(dropped: Sequence[Dropped]) -> str:
    """For example "3 score missing, 1 accuracy NaN"; empty where every row was used."""
    return ", ".join(f"{d.rows} {d.column} {d.reason}" for d in dropped)


def _with_interval(name: str, statistic: RankStatistic) -> dict[str, float | None]:
    return {name: statistic.value, f"{name}_low": statistic.low, f"{name}_high": statistic.high}
