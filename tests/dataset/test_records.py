"""Records are immutable, picklable, and summarise by stated rules."""

import dataclasses
import json
import pickle

import pytest

from attnbench.dataset.benchmark import Benchmark
from attnbench.dataset.records import Scores, chance_percent, summarise
from attnbench.errors import DataError
from tests.dataset.tiny import ELU, SOFTMAX, TRIAL


def test_result_cannot_be_changed(bench: Benchmark) -> None:
    result = bench.query(ELU)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.val_top1_percent = 100.0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.runs[0].seed = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        result.runs[0].val_curve[0] = 1.0  # type: ignore[index]
    with pytest.raises(TypeError):
        result.proxies["dss"] = 1.0  # type: ignore[index]
    with pytest.raises(AttributeError, match="scores are read-only; copy them with dict"):
        result.proxies._items = ()


def test_result_travels_between_processes(bench: Benchmark) -> None:
    result = bench.query(ELU)
    again = pickle.loads(pickle.dumps(result))  # noqa: S301 - our own bytes
    assert again == result
    assert hash(again) == hash(result)


def test_as_dict_is_json(bench: Benchmark) -> None:
    plain = json.loads(json.dumps(bench.query(TRIAL).as_dict(), allow_nan=False))
    assert plain["names"] == ["Trial 105"]
    assert plain["runs"][1]["status"] == "diverged"
    assert plain["runs"][1]["val_curve"] == [10.0, None]
    assert bench.query(ELU).as_dict()["proxies"] == {"dss": 3.0, "snip": 1.5}


def test_scores_cannot_be_deleted(bench: Benchmark) -> None:
    with pytest.raises(AttributeError, match="scores are read-only"):
        del bench.query(ELU).proxies._items


def test_scores_is_a_mapping_that_says_what_is_there() -> None:
    scores = Scores({"snip": 1.0, "dss": 2.0})
    assert list(scores) == ["dss", "snip"]
    assert dict(scores) == {"dss": 2.0, "snip": 1.0} == scores
    assert repr(scores) == "{'dss': 2.0, 'snip': 1.0}"
    with pytest.raises(KeyError, match="no proxy 'zico' is stored; stored: dss, snip"):
        scores["zico"]


def test_summary_of_three_seeds(bench: Benchmark) -> None:
    mean, spread, test, status = summarise(bench.query(SOFTMAX).runs)
    assert (mean, spread, test, status) == (81.0, 1.0, 80.5, "ok")


def test_no_survivors_are_averaged(bench: Benchmark) -> None:
    mean, spread, test, status = summarise(bench.query(TRIAL).runs)
    assert mean == (79.0 + 10.0) / 2
    assert spread == pytest.approx(69.0 / 2**0.5)
    assert test is None
    assert status == "diverged"


def test_chance_depends_on_the_number_of_classes() -> None:
    assert chance_percent("fmnist-micro") == 10.0
    assert chance_percent("cifar100-300e") == 1.0
    with pytest.raises(DataError, match=r"the number of classes of protocol 'mnist-1e' is not known.*Add it to PROTOC"):
        chance_percent("mnist-1e")
