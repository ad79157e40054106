"""Scores of subnets: whose weights, which images, and that nothing is computed twice."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from attnbench.dataset.score_log import ScoreLog  # noqa: E402
from attnbench.errors import InvalidSubnet  # noqa: E402
from attnbench.nn.proxies.dss import dss  # noqa: E402
from attnbench.nn.proxies.registry import PROXIES, Proxy  # noqa: E402
from attnbench.nn.subnet import build_subnet  # noqa: E402
from attnbench.nn.subnet_scores import Scoring, SubnetScorer, columns_of_proxies, subnet_proxies  # noqa: E402
from attnbench.nn.supernet import build_supernet  # noqa: E402
from attnbench.space.subnet import AutoFormerSubnet  # noqa: E402
from attnbench.space.subnet_cost import subnet_cost  # noqa: E402
from attnbench.space.subnet_named import SPACES  # noqa: E402

MICRO, PIT = SPACES["autoformer-micro"], SPACES["pit-micro"]
SUBNET = AutoFormerSubnet(24, (2, 3), (1, 2), 12)
SHAPE = (1, 28, 28)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two more proxies, one of which looks at images, and what was asked of them."""
    called: list[str] = []

    def blind(model, shape, *, dtype):
        called.append("blind")
        first = next(model.parameters()).sum().item()
        return {"blind": first, "blind.part": math.nan}

    def seeing(model, images, labels, *, dtype):
        called.append("seeing")
        return {"seeing": images.double().sum().item() + labels.sum().item()}

    columns = {"blind": "higher", "blind.part": "lower"}
    monkeypatch.setitem(PROXIES, "blind", Proxy("blind", blind, columns, "none", True, "this test"))
    monkeypatch.setitem(PROXIES, "seeing", Proxy("seeing", seeing, {"seeing": "lower"}, "labelled images", True, "it"))
    return called


def test_scores_are_those_of_the_subnets_network() -> None:
    scorer = SubnetScorer(Scoring(MICRO, weight_seed=3), ScoreLog())
    model = build_subnet(SUBNET, MICRO.frame, 3)
    found = scorer(SUBNET, ["dss", "dss.mlp", "dss-released", "dss-released.proj", "params", "macs"])
    paper, released = dss(model, SHAPE), dss(model, SHAPE, form="released")
    assert found["dss"] == paper["dss"]
    assert found["dss.mlp"] == paper["dss.mlp"]
    assert found["dss-released"] == released["dss"] != paper["dss"]
    assert found["dss-released.proj"] == released["dss.proj"]
    assert (found["params"], found["macs"]) == subnet_cost(SUBNET, MICRO.frame)


def test_weights_may_be_slices_of_one_supernet() -> None:
    shared = SubnetScorer(Scoring(MICRO, weights="shared", weight_seed=1), ScoreLog())
    assert shared(SUBNET, ["dss"])["dss"] == dss(build_supernet(MICRO, 1).extract(SUBNET), SHAPE)["dss"]
    with pytest.raises(ValueError, match="supernets are of AutoFormer spaces, got 'pit-micro'"):
        SubnetScorer(Scoring(PIT, weights="shared"), ScoreLog())(PIT.smallest, ["dss"])


def test_precision_is_what_is_computed_in() -> None:
    single = SubnetScorer(Scoring(MICRO, precision="float32"), ScoreLog())(SUBNET, ["dss"])["dss"]
    double = SubnetScorer(Scoring(MICRO), ScoreLog())(SUBNET, ["dss"])["dss"]
    assert single == dss(build_subnet(SUBNET, MICRO.frame, 0), SHAPE, dtype=torch.float32)["dss"]
    assert single != double
    assert single == pytest.approx(double, rel=1e-4)


