"""What supernets inherit against training from scratch: statistics of made-up tables whose answers are known."""

import pandas as pd
import pytest
from scipy.stats import kendalltau

from attnbench.analysis.inheritance import inheritance_ranks, sharing_gap
from tests.builders.inherited_tables import N, runs_and_costs


@pytest.fixture(scope="module")
def frames():
    return runs_and_costs()


def column(runs, protocol, seed):
    chosen = runs[(runs["protocol"] == protocol) & (runs["seed"] == seed)]
    return chosen.set_index("key")["val_top1_percent"].sort_index()


def test_each_score_is_ranked_against_the_mean_from_scratch(frames):
    runs, costs = frames
    ranks = inheritance_ranks(runs, costs, n_resamples=200).set_index("score")
    assert list(ranks.index) == ["micro-entangled", "micro-classical", "params", "one seed"]
    scratch = [column(runs, "micro-scratch", seed) for seed in (0, 1)]
    truth = sum(scratch) / 2
    first = column(runs, "micro-entangled", 0).loc[truth.index]
    row = ranks.loc["micro-entangled"]
    assert row["tau"] == pytest.approx(kendalltau(first, truth).statistic)
    assert row["tau_low"] < row["tau"] < row["tau_high"]
    assert (row["n"], row["n_inherited"], row["seed"]) == (N, N + 5, 0)
    assert row["mean_of_ranked"] == pytest.approx(first.mean())
    assert row["mean"] == pytest.approx(column(runs, "micro-entangled", 0).mean())
    assert row["partial_tau"] < row["tau"]  # parameters explain some of it
    assert ranks.loc["one seed", "tau"] == pytest.approx(kendalltau(*scratch).statistic)
    assert pd.isna(ranks.loc["params", "partial_tau"])  # given itself
    assert ranks.loc["params", "note"].startswith("partial_kendall_tau_b: ")


def test_the_gap_is_the_difference_of_both(frames):
    runs, costs = frames
    gap, ranks = sharing_gap(runs, n_resamples=200), inheritance_ranks(runs, costs, n_resamples=0).set_index("score")
    entangled, classical = ranks.loc["micro-entangled"], ranks.loc["micro-classical"]
    assert gap.n == N
    assert gap.tau == pytest.approx(entangled["tau"] - classical["tau"])
    assert gap.low < gap.tau < gap.high
    assert gap.points == pytest.approx(entangled["mean_of_ranked"] - classical["mean_of_ranked"])
    assert gap.below_scratch[1] - gap.below_scratch[0] == pytest.approx(gap.points)


def test_without_runs_it_says_what_is_missing(frames):
    runs, costs = frames
    with pytest.raises(ValueError, match="no run of micro-scratch on autoformer-micro is in the table"):
        inheritance_ranks(runs[runs["protocol"] != "micro-scratch"], costs)
    with pytest.raises(ValueError, match="0 subnets of autoformer-micro have runs of all of micro-entangled, micro-cl"):
        sharing_gap(runs[runs["protocol"] != "micro-classical"])


def test_equal_scores_have_no_tau(frames):
    runs, _ = frames
    flat = runs.assign(val_top1_percent=runs["val_top1_percent"].where(runs["protocol"] != "micro-classical", 50.0))
    gap = sharing_gap(flat, n_resamples=20)
    assert (gap.tau, gap.low, gap.high) == (None, None, None)
