"""From the table `runs` to one accuracy per architecture, or one per architecture and seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnbench.dataset.schema import PROTOCOL_CLASSES

if TYPE_CHECKING:
    import pandas as pd


def select_runs(runs: pd.DataFrame, *, backbone: str, protocol: str) -> pd.DataFrame:
    """The runs of one backbone under one version of one protocol.

    Raises: ValueError where the frame lacks a column, or mixes versions of the protocol (two `protocol_hash`).
    """
    absent = [name for name in ("key", "backbone", "protocol", "seed", "status") if name not in runs.columns]
    if absent:
        raise ValueError(f"the frame of runs lacks {absent}; pass the table `runs`, such as bench.table('runs').")
    chosen = runs[(runs["backbone"] == backbone) & (runs["protocol"] == protocol)]
    if "protocol_hash" in chosen.columns:
        versions = sorted(chosen["protocol_hash"].dropna().unique())
        if len(versions) > 1:
            raise ValueError(
                f"runs of {protocol!r} on {backbone!r} come from {len(versions)} versions of the protocol "
                f"({', '.join(versions)}), which must not be compared. Keep one protocol_hash."
            )
    return chosen


def seed_matrix(
    runs: pd.DataFrame,
    *,
    backbone: str = "deit",
    protocol: str = "fmnist-micro",
    value: str = "val_top1_percent",
    seeds: Sequence[int] | None = None,
) -> pd.DataFrame:
    """One row per key, one column per seed, a value of `runs` in each cell, NaN where there is no run.

    Diverged runs count as chance where the value is an accuracy in percent, as in `Benchmark.query`; a stopped run
    counts with its last validation value.
    Raises: ValueError (no such column; doubled runs; see also `select_runs`).
    """
    chosen = select_runs(runs, backbone=backbone, protocol=protocol)
    if value not in chosen.columns:
        raise ValueError(f"runs has no column {value!r}; it has {', '.join(chosen.columns)}.")
    if seeds is not None:
        chosen = chosen[chosen["seed"].isin(list(seeds))]
    doubled = chosen[chosen.duplicated(["key", "seed"])]
    if len(doubled):
        first = doubled.iloc[0]
        raise ValueError(
            f"{len(doubled)} runs are stored twice, such as {first['key']} with seed {first['seed']}. "
            "Keep one row per key and seed."
        )
    values = chosen[value].astype("float64")
    if value == "val_top1_percent":
        values = values.where(chosen["status"] != "diverged", 100 / PROTOCOL_CLASSES[protocol])
    return chosen.assign(**{value: values}).pivot(index="key", columns="seed", values=value).sort_index()


def mean_accuracy(matrix: pd.DataFrame) -> pd.DataFrame:
    """Per key of a `seed_matrix`: `mean` and `sd` (ddof 1, NaN below two seeds) over its seeds, and `n_seeds`."""
    import pandas as pd

    return pd.DataFrame(
        {"mean": matrix.mean(axis=1), "sd": matrix.std(axis=1, ddof=1), "n_seeds": matrix.notna().sum(axis=1)}
    )
