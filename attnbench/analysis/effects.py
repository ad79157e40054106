"""Which coordinates of the grid matter: variance of a full factorial split by factor, level and pair of factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Effects:
    """Least squares with one additive effect per level of each factor.

    factors: factor, share. levels: factor, level, effect (deviation from the mean, in the value's unit), mean, n.
    pairs: first, second, share that an interaction of the two adds to the additive model; empty unless asked for.
    A share is a part of the total variance over cells. In a complete factorial the factors are orthogonal, so that
    shares of factors sum to `additive_share`; otherwise a share is what the factor adds to all the others.
    They describe the given values, in which seeds are noise: compare the shares of one seed with those of another.
    n_cells have a value; n_missing have none; n_functions are distinct: equal cells carry one value more than once.
    """

    factors: pd.DataFrame
    levels: pd.DataFrame
    pairs: pd.DataFrame
    additive_share: float | None
    sd: float | None
    n_cells: int
    n_functions: int
    n_missing: int
    is_complete: bool
    reason: str | None


def main_effects(
    cells: pd.DataFrame, values: Mapping[str, float], factors: Sequence[str], *, with_pairs: bool = False
) -> Effects:
    """Effects of the factors on the value of each cell's function.

    cells: the factors and `key` as columns, one row per cell. values: by key, such as mean validation top-1.
    Raises: ValueError where `cells` lacks a column.
    """
    import pandas as pd

    absent = [name for name in (*factors, "key") if name not in cells.columns]
    if absent:
        raise ValueError(f"the frame of cells lacks {absent}; pass the table `cells`, such as bench.table('cells').")
    y = cells["key"].map(lambda key: values.get(key, np.nan)).to_numpy(dtype=float)
    known = np.isfinite(y)
    used, y = cells[known], y[known]
    columns = {name: used[name].to_numpy() for name in factors}
    n_levels = [cells[name].nunique() for name in factors]
    is_complete = bool(known.all()) and len(cells.drop_duplicates(list(factors))) == len(cells) == np.prod(n_levels)
    total = float(((y - y.mean()) ** 2).sum()) if len(y) else 0.0
    reason = None
    if len(y) < 2:
        reason = f"n = {len(y)}; effects need at least 2 cells with a value"
    elif total == 0:
        reason = "every cell has the same value"
    facts = {
        "n_cells": len(y),
        "n_functions": used["key"].nunique(),
        "n_missing": int((~known).sum()),
        "is_complete": bool(is_complete),
        "reason": reason,
    }
    pairs = pd.DataFrame({"first": [], "second": [], "share": []})
    if reason is not None:
        shares = pd.DataFrame({"factor": list(factors), "share": None})
        levels = pd.DataFrame({"factor": [], "level": [], "effect": [], "mean": [], "n": []})
        return Effects(shares, levels, pairs, None, 0.0 if len(y) else None, **facts)
    design = {name: _indicators(column) for name, column in columns.items()}
    additive = _residual(y, list(design.values()))
    share = [(_residual(y, [d for other, d in design.items() if other != name]) - additive) / total for name in factors]
    if with_pairs:
        rows = [
            (a, b, (additive - _residual(y, [*design.values(), _crossed(design[a], design[b])])) / total)
            for a, b in combinations(factors, 2)
        ]
        pairs = pd.DataFrame(rows, columns=["first", "second", "share"])
    return Effects(
        factors=pd.DataFrame({"factor": list(factors), "share": share}),
        levels=_level_effects(y, columns),
        pairs=pairs,
        additive_share=1 - additive / total,
        sd=float(np.std(y)),
        **facts,
    )


def _indicators(column: np.ndarray) -> np.ndarray:
    """(cells, levels) of 0 and 1."""
    return (column[:, None] == np.unique(column)[None, :]).astype(float)


def _crossed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(cells, levels of a × levels of b)."""
    return np.einsum("ni,nj->nij", a, b).reshape(len(a), -1)


def _residual(y: np.ndarray, design: list[np.ndarray]) -> float:
    """Sum of squares that an intercept and the design leave."""
    # Indicators of several factors are collinear; lstsq's least-norm solution leaves the same residual.
    x = np.column_stack([np.ones(len(y)), *design])
    solution = np.linalg.lstsq(x, y, rcond=None)[0]
    return float(((y - x @ solution) ** 2).sum())


def _level_effects(y: np.ndarray, columns: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Additive effects that sum to 0 over the levels of each factor, and each level's plain mean."""
    import pandas as pd

    levels = {name: np.unique(column) for name, column in columns.items()}
    # Sum-to-zero coding: the last level is minus the sum of the others.
    indicators = [_indicators(column) for column in columns.values()]
    blocks = [indicator[:, :-1] - indicator[:, -1:] for indicator in indicators]
    solution = np.linalg.lstsq(np.column_stack([np.ones(len(y)), *blocks]), y, rcond=None)[0]
    rows, at = [], 1
    for name, column in columns.items():
        free = solution[at : at + len(levels[name]) - 1]
        at += len(free)
        for level, effect in zip(levels[name], [*free, -free.sum()], strict=True):
            mine = y[column == level]
            rows.append((name, level, float(effect), float(mine.mean()), len(mine)))
    return pd.DataFrame(rows, columns=["factor", "level", "effect", "mean", "n"])
