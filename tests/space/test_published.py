"""The published genotypes: fifteen rows, both verdicts. Upstream's numbers are measured again in tests/nn."""

import pytest

from attnbench.space.check import check
from attnbench.space.parse import parse
from attnbench.space.published import PUBLISHED

BY_NAME = {row.name: row for row in PUBLISHED}
FORMULAS = {
    "Trial 25": "sigmoid(-(q * sign(k))) * l2norm(v)",
    "Trial 34": "standardize(l2norm(k, axis=-2) * v) * (softmax(q) + sign(v))",
    "Trial 76": "relu(q) + softmax(-(q / sqrt(d)) * sqrt(cosine(exp(relu(k)), sigmoid(v))))",
    "Trial 80": "minmax(cosine(relu(relu(q)), k / sqrt(d))) + v / sqrt(d)",
    "Trial 105": "q * l2norm(l2norm(q) @ standardize(minmax(v).T @ elu1(k)))",
    "Trial 140": "l2norm(q, axis=-2) + l2norm(abs(v) @ sigmoid(elu1(k).T @ (v / sqrt(d))).T)",
    "Trial 174": "q + sumnorm(l2norm(sigmoid(-v) * relu(softsign(cosine(k, minmax(sqrt(v))))), axis=-2))",
    "Trial 228": "sigmoid(q + k) * sigmoid(-v)",
    "Trial 240": "l2norm(q + l2norm(sigmoid(relu(k)) + softsign(v), axis=-2), axis=-2) @ "
    "l2norm(v.T @ l2norm(q + l2norm(sigmoid(relu(k)) + softsign(v), axis=-2), axis=-2), axis=-2).T",
    "Trial 272": "softsign(q) + softmax(v @ sign(v.T @ logabs(k)).T)",
    "bench PVT": "elu1(q) - cosine(q, sqrt(standardize(k) * (v / sqrt(d))))",
    "bench PVTv2": "sigmoid(-(l2norm(k) + l2norm(logabs(v), axis=-2))) * sumnorm(sigmoid(-q) + logabs(v))",
    "ImageNet default": "(elu1(q) @ (elu1(k).T @ v)) / (elu1(q) @ sum(elu1(k), axis=-2).T)",
}
REFUSALS = {
    "Trial 20": "slot 0, position 1 (22, unsqz2): unsqz2 puts an axis before the batch",
    "Trial 40": "binary 1 (4, cosine_similarity): cosine: (N, d) and (d, d) do not broadcast",
}


def names(condition):
    return {row.name for row in PUBLISHED if condition(row)}


def test_there_are_fifteen():
    assert len(PUBLISHED) == len(BY_NAME) == 15
    assert set(FORMULAS) | set(REFUSALS) == set(BY_NAME)


@pytest.mark.parametrize(("name", "formula"), FORMULAS.items(), ids=FORMULAS)
def test_our_graph(name, formula):
    assert BY_NAME[name].graph.key == parse(formula).key
    assert BY_NAME[name].refusal == ""


@pytest.mark.parametrize(("name", "refusal"), REFUSALS.items(), ids=REFUSALS)
def test_our_refusals(name, refusal):
    assert BY_NAME[name].graph is None
    assert refusal in BY_NAME[name].refusal
    assert BY_NAME[name].failed_checks == ("refused",)


def test_our_verdicts():
    """Three of the twelve trials pass every check, as three contract over tokens upstream."""
    assert names(lambda row: not row.failed_checks) == {"Trial 105", "Trial 140", "Trial 240", "ImageNet default"}
    assert names(lambda row: "gradients" in row.failed_checks) == {"Trial 25", "Trial 272"}
    assert all(check(row.graph).ok for row in PUBLISHED if row.graph is not None)


def test_upstreams_verdicts():
    verdict = {row.name: row.upstream_verdict for row in PUBLISHED}
    assert all(v.linear for v in verdict.values())
    assert names(lambda row: not row.upstream_verdict.in_six_types) == {"Trial 240", "ImageNet default"}
    assert names(lambda row: row.upstream_verdict.output != "(B, H, N, d)") == {"Trial 20", "Trial 40"}
    assert names(lambda row: row.upstream_verdict.mixes == "contraction") == {
        "Trial 105", "Trial 140", "Trial 240", "ImageNet default",
    }  # fmt: skip
    assert names(lambda row: row.upstream_verdict.works_reduced) == {
        "Trial 40", "Trial 76", "Trial 105", "ImageNet default",
    }  # fmt: skip
    assert {n: (v.content_leak, v.size_leak) for n, v in verdict.items() if v.content_leak + v.size_leak > 1e-5} == {
        "Trial 20": (1.36, 0.92),
        "Trial 34": (0.26, 0.001),
        "Trial 76": (0.0, 0.02),
        "Trial 105": (0.44, 0.11),
        "bench PVT": (0.0, 0.75),
    }
    assert names(lambda row: row.upstream_verdict.dead[:4] != "none") == {
        "Trial 25", "Trial 40", "Trial 76", "Trial 80", "Trial 174", "Trial 272", "bench PVT",
    }  # fmt: skip
    assert all(row.where and row.formula and verdict[row.name].intermediates for row in PUBLISHED)


def test_batch_wide_statistics_are_noted():
    assert [note.split(":")[0] for note in BY_NAME["Trial 105"].graph.notes] == ["min_max_normalize", "normalize"]
    assert BY_NAME["Trial 140"].graph.notes == ()
