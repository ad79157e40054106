"""A row on the spot is the row that the table would hold."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from attnbench.errors import DataError, InvalidGraph, InvalidSubnet
from attnbench.nn import measure as module
from attnbench.nn.data import Split, Splits, load_splits
from attnbench.nn.measure import measure, one_thread
from attnbench.nn.operators import compile_graph
from attnbench.nn.protocol import Protocol, protocol
from attnbench.nn.subnet_train import train_subnet
from attnbench.nn.train import train_run
from attnbench.space.parse import parse
from attnbench.space.subnet import AutoFormerSubnet
from attnbench.space.subnet_named import PUBLISHED_SUBNETS

SMALL = AutoFormerSubnet(24, (2, 2), (1, 1), 12)


def test_names_and_formulas_that_are_wrong_are_refused_before_any_work() -> None:
    with pytest.raises(InvalidGraph, match="does not contract"):
        measure("q @ k")
    with pytest.raises(ValueError, match="unknown protocol 'mnist'"):
        measure("v", protocol="mnist")


@pytest.mark.parametrize(
    ("arch", "asked", "error", "message"),
    [
        ("autoformer(embed_dim=24)", {}, InvalidSubnet, "autoformer got no heads"),
        (AutoFormerSubnet(25, (1,), (1,), 12), {}, InvalidSubnet, "lies in none of the spaces autoformer-tiny, "),
        (SMALL, {"backbone": "deit"}, ValueError, "subnets are trained in their space, got 'deit'; known: "),
        (SMALL, {"protocol": "micro-entangled"}, ValueError, "micro-entangled trains a supernet, not single subnets"),
        (SMALL, {"backbone": "pit-micro"}, InvalidSubnet, "not in the space pit-micro"),
        (
            PUBLISHED_SUBNETS["AutoFormer-T"].subnet,
            {},
            ValueError,
            "networks of autoformer-tiny take images of 224 pixels and 3 channels, .* whose name ends in -micro",
        ),
    ],
)
def test_subnets_that_cannot_be_trained_here(arch, asked, error, message, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "load_splits", lambda *_: None)
    with pytest.raises(error, match=message):
        measure(arch, **asked)


def test_missing_images_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNBENCH_FASHION_MNIST_MIRROR", (tmp_path / "nowhere").as_uri())
    with pytest.raises(DataError, match=r"is missing and .* cannot be read"):
        measure("v", dataset=tmp_path)


def test_threads_are_put_back_even_after_a_failure() -> None:
    def fail() -> None:
        with one_thread():
            raise RuntimeError(f"stop with {torch.get_num_threads()} thread")

    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="stop with 1 thread"):
        fail()
    assert torch.get_num_threads() == before


def few(recipe: Protocol, directory: Path | None) -> Splits:
    """The first 100 images of each split."""
    splits = load_splits(recipe, directory)
    return Splits(*(Split(s.images[:100], s.labels[:100]) for s in (splits.train, splits.val, splits.test)))


def test_a_subnet_is_measured_as_the_trainer_measures_it(
    fashion_mnist_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "load_splits", few)
    measured = measure(SMALL.text, seed=3, dataset=fashion_mnist_dir)
    with one_thread():
        recipe = protocol("micro-scratch")
        again = train_subnet(SMALL, "autoformer-micro", recipe, 3, few(recipe, fashion_mnist_dir))
    assert measured.val_curve == again.val_curve
    assert measured.train_loss_curve == again.train_loss_curve


def test_measures_what_the_trainer_measures(fashion_mnist_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "load_splits", few)
    measured = measure("q * sum(k, axis=-2)", seed=3, dataset=fashion_mnist_dir)
    with one_thread():
        recipe = protocol("fmnist-micro")
        graph = compile_graph(parse("q * sum(k, axis=-2)"))
        again = train_run(graph, "deit", recipe, 3, few(recipe, fashion_mnist_dir))
    assert measured.val_curve == again.val_curve
    assert measured.train_loss_curve == again.train_loss_curve


@pytest.mark.parametrize(
    ("device", "message"), [("nope", "there is no device 'nope'; expected cpu, "), ("cuda:63", "cuda:63 is not here: ")]
)
def test_a_device_that_is_not_here_is_named(device: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measure("q * sum(k, axis=-2)", device=device)
