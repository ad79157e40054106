"""The table of proxy ranks, and the figures, on a small simulated benchmark."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from attnbench.analysis.accuracy import seed_matrix
from attnbench.analysis.plot import plot_proxy_ranks, plot_score, plot_search
from attnbench.analysis.proxies import populations, proxy_ranks, rank_columns
from attnbench.analysis.rank import banded_tau, kendall_tau, partial_tau
from attnbench.analysis.regret import search_curves

N = 60


@pytest.fixture
def tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    keys = [f"k{i:02}" for i in range(N)]
    truth = rng.normal(80, 2, size=N)
    runs = pd.concat(
        pd.DataFrame({"key": keys, "seed": s, "val_top1_percent": truth + rng.normal(0, 0.5, N)}) for s in range(2)
    ).assign(backbone="deit", protocol="fmnist-micro", protocol_hash="h", status="ok")
    good = truth + rng.normal(0, 1, N)
    good[3] = math.nan
    score = {"good": good, "bad": -truth, "flat": np.ones(N), "good.part": truth, "pair.one": truth}
    proxies = pd.concat(pd.DataFrame({"key": keys, "proxy": name, "value": v}) for name, v in score.items())
    proxies = proxies[~((proxies["proxy"] == "good") & (proxies["key"] == "k05"))]
    other_seed = proxies.assign(value=0.0, weight_seed=1)
    proxies = pd.concat([proxies.assign(weight_seed=0), other_seed]).assign(backbone="deit")
    costs = pd.DataFrame({"key": keys, "macs": rng.integers(1, 9, N), "params": 1000}).assign(backbone="deit")
    architectures = pd.DataFrame({"key": keys, "is_sound": [None if i % 3 == 0 else i % 3 == 1 for i in range(N)]})
    return {"runs": runs, "proxies": proxies, "costs": costs, "architectures": architectures}


def ranks(tables: dict[str, pd.DataFrame], **options: object) -> pd.DataFrame:
    of = populations(seed_matrix(tables["runs"]), tables["architectures"])
    return proxy_ranks(
        tables["runs"], tables["proxies"], tables["costs"], of,
        directions={"bad": "lower"}, n_resamples=50, **options,
    )  # fmt: skip


def test_populations_are_all_sound_and_the_top_quarter(tables: dict[str, pd.DataFrame]) -> None:
    of = populations(seed_matrix(tables["runs"]), tables["architectures"])
    assert [len(keys) for keys in of.values()] == [60, 20, 15]
    mean = seed_matrix(tables["runs"]).mean(axis=1)
    assert set(of["top quarter"]) == set(mean.nlargest(15).index)
    assert all(int(key[1:]) % 3 == 1 for key in of["sound"])


def test_of_what_is_not_checked_none_is_called_sound(tables: dict[str, pd.DataFrame]) -> None:
    of = populations(seed_matrix(tables["runs"]), tables["architectures"].assign(is_sound=None))
    assert list(of) == ["all", "top quarter"]
    of = populations(seed_matrix(tables["runs"]), tables["architectures"].assign(is_sound=False))
    assert of["sound"] == []


def test_each_cell_of_the_table_is_its_statistic(tables: dict[str, pd.DataFrame]) -> None:
    table = ranks(tables).set_index(["population", "proxy"])
    assert set(table.index.get_level_values("proxy")) == {"good", "bad", "flat", "pair.one", "params", "macs"}
    mean = seed_matrix(tables["runs"]).mean(axis=1)
    good = tables["proxies"].query("proxy == 'good' and weight_seed == 0").set_index("key")["value"].dropna()
    row = table.loc[("all", "good")]
    assert row["tau"] == pytest.approx(stats.kendalltau(good, mean[good.index]).statistic)
    assert row["tau_low"] < row["tau"] < row["tau_high"]
    assert (row["n"], row["n_rows"], row["dropped"]) == (58, 60, "1 score missing, 1 score NaN")
    assert (row["k"], row["ceiling_n"], row["note"]) == (6, 60, "")
    assert row["regret"] < row["random_regret"]
    assert table.loc[("all", "bad"), "tau"] > 0.8
    assert table.loc[("all", "flat"), "note"].startswith("kendall_tau_b: constant score")
    assert pd.isna(table.loc[("all", "flat"), "tau"])
    macs = table.loc[("all", "macs")]
    assert macs["note"].startswith("partial_kendall_tau_b: the covariate orders the rows exactly")
    assert table.loc[("sound", "good"), "n_rows"] == 20


def test_proxies_can_be_named(tables: dict[str, pd.DataFrame]) -> None:
    assert set(ranks(tables, names=["good.part", "macs"])["proxy"]) == {"good.part", "macs"}
    with pytest.raises(ValueError, match="costs has no column 'flops'; it has key, macs"):
        ranks(tables, covariate="flops")


def test_params_that_are_stored_as_a_proxy_too_are_those_of_costs(tables: dict[str, pd.DataFrame]) -> None:
    one = {"key": "k00", "proxy": "params", "value": 1000.0, "weight_seed": 0, "backbone": "deit"}
    tables["proxies"] = pd.concat([tables["proxies"], pd.DataFrame([one])])
    assert ranks(tables).set_index(["population", "proxy"]).loc[("all", "params"), "n"] == N


def test_columns_of_one_frame_are_ranked() -> None:
    frame = pd.DataFrame({"dss": [1.0, 2, 3, 5, None], "loss": [9.0, 7, 8, 1, 0], "params": [1, 1, 2, 2, 3]})
    frame["kd"], frame["base"] = [1.0, 3, 2, 4, 9], [None] * 5
    table = rank_columns(frame, {"dss": "higher", "loss": "lower"}, ["kd", "base", "params"], n_resamples=50)
    assert list(table["accuracy"]) == ["kd", "kd", "params", "params"]
    first = table.iloc[0]
    assert (first["score"], first["n"], first["n_rows"], first["dropped"]) == ("dss", 4, 5, "1 score NaN")
    by_hand = kendall_tau([1, 2, 3, 5], [1, 3, 2, 4], n_resamples=50)
    assert (first["tau"], first["tau_low"], first["tau_high"]) == (by_hand.value, by_hand.low, by_hand.high)
    near = banded_tau([1, 2, 3, 5], [1, 3, 2, 4], [1, 1, 2, 2], width=0.05, n_resamples=50)
    assert (first["banded_tau"], first["banded_tau_low"]) == (near.value, near.low)
    wide = rank_columns(frame, {"dss": "higher"}, ["kd"], width=9, n_resamples=0)
    assert wide.iloc[0]["banded_tau"] == pytest.approx(first["tau"])
    apart = frame.assign(params=[1, 2, 4, 8, 16])
    assert "no two rows" in rank_columns(apart, {"dss": "higher"}, ["kd"]).iloc[0]["note"]
    assert first["partial_tau"] == partial_tau([1, 2, 3, 5], [1, 3, 2, 4], [1, 1, 2, 2], n_resamples=0).value
    assert table.iloc[1]["tau"] == kendall_tau([9, 7, 8, 1, 0], [1, 3, 2, 4, 9], direction="lower").value > 0
    with pytest.raises(ValueError, match="the frame lacks 'zico'; it has dss, loss, params, kd, base"):
        rank_columns(frame, {"zico": "higher"}, ["kd"])


def test_figures_are_drawn_and_saved(tables: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    scatter = plot_score([1, 2, 3, 5000, None], [1, 2, 4, 3, 9], name="dss")
    assert scatter.get_title().startswith("dss: τ = 0.67 (")
    assert scatter.get_title().endswith("n = 4 of 5")
    assert scatter.get_xscale() == "log"
    assert (
        plot_score([], []).get_title()
        == "score: τ undefined: n = 0; a ranking needs at least 2 usable rows, n = 0 of 0"
    )
    forest = plot_proxy_ranks(ranks(tables))
    assert [label.get_text() for label in forest.get_yticklabels()] == [
        "bad",
        "flat",
        "good",
        "pair.one",
        "params",
        "macs",
    ]
    rows = [("random", s, spent, 9 - s - spent) for s in range(3) for spent in range(4)]
    frame = pd.DataFrame(rows, columns=["searcher", "search_seed", "spent", "regret_percent"])
    search = plot_search(search_curves(frame, n_resamples=20))
    assert search.get_legend_handles_labels()[1] == ["random (mean of 3)"]
    assert plot_search(search_curves(frame, n_resamples=20), ax=search) is search
    for name, axes in (("scatter", scatter), ("forest", forest), ("search", search)):
        axes.figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000


def test_importing_analysis_loads_neither_matplotlib_nor_pandas_nor_torch(root: Path) -> None:
    program = (
        "import sys; import attnbench.analysis.plot, attnbench.analysis.proxies, attnbench.analysis.effects;"
        "print(sorted({'matplotlib', 'pandas', 'torch', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
