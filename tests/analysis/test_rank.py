"""Rank statistics against brute force, scipy and the cases that have no answer."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from attnbench.analysis.bootstrap import resample_counts
from attnbench.analysis.rank import banded_tau, kendall_tau, partial_tau, spearman, top_overlap
from attnbench.analysis.rows import usable_rows

POINT = {"n_resamples": 0}
# Few distinct values, so that ties are the rule.
tied = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3)), min_size=0, max_size=12)


def tau_by_pairs(x: list[float], y: list[float]) -> float | None:
    """Kendall's tau-b from its definition, one pair at a time."""
    numerator = untied_x = untied_y = 0
    for i, j in combinations(range(len(x)), 2):
        a, b = (x[i] > x[j]) - (x[i] < x[j]), (y[i] > y[j]) - (y[i] < y[j])
        numerator, untied_x, untied_y = numerator + a * b, untied_x + abs(a), untied_y + abs(b)
    return None if untied_x * untied_y == 0 else numerator / math.sqrt(untied_x * untied_y)


@given(tied)
def test_tau_equals_brute_force(rows: list[tuple[int, int, int]]) -> None:
    x, y = [r[0] for r in rows], [r[1] for r in rows]
    expected, got = tau_by_pairs(x, y), kendall_tau(x, y, **POINT)
    assert got.value == (None if expected is None else pytest.approx(expected, abs=1e-12))
    assert (got.reason is None) == (got.value is not None)


@given(tied)
def test_negated_score_negates_exactly(rows: list[tuple[int, int, int]]) -> None:
    x, y, z = ([r[i] for r in rows] for i in range(3))
    minus = [-a for a in x]
    for statistic in (
        lambda s, d="higher": kendall_tau(s, y, direction=d, **POINT),
        lambda s, d="higher": spearman(s, y, direction=d, **POINT),
        lambda s, d="higher": partial_tau(s, y, z, direction=d, **POINT),
    ):
        value = statistic(x).value
        assert statistic(minus).value == (None if value is None else -value)
        assert statistic(minus, "lower").value == value


@given(tied, st.sampled_from([0.0, 0.5, 9.0]))
def test_banded_tau_equals_brute_force(rows: list[tuple[int, int, int]], width: float) -> None:
    x, y, z = ([r[i] for r in rows] for i in range(3))
    numerator = untied_x = untied_y = 0
    for i, j in combinations(range(len(x)), 2):
        if abs(z[i] - z[j]) <= width * min(abs(z[i]), abs(z[j])):
            a, b = (x[i] > x[j]) - (x[i] < x[j]), (y[i] > y[j]) - (y[i] < y[j])
            numerator, untied_x, untied_y = numerator + a * b, untied_x + abs(a), untied_y + abs(b)
    got = banded_tau(x, y, z, width=width, **POINT)
    if got.reason is None:
        assert got.value == pytest.approx(numerator / math.sqrt(untied_x * untied_y), abs=1e-12)
    elif got.reason.startswith("no two rows"):
        assert untied_x * untied_y == 0
        assert f"differ by up to {width:.3g} of the smaller" in got.reason


def test_banded_tau_resamples_rows() -> None:
    x, y, z = np.random.default_rng(0).normal(size=(3, 30))
    z = np.exp(z)
    got = banded_tau(x, y, z, width=0.5, n_resamples=40)
    drawn = [np.repeat(np.arange(30), counts) for counts in next(resample_counts(30, 40, 0))]
    values = [banded_tau(x[r], y[r], z[r], width=0.5, **POINT).value for r in drawn]
    assert (got.low, got.high) == tuple(pytest.approx(v) for v in np.percentile(values, [2.5, 97.5]))
    assert banded_tau(x, y, z, width=1e9, **POINT).value == pytest.approx(kendall_tau(x, y, **POINT).value)
    with pytest.raises(ValueError, match=r"width is -1; pass a share of the covariate from 0, such as 0\.05"):
        banded_tau(x, y, z, width=-1)


@given(tied)
def test_partial_tau_equals_the_formula(rows: list[tuple[int, int, int]]) -> None:
    x, y, z = ([r[i] for r in rows] for i in range(3))
    xy, xz, yz = tau_by_pairs(x, y), tau_by_pairs(x, z), tau_by_pairs(y, z)
    got = partial_tau(x, y, z, **POINT)
    if None in (xy, xz, yz) or math.isclose(abs(xz), 1) or math.isclose(abs(yz), 1):
        assert got.value is None
        assert got.reason
    else:
        expected = (xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2))
        assert got.value == pytest.approx(expected, abs=1e-9)


def expected_overlap(x: list[float], y: list[float], k: int) -> float:
    """Overlap of the top k, from each row's chance of being drawn among those tied at the k-th place."""

    def chances(values: list[float]) -> list[float]:
        above = [sum(other > v for other in values) for v in values]
        equal = [values.count(v) for v in values]
        return [min(1.0, max(0.0, (k - a) / e)) for a, e in zip(above, equal, strict=True)]

    return sum(p * q for p, q in zip(chances(x), chances(y), strict=True)) / k