def test_nothing_is_computed_twice(calls: list[str], tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    for _ in range(2):
        scorer = SubnetScorer(Scoring(MICRO), ScoreLog(path))
        assert scorer(SUBNET, ["blind", "blind.part"])["blind.part"] is None
        assert scorer.is_known(SUBNET, "blind")
        assert scorer.is_known(SUBNET, "macs")
        assert not scorer.is_known(SUBNET, "synflow")
        assert not scorer.is_known(MICRO.largest, "blind")
    assert calls == ["blind"]
    for scoring in (
        Scoring(MICRO, weight_seed=1),
        Scoring(MICRO, weights="shared"),
        Scoring(MICRO, precision="float32"),
    ):
        SubnetScorer(scoring, ScoreLog(path))(SUBNET, ["blind"])
    SubnetScorer(Scoring(MICRO), ScoreLog(path))(MICRO.largest, ["blind"])
    assert calls == ["blind"] * 5
    SubnetScorer(Scoring(MICRO), ScoreLog(path), code_version="9.9")(SUBNET, ["blind"])
    assert calls == ["blind"] * 6
    # What looks at no images does not depend on them.
    SubnetScorer(Scoring(MICRO, images="fashion-mnist"), ScoreLog(path))(SUBNET, ["blind"])
    assert calls == ["blind"] * 6


def test_images_are_noise_or_training_images_in_the_frame(calls: list[str], fashion_mnist_dir: Path) -> None:
    log = ScoreLog()
    noise = SubnetScorer(Scoring(PIT), log)
    assert noise.batch.images.shape == (32, *SHAPE)
    assert noise.batch.images.std().item() == pytest.approx(1, abs=0.05)
    assert set(noise.batch.labels.tolist()) <= set(range(10))
    large = dataclasses.replace(SPACES["autoformer-tiny"])
    seen = SubnetScorer(Scoring(large, images="fashion-mnist"), log, dataset=fashion_mnist_dir).batch
    assert seen.images.shape == (32, 3, 224, 224)
    assert torch.equal(seen.images[:, 0], seen.images[:, 2])
    assert seen.labels.bincount().tolist() == [4, 4, 3, 3, 3, 3, 3, 3, 3, 3]
    real = SubnetScorer(Scoring(PIT, images="fashion-mnist"), log, dataset=fashion_mnist_dir)
    for scorer in (noise, real, noise, real):
        batch = scorer.batch
        total = batch.images.double().sum().item() + batch.labels.sum().item()
        assert scorer(PIT.smallest, ["seeing"])["seeing"] == total
    assert calls == ["seeing"] * 2


def test_a_score_belongs_to_a_number_of_images_where_it_sees_some(calls: list[str]) -> None:
    log = ScoreLog()
    few = SubnetScorer(Scoring(PIT, n_images=5), log)
    assert (len(few.batch.images), len(few.batch.labels)) == (5, 5)
    for scorer in (few, SubnetScorer(Scoring(PIT), log), few):
        scorer(PIT.smallest, ["seeing", "blind"])
    assert calls.count("seeing") == 2
    assert calls.count("blind") == 1


def test_names_mean_columns(calls: list[str]) -> None:
    assert columns_of_proxies(["seeing", "blind", "blind.part", "seeing"]) == {
        "seeing": "lower", "blind": "higher", "blind.part": "lower",
    }  # fmt: skip
    assert columns_of_proxies(["dss-released"]) == {"dss-released": "higher"}
    every = columns_of_proxies(["all"])
    assert {"dss", "dss-released", "synflow", "blind", "seeing"} <= set(every)
    assert "dss.mlp" not in every
    assert {name.split(".")[0] for name in every} == set(subnet_proxies())
    assert columns_of_proxies([]) == {}
    with pytest.raises(ValueError, match=r"unknown proxy 'zen'; known: dss, .*dss-released, parts such as"):
        columns_of_proxies(["dss", "zen"])


def test_a_proxy_with_parts_alone_means_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"two.first": "lower", "two.second": "higher"}
    monkeypatch.setitem(PROXIES, "two", Proxy("two", lambda *_, **__: {}, columns, "none", True, "this test"))
    assert columns_of_proxies(["two"]) == columns


def test_wrong_options_are_named(calls: list[str]) -> None:
    for name, words in (("weights", "'own' or 'shared'"), ("images", "'noise' or 'fashion-mnist'")):
        with pytest.raises(ValueError, match=f"{name}: expected {words}, got 'mine'"):
            Scoring(MICRO, **{name: "mine"})
    with pytest.raises(ValueError, match="precision: expected 'float64' or 'float32', got 'bf16'"):
        Scoring(MICRO, precision="bf16")
    with pytest.raises(ValueError, match="n_images: expected two or more, which proxies can compare, got 1"):
        Scoring(MICRO, n_images=1)
    with pytest.raises(InvalidSubnet, match="not in the space autoformer-micro"):
        SubnetScorer(Scoring(MICRO), ScoreLog())(PIT.smallest, ["blind"])
    with pytest.raises(KeyError, match="zen"):
        SubnetScorer(Scoring(MICRO), ScoreLog())(SUBNET, ["zen"])
