"""Seed noise and its ceiling, on simulated tables whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from attnbench.analysis.accuracy import mean_accuracy, seed_matrix, select_runs
from attnbench.analysis.noise import ceiling_from_agreement, noise_ceiling, seed_noise


def simulated(n: int, seeds: int, noise: float, rng_seed: int = 0) -> tuple[np.ndarray, pd.DataFrame]:
    """True qualities with sd 1 and one noisy measurement of each per seed."""
    rng = np.random.default_rng(rng_seed)
    truth = rng.normal(80, 1, size=n)
    columns = {s: truth + noise * rng.normal(size=n) for s in range(seeds)}
    return truth, pd.DataFrame(columns, index=[f"k{i}" for i in range(n)])


def run_rows() -> pd.DataFrame:
    rows = [
        ("a", 0, "ok", 80.0, "h1"),
        ("a", 1, "ok", 82.0, "h1"),
        ("b", 0, "stopped", 12.0, "h1"),
        ("b", 1, "diverged", math.nan, "h1"),
        ("c", 1, "ok", 70.0, "h1"),
    ]
    frame = pd.DataFrame(rows, columns=["key", "seed", "status", "val_top1_percent", "protocol_hash"])
    frame["val_loss"] = [0.5, 0.4, 2.2, math.nan, 0.9]
    return frame.assign(backbone="deit", protocol="fmnist-micro")


def test_seed_matrix_counts_a_diverged_run_as_chance_and_keeps_gaps() -> None:
    matrix = seed_matrix(run_rows())
    assert matrix.loc["a"].tolist() == [80.0, 82.0]
    assert matrix.loc["b"].tolist() == [12.0, 10.0]
    assert math.isnan(matrix.loc["c", 0])
    means = mean_accuracy(matrix)
    assert means["mean"].tolist() == [81.0, 11.0, 70.0]
    assert means["n_seeds"].tolist() == [2, 2, 1]
    assert means.loc["a", "sd"] == pytest.approx(math.sqrt(2))
    assert math.isnan(means.loc["c", "sd"])


def test_seed_matrix_of_a_loss_imputes_nothing_and_takes_seeds() -> None:
    losses = seed_matrix(run_rows(), value="val_loss")
    assert math.isnan(losses.loc["b", 1])
    assert list(seed_matrix(run_rows(), seeds=[1]).columns) == [1]
    assert len(seed_matrix(run_rows(), backbone="pvt")) == 0


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (run_rows().drop(columns="seed"), {}, r"the frame of runs lacks \['seed'\]; pass the table `runs`"),
        (run_rows(), {"value": "accuracy"}, "runs has no column 'accuracy'; it has key, seed"),
        (pd.concat([run_rows(), run_rows()[:1]]), {}, "1 runs are stored twice, such as a with seed 0"),
        (
            run_rows().assign(protocol_hash=["h1", "h2", "h1", "h1", "h1"]),
            {},
            r"come from 2 versions of the protocol \(h1, h2\)",
        ),
    ],
)
def test_frames_that_cannot_be_read_are_refused(frame: pd.DataFrame, options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        seed_matrix(frame, **options)


def test_select_runs_takes_one_backbone() -> None:
    frame = pd.concat([run_rows(), run_rows().assign(backbone="pvt")])
    assert set(select_runs(frame, backbone="pvt", protocol="fmnist-micro")["backbone"]) == {"pvt"}


def test_seed_noise_recovers_the_simulated_spreads() -> None:
    _, matrix = simulated(3000, 3, noise=0.5)
    got = seed_noise(matrix, n_resamples=200)
    assert got.seed_sd == pytest.approx(0.5, rel=0.03)
    assert got.true_variant_sd == pytest.approx(1.0, rel=0.05)
    assert got.variant_sd == pytest.approx(math.sqrt(1 + 0.25 / 3), rel=0.05)
    assert got.low < got.snr < got.high
    assert got.snr == pytest.approx(got.variant_sd / got.seed_sd)


def test_seed_noise_equals_the_textbook_formula_with_gaps() -> None:
    matrix = pd.DataFrame({0: [1.0, 5.0, 9.0, 3.0], 1: [2.0, 7.0, 9.5, math.nan], 2: [math.nan, 6.0, 8.0, math.nan]})
    got = seed_noise(matrix, n_resamples=50)
    groups = [[1.0, 2.0], [5.0, 7.0, 6.0], [9.0, 9.5, 8.0]]
    pooled = sum(np.var(g, ddof=1) * (len(g) - 1) for g in groups) / sum(len(g) - 1 for g in groups)
    variant = np.var([np.mean(g) for g in groups], ddof=1)
    assert got.seed_sd == pytest.approx(math.sqrt(pooled))
    assert got.variant_sd == pytest.approx(math.sqrt(variant))
    assert got.true_variant_sd == pytest.approx(math.sqrt(variant - pooled * np.mean([1 / len(g) for g in groups])))
    assert (got.n, got.n_rows) == (3, 4)


def test_seed_noise_without_enough_seeds_or_noise_says_so() -> None:
    one = seed_noise(pd.DataFrame({0: [1.0, 2.0]}))
    assert one.snr is None
    assert one.reason == "n = 0; at least 2 architectures with at least 2 seeds each are needed"
    same = seed_noise(pd.DataFrame({0: [1.0, 2.0], 1: [1.0, 2.0]}))
    assert (same.seed_sd, same.snr, same.reason) == (0.0, None, "the seeds of every architecture agree exactly")
    with pytest.raises(ValueError, match="level is 2"):
        seed_noise(pd.DataFrame({0: [1.0]}), level=2)


def test_ceiling_is_the_mean_tau_over_pairs_of_seeds() -> None:
    _, matrix = simulated(200, 3, noise=0.7)
    matrix.iloc[0, 1] = math.nan
    got = noise_ceiling(matrix, n_resamples=200)
    complete = matrix.iloc[1:]
    taus = [stats.kendalltau(complete[a], complete[b]).statistic for a, b in ((0, 1), (0, 2), (1, 2))]
    assert got.tau == pytest.approx(np.mean(taus))
    assert got.low < got.tau < got.high
    assert (got.n, got.n_rows, got.seeds) == (199, 200, (0, 1, 2))
    against = stats.kendalltau(complete[1], complete[[0, 2]].mean(axis=1)).statistic
    assert got.others[1].tau.value == pytest.approx(against)
    assert got.others[1].against == "mean of 0, 2"
    assert got.tau_others > got.tau


@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_perfect_ranking_reaches_the_predicted_ceiling(noise: float) -> None:
    truth, matrix = simulated(4000, 3, noise)
    got = noise_ceiling(matrix, n_resamples=0)
    assert (got.low, got.high) == (None, None)
    assert stats.kendalltau(truth, matrix[0]).statistic == pytest.approx(got.perfect_tau, abs=0.02)
    assert stats.kendalltau(truth, matrix.mean(axis=1)).statistic == pytest.approx(got.perfect_tau_mean, abs=0.02)


def test_ceiling_without_enough_seeds_or_ranking_says_so() -> None:
    one = noise_ceiling(pd.DataFrame({0: [1.0, 2.0]}))
    assert one.tau is None
    assert one.reason == "1 seeds and n = 2 architectures that have them all; at least 2 of each are needed"
    flat = noise_ceiling(pd.DataFrame({0: [1.0, 2.0, 3.0], 1: [5.0, 5.0, 5.0]}))
    assert (flat.tau, flat.reason) == (None, "seed 0 against 1: constant accuracy")
    two = noise_ceiling(pd.DataFrame({0: [1.0, 2.0], 1: [1.0, 2.0]}))
    assert (two.tau, two.low, two.high) == (1.0, None, None)


def test_ceiling_from_agreement_has_bounds() -> None:
    assert ceiling_from_agreement(1.0, 1) == 1.0
    assert ceiling_from_agreement(0.0, 3) is None
    assert ceiling_from_agreement(0.5, 1) < ceiling_from_agreement(0.5, 2) < ceiling_from_agreement(0.5, 9) < 1
    for tau, n in ((1.5, 1), (0.5, 0)):
        with pytest.raises(ValueError, match="expected tau in"):
            ceiling_from_agreement(tau, n)