@given(tied, st.integers(1, 12))
def test_top_overlap_equals_brute_force(rows: list[tuple[int, int, int]], k: int) -> None:
    x, y = [r[0] for r in rows], [r[1] for r in rows]
    got = top_overlap(x, y, k, **POINT)
    if len(rows) < 2 or k > len(rows) or len(set(x)) == 1 or len(set(y)) == 1:
        assert got.value is None
    else:
        assert got.value == pytest.approx(expected_overlap(x, y, k), abs=1e-12)
        assert got.chance == k / len(rows)


def test_top_overlap_without_ties_counts_common_rows() -> None:
    x, y = [9, 8, 7, 1, 2, 3], [9, 1, 8, 7, 2, 3]
    assert top_overlap(x, y, 3, **POINT).value == pytest.approx(2 / 3)
    assert top_overlap([-v for v in x], y, 3, direction="lower", **POINT).value == pytest.approx(2 / 3)


@pytest.mark.parametrize("n", [2, 3, 50, 1200])
@pytest.mark.parametrize("decimals", [0, 1, 12])
def test_single_values_equal_scipy(n: int, decimals: int) -> None:
    rng = np.random.default_rng(n)
    x = (3 * rng.normal(size=n)).round(decimals)
    y = (x + rng.normal(size=n)).round(decimals)
    assert kendall_tau(x, y, **POINT).value == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)
    assert spearman(x, y, **POINT).value == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


def test_interval_equals_a_loop_over_resampled_rows() -> None:
    rng = np.random.default_rng(1)
    x, y, z = rng.integers(8, size=(3, 40)).astype(float)
    y += x
    counts = np.concatenate(list(resample_counts(40, 60, seed=5)))
    drawn = [np.repeat(np.arange(40), c) for c in counts]
    assert all(len(rows) == 40 for rows in drawn)
    taus = [stats.kendalltau(x[r], y[r]).statistic for r in drawn]
    rhos = [stats.spearmanr(x[r], y[r]).statistic for r in drawn]
    overlaps = [expected_overlap(list(x[r]), list(y[r]), 7) for r in drawn]
    partials = [partial_tau(x[r], y[r], z[r], **POINT).value for r in drawn]
    options = {"n_resamples": 60, "seed": 5, "level": 0.9}
    for got, values in (
        (kendall_tau(x, y, **options), taus),
        (spearman(x, y, **options), rhos),
        (top_overlap(x, y, 7, **options), overlaps),
        (partial_tau(x, y, z, **options), partials),
    ):
        assert (got.low, got.high) == pytest.approx(tuple(np.percentile(values, [5, 95])), abs=1e-9)
        assert got.n_undefined == 0
        assert got.low <= got.value <= got.high


def test_interval_covers_the_true_tau_about_as_often_as_it_says() -> None:
    rho, truth = 0.6, 2 / math.pi * math.asin(0.6)
    hits = 0
    for trial in range(200):
        rng = np.random.default_rng(trial)
        x, noise = rng.normal(size=(2, 80))
        got = kendall_tau(x, rho * x + math.sqrt(1 - rho**2) * noise, n_resamples=200, seed=trial)
        hits += got.low <= truth <= got.high
    assert 0.88 <= hits / 200 <= 0.99


def test_blocks_of_the_sign_matrix_add_up() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.integers(300, size=(2, 1300))
    assert kendall_tau(x, y, **POINT).value == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-13)
    assert kendall_tau(x, x, **POINT).value == 1.0


def test_same_seed_same_interval_and_another_seed_another() -> None:
    x = list(range(30))
    y = [v % 7 for v in x]
    first, again, other = (kendall_tau(x, y, seed=s) for s in (3, 3, 4))
    assert first == again
    assert (first.low, first.high) != (other.low, other.high)


def test_dropped_rows_are_counted_once_by_column_and_reason() -> None:
    score = [1, None, math.nan, math.inf, 4, -math.inf, 6, 7]
    accuracy = [1, None, 2, 3, None, 5, math.nan, 8]
    got = kendall_tau(score, accuracy, **POINT)
    assert got.dropped == (
        ("score", "missing", 1),
        ("score", "NaN", 1),
        ("score", "inf", 2),
        ("accuracy", "missing", 1),
        ("accuracy", "NaN", 1),
    )
    assert (got.n, got.n_rows, got.value) == (2, 8, 1.0)


def test_frames_and_nullable_columns_are_read() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, math.nan, 4.0], "b": pd.array([3, 2, 1, None], dtype="Int64")})
    got = kendall_tau(frame["a"], frame["b"], **POINT)
    assert (got.value, got.n) == (-1.0, 2)
    assert got.dropped == (("score", "NaN", 1), ("accuracy", "missing", 1))


