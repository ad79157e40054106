"""Rankings on one backbone against another, on simulated accuracies whose truth and noise are known."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from attnbench.analysis.transfer import MIN_WITH_SEEDS, tau_under_noise, transfer_ranks


def runs_of(columns: dict[tuple[str, int], np.ndarray], protocol: str = "fmnist-micro") -> pd.DataFrame:
    """Rows of `runs`, a column of accuracies for each backbone and seed."""
    parts = [
        pd.DataFrame({"key": [f"k{i:04}" for i in range(len(values))], "val_top1_percent": values}).assign(
            backbone=backbone, seed=seed, protocol=protocol, protocol_hash=backbone, status="ok"
        )
        for (backbone, seed), values in columns.items()
    ]
    return pd.concat(parts, ignore_index=True)


def two_backbones(truth: np.ndarray) -> pd.DataFrame:
    """Two backbones that agree in truth, with noise of 0.5 and 1; three seeds of the first 300 of 2,000 graphs."""
    rng = np.random.default_rng(0)
    columns = {}
    for backbone, noise in (("deit", 0.5), ("pvt", 1.0)):
        for seed, n in ((0, 2_000), (1, 300), (2, 300)):
            columns[backbone, seed] = truth[:n] + rng.normal(0, noise, n)
    columns["pvt", 0] = columns["pvt", 0][:1_500]
    return runs_of(columns)


@pytest.fixture(scope="module")
def agreeing() -> pd.DataFrame:
    return two_backbones(np.random.default_rng(10).normal(80, 1, 2_000))


def test_backbones_that_agree_reach_the_tau_of_their_noise(agreeing: pd.DataFrame) -> None:
    (row,) = transfer_ranks(agreeing, n_resamples=200).to_dict("records")
    assert (row["backbone"], row["other"], row["n"], row["k"]) == ("deit", "pvt", 1_500, 150)
    assert row["tau_low"] < row["tau"] < row["tau_high"]
    # 1 / (1 + 0.25) and 1 / (1 + 1) of the variance is true; a fifth of the graphs have three seeds.
    means_of = 1 / (0.8 + 0.2 / 3)
    shares = [1 / (1 + noise**2 / means_of) for noise in (0.5, 1.0)]
    assert row["tau_of_noise"] == pytest.approx(2 / math.pi * math.asin(math.sqrt(math.prod(shares))), abs=0.04)
    assert row["tau_of_noise"] == pytest.approx(row["tau"], abs=0.05)
    assert (row["seeds_n"], row["other_seeds_n"]) == (300, 300)
    assert row["tau_between_seeds"] == pytest.approx(2 / math.pi * math.asin(0.8), abs=0.05)
    assert row["other_tau_between_seeds"] == pytest.approx(2 / math.pi * math.asin(0.5), abs=0.05)
    assert row["chance_overlap"] == 0.1
    assert row["top_overlap"] > 0.25
    assert 0 <= row["regret"] < row["random_regret"]


def test_a_few_failures_do_not_make_noisy_rankings_look_sure() -> None:
    # Failures hold nearly all of the variance, but tau is over pairs, most of them in the bulk.
    truth = np.random.default_rng(20).normal(80, 1, 2_000)
    truth[::20] = 10
    (row,) = transfer_ranks(two_backbones(truth), n_resamples=0).to_dict("records")
    assert row["tau"] < 0.55
    # Of 20 such tables, 0.035 too high in the mean, with a standard deviation of 0.015.
    assert 0 < row["tau_of_noise"] - row["tau"] < 0.08


def test_tau_is_that_of_the_means_over_seeds(agreeing: pd.DataFrame) -> None:
    keys = [f"k{i:04}" for i in range(100)]
    (row,) = transfer_ranks(agreeing, keys=keys, n_resamples=0).to_dict("records")
    means = agreeing[agreeing["key"].isin(keys)].groupby(["backbone", "key"])["val_top1_percent"].mean()
    assert row["n"] == 100
    assert row["tau"] == pytest.approx(kendalltau(means["deit"], means["pvt"]).statistic)
    assert pd.isna(row["tau_low"])


def test_backbones_that_disagree_fall_short_of_their_noise(agreeing: pd.DataFrame) -> None:
    rng = np.random.default_rng(1)
    other = {("swin", seed): rng.normal(80, 1, 2_000) for seed in (0, 1)}
    rows = transfer_ranks(pd.concat([agreeing, runs_of(other)]), backbones=["deit", "swin"], n_resamples=0)
    assert abs(rows.loc[0, "tau"]) < 0.05
    same = {("cswin", seed): np.arange(2_000.0) + seed for seed in (0, 1)}
    reverse = {("swin", seed): -np.arange(2_000.0) - seed for seed in (0, 1)}
    (row,) = transfer_ranks(runs_of(same | reverse), n_resamples=0).to_dict("records")
    assert row["tau"] == -1
    assert row["tau_of_noise"] == 1
    assert (row["top_overlap"], row["regret"]) == (0, 1_800)


def test_every_two_of_the_backbones_stand_once_the_most_measured_first(agreeing: pd.DataFrame) -> None:
    third = runs_of({("cswin", 0): np.arange(30.0), ("cswin", 1): np.arange(MIN_WITH_SEEDS - 1.0)})
    rows = transfer_ranks(pd.concat([third, agreeing]), n_resamples=0)
    assert list(zip(rows["backbone"], rows["other"], strict=True)) == [
        ("deit", "pvt"),
        ("deit", "cswin"),
        ("pvt", "cswin"),
    ]
    assert pd.isna(rows.loc[1, "tau_of_noise"])  # nine graphs with two seeds say too little
    assert (rows.loc[1, "n"], rows.loc[1, "other_seeds_n"]) == (30, MIN_WITH_SEEDS - 1)


def test_nothing_shared_has_a_reason_and_no_number(agreeing: pd.DataFrame) -> None:
    (row,) = transfer_ranks(agreeing, keys=[]).to_dict("records")
    assert row["n"] == 0
    assert all(row[name] is None for name in ("tau", "tau_low", "tau_of_noise", "top_overlap", "regret"))
    assert row["note"] == "kendall_tau_b: n = 0; a ranking needs at least 2 usable rows"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"backbones": ["deit"]},
            r"backbones: \['deit'\]; pass two or more of those with runs of 'fmnist-micro'",
        ),
        ({"backbones": ["deit", "vit"]}, "no runs of 'fmnist-micro' on 'vit'; pass two or more"),
        ({"protocol": "mine"}, r"backbones: \[\]; pass two or more of those with runs of 'mine': none"),
    ],
)
def test_fewer_than_two_backbones(agreeing: pd.DataFrame, options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        transfer_ranks(agreeing, **options)


def test_tau_under_noise() -> None:
    assert tau_under_noise(0.4, 0.4) == pytest.approx(0.4)
    assert tau_under_noise(1, 1) == 1
    assert tau_under_noise(1, 1 / 3, other_seeds=2) == pytest.approx(2 / math.pi * math.asin(math.sqrt(2 / 3)))
    assert tau_under_noise(None, 1) is None
    assert tau_under_noise(0.5, -0.1) is None
    with pytest.raises(ValueError, match=r"tau = 1\.5, n_seeds = 1; expected tau in \[-1, 1\]"):
        tau_under_noise(1.5, 1)
