"""Regret of a choice by score, and curves over searches."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.analysis.regret import search_curves, selection_regret


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=8), st.integers(1, 8))
def test_regret_is_the_mean_over_every_way_to_break_ties(rows: list[tuple[int, int]], k: int) -> None:
    score, accuracy = [r[0] for r in rows], [r[1] for r in rows]
    got = selection_regret(score, accuracy, k)
    if k > len(rows):
        assert got.reason == f"k = {k} exceeds the {len(rows)} usable rows"
        assert (got.regret, got.random_regret) == (None, None)
        return
    subsets = list(combinations(range(len(rows)), k))
    total = max(sum(score[i] for i in subset) for subset in subsets)
    best = [subset for subset in subsets if sum(score[i] for i in subset) == total]
    for chosen, value in ((best, got.regret), (subsets, got.random_regret)):
        expected = np.mean([max(accuracy) - max(accuracy[i] for i in subset) for subset in chosen])
        assert value == pytest.approx(expected, abs=1e-9)


def test_lower_is_better_when_said_and_bad_rows_are_dropped() -> None:
    got = selection_regret([3, 1, 2, None], [70, 90, 80, 99], 1, direction="lower")
    assert (got.regret, got.n, got.n_rows, got.dropped) == (0, 3, 4, (("score", "missing", 1),))
    assert selection_regret([3, 1, 2], [70, 90, 80], 1).regret == 20
    with pytest.raises(ValueError, match="k is 0; the number of best rows"):
        selection_regret([1], [1], 0)
    with pytest.raises(ValueError, match="direction is 'down'"):
        selection_regret([1], [1], 1, direction="down")


def traces() -> pd.DataFrame:
    rows = [("random", s, spent, 10 - s - spent) for s in range(3) for spent in (1, 2, 3)]
    rows += [("evolution", 0, 1, 9.0), ("evolution", 0, 2, 7.0), ("evolution", 0, 2, 6.0), ("evolution", 1, 4, 1.0)]
    return pd.DataFrame(rows, columns=["searcher", "search_seed", "spent", "regret_percent"])


def test_curves_keep_the_last_value_and_average_over_search_seeds() -> None:
    curves = search_curves(traces(), n_resamples=300)
    random = curves[curves["searcher"] == "random"]
    assert random["mean"].tolist() == [8, 7, 6]
    assert (random["low"] < random["mean"]).all()
    assert (random["high"] > random["mean"]).all()
    assert set(random["n"]) == {3}
    evolution = curves[curves["searcher"] == "evolution"]
    assert evolution["spent"].tolist() == [1, 2, 4]
    # The second query at 2 is a free repeat and the last word; the other trace begins at 4.
    assert evolution["mean"].tolist() == [9, 6, 3.5]
    assert evolution["n"].tolist() == [1, 1, 2]
    assert evolution["low"].isna().all()


def test_curves_of_nothing_and_of_the_wrong_frame() -> None:
    assert list(search_curves(traces()[:0]).columns) == ["searcher", "spent", "mean", "low", "high", "n"]
    with pytest.raises(ValueError, match=r"the frame of evaluations lacks \['spent'\]; pass the rows of traces"):
        search_curves(traces().drop(columns="spent"))


def test_curves_of_traces_without_a_search_seed_are_refused() -> None:
    frame = traces().astype({"search_seed": "object"})
    frame.loc[0, "search_seed"] = None
    with pytest.raises(ValueError, match="1 evaluations have no search_seed, which tells traces apart; number"):
        search_curves(frame)


def test_curves_of_an_undefined_regret_are_nan_only_in_frames() -> None:
    frame = traces().assign(regret_percent=math.nan)
    assert search_curves(frame)["n"].tolist() == [0] * 6