@pytest.mark.parametrize(
    ("score", "accuracy", "reason"),
    [
        ([], [], "n = 0; a ranking needs at least 2 usable rows"),
        ([1], [2], "n = 1; a ranking needs at least 2 usable rows"),
        ([math.nan, math.inf, 3], [1, 2, 3], "n = 1; a ranking needs at least 2 usable rows"),
        ([5, 5, 5], [1, 2, 3], "constant score"),
        ([1, 2, 3], [7, 7, 7], "constant accuracy"),
        ([1, 1], [1, 2], "constant score"),
    ],
)
def test_undefined_is_none_with_a_reason(score: list[float], accuracy: list[float], reason: str) -> None:
    for got in (
        kendall_tau(score, accuracy),
        spearman(score, accuracy),
        partial_tau(score, accuracy, range(len(score))),
        top_overlap(score, accuracy, 1),
    ):
        if got.name == "top_1_overlap" and got.n == 0:
            assert got.reason == "k = 1 exceeds the 0 usable rows"
            continue
        assert (got.value, got.low, got.high) == (None, None, None)
        assert got.reason == got.interval_reason == reason
        assert reason in str(got)


def test_two_rows_have_a_value_and_no_interval() -> None:
    got = kendall_tau([1, 2], [5, 3])
    assert (got.value, got.low, got.high) == (-1.0, None, None)
    assert got.interval_reason == "n = 2; resampling says nothing about fewer than 3 rows"
    assert str(got) == f"kendall_tau_b: -1.000 ({got.interval_reason}; n = 2 of 2)"


def test_interval_is_refused_where_most_resamples_are_undefined() -> None:
    # A resample is defined only if it draws the one odd row: about 63 % of them do; with two columns odd, fewer do.
    got = kendall_tau([1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1], n_resamples=400)
    assert got.value is not None
    assert got.low is None
    assert got.n_undefined > 200
    assert got.interval_reason == f"{got.n_undefined} of 400 resamples are undefined"


def test_partial_tau_given_the_score_itself_is_undefined() -> None:
    got = partial_tau([1, 2, 3, 4], [2, 1, 4, 3], [10, 20, 30, 40])
    assert got.value is None
    assert got.reason == "the covariate orders the rows exactly as the score or the accuracy does"
    assert partial_tau([1, 2, 3], [2, 1, 3], [5, 5, 5]).reason == "constant covariate"


def test_k_beyond_the_rows_and_no_resamples_are_stated() -> None:
    assert top_overlap([1, 2, None], [1, 2, 3], 3).reason == "k = 3 exceeds the 2 usable rows"
    assert kendall_tau([1, 2, 3], [1, 3, 2], **POINT).interval_reason == "no resamples were asked for"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: kendall_tau([1, 2], [1, 2], direction="up"), ValueError, "direction is 'up'; say which end"),
        (lambda: kendall_tau([1, 2], [1, 2], level=95), ValueError, "level is 95; an interval's coverage"),
        (lambda: kendall_tau([1, 2], [1, 2], n_resamples=-1), ValueError, "n_resamples is -1; pass the number"),
        (lambda: top_overlap([1, 2], [1, 2], 0), ValueError, "k is 0; the number of best rows"),
        (lambda: top_overlap([1, 2], [1, 2], 0.1), ValueError, "k is 0.1; the number of best rows"),
        (lambda: kendall_tau([1, 2], [1, 2, 3]), ValueError, r"columns differ in length: {'score': 2, 'accuracy': 3}"),
        (lambda: kendall_tau([1, "a"], [1, 2]), TypeError, "column 'score' holds 'a', which is not a number"),
        (lambda: kendall_tau([1, [2]], [1, 2]), TypeError, r"column 'score' holds \[2\], which is not a number"),
    ],
)
def test_wrong_arguments_are_named(call: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@settings(max_examples=50)
@given(st.lists(st.one_of(st.none(), st.floats(), st.integers(-5, 5)), max_size=15), st.integers(0, 2**32))
def test_no_nan_ever_comes_out(score: list[float | None], seed: int) -> None:
    accuracy = np.random.default_rng(seed).integers(4, size=len(score))
    for got in (
        kendall_tau(score, accuracy, n_resamples=20),
        spearman(score, accuracy, n_resamples=20),
        partial_tau(score, accuracy, accuracy[::-1], n_resamples=20),
        top_overlap(score, accuracy, 2, n_resamples=20),
    ):
        for number in (got.value, got.low, got.high):
            assert number is None or math.isfinite(number)
        assert got.n + sum(d.rows for d in got.dropped) == got.n_rows


def test_usable_rows_of_no_columns_and_of_booleans() -> None:
    assert usable_rows({}).n == 0
    assert list(usable_rows({"a": np.array([True, False])}).columns["a"]) == [1.0, 0.0]
