"""Main effects on factorials whose truth is known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from attnbench.analysis.effects import main_effects

FACTORS = ("family", "activation", "norm")
LEVELS = {"family": ["a", "b", "c", "d"], "activation": ["none", "relu", "elu1"], "norm": ["none", "l2norm"]}
EFFECT = {"a": -3.0, "b": 1.0, "c": 0.0, "d": 2.0, "none": 0.0, "relu": -1.0, "elu1": 1.0, "l2norm": 0.0}


def factorial() -> pd.DataFrame:
    cells = pd.DataFrame(list(product(*LEVELS.values())), columns=FACTORS)
    return cells.assign(key=[f"k{i}" for i in range(len(cells))])


def additive(cells: pd.DataFrame) -> dict[str, float]:
    return {row.key: 80 + EFFECT[row.family] + EFFECT[row.activation] for row in cells.itertuples()}


def test_additive_truth_is_recovered_exactly() -> None:
    cells = factorial()
    got = main_effects(cells, additive(cells), FACTORS, with_pairs=True)
    assert got.is_complete
    assert (got.n_cells, got.n_functions, got.n_missing, got.reason) == (24, 24, 0, None)
    assert got.additive_share == pytest.approx(1)
    share = got.factors.set_index("factor")["share"]
    variance = {"family": 3.5, "activation": 2 / 3, "norm": 0.0}
    for name, expected in variance.items():
        assert share[name] == pytest.approx(expected / (3.5 + 2 / 3), abs=1e-9)
    effects = got.levels.set_index(["factor", "level"])["effect"]
    assert effects["family", "a"] == pytest.approx(-3)
    assert effects["activation", "elu1"] == pytest.approx(1)
    assert np.allclose(effects.groupby("factor").sum(), 0)
    assert np.allclose(got.pairs["share"], 0)
    assert got.sd == pytest.approx(np.sqrt(3.5 + 2 / 3))


def test_shares_equal_the_sums_of_squares_of_marginal_means() -> None:
    cells = factorial()
    rng = np.random.default_rng(0)
    values = {key: float(rng.normal()) for key in cells["key"]}
    got = main_effects(cells, values, FACTORS, with_pairs=True)
    y = cells["key"].map(values)
    total = ((y - y.mean()) ** 2).sum()
    for name in FACTORS:
        between = ((y.groupby(cells[name]).transform("mean") - y.mean()) ** 2).sum()
        assert got.factors.set_index("factor").loc[name, "share"] == pytest.approx(between / total)
    assert got.factors["share"].sum() == pytest.approx(got.additive_share)
    a, b = "family", "norm"
    joint = y.groupby([cells[a], cells[b]]).transform("mean")
    crossed = joint - y.groupby(cells[a]).transform("mean") - y.groupby(cells[b]).transform("mean") + y.mean()
    pair = got.pairs.set_index(["first", "second"]).loc[(a, b), "share"]
    assert pair == pytest.approx((crossed**2).sum() / total)


def test_missing_cells_are_counted_and_effects_still_estimated() -> None:
    cells = factorial()
    values = additive(cells)
    for key in ("k0", "k7"):
        del values[key]
    got = main_effects(cells, values, FACTORS)
    assert (got.n_cells, got.n_missing, got.is_complete) == (22, 2, False)
    assert got.levels.set_index(["factor", "level"])["effect"]["family", "d"] == pytest.approx(2)
    assert len(got.pairs) == 0


def test_equal_cells_count_once_as_functions() -> None:
    cells = factorial().assign(key=[f"k{i // 2}" for i in range(24)])
    got = main_effects(cells, {f"k{i}": float(i) for i in range(12)}, FACTORS)
    assert (got.n_cells, got.n_functions, got.is_complete) == (24, 12, True)


def test_no_spread_and_no_values_are_reasons() -> None:
    cells = factorial()
    flat = main_effects(cells, dict.fromkeys(cells["key"], 5.0), FACTORS)
    assert (flat.additive_share, flat.reason) == (None, "every cell has the same value")
    none = main_effects(cells, {}, FACTORS)
    assert (none.sd, none.reason) == (None, "n = 0; effects need at least 2 cells with a value")
    with pytest.raises(ValueError, match=r"the frame of cells lacks \['norm'\]; pass the table `cells`"):
        main_effects(cells.drop(columns="norm"), {}, FACTORS)
