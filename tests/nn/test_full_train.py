"""Full backbones train as their recipes say: a few steps of each protocol on tiny images, resuming, stopping."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnbench.errors import DataError
from attnbench.nn.datasets import SOURCES, Labelled, Splits, load_splits
from attnbench.nn.full_train import Place, Training, share_of, train_full
from attnbench.nn.operators import compile_graph
from attnbench.nn.recipes import RECIPES, Recipe, full_recipe
from attnbench.nn.train import Progress
from attnbench.nn.vit import DeepViTConfig
from attnbench.space.parse import parse
from tests.nn import tiny_images

GRAPH = compile_graph(parse("q @ l2norm(k.T @ v)"))
CONFIG = DeepViTConfig(
    image_size=(16, 16), patch_size=(8, 8), width=16, n_heads=2, depth=2, mlp_ratio=2.0, n_channels=3, n_classes=3
)


def small(protocol: str, backbone: str = "deit-tiny", **changes: Any) -> Recipe:
    """A protocol's recipe for three classes of tiny images, a few steps long."""
    recipe, _ = full_recipe(protocol, backbone)
    short = {
        "n_classes": 3,
        "epochs": 2,
        "cooldown_epochs": 0,
        "warmup_epochs": 1,
        "batch_size": 6,
        "lr_per_images": None,
    }
    return replace(recipe, **{**short, "learning_rate": 2e-3, **changes})


def coloured(n_images: int) -> Labelled:
    found = list(tiny_images.numbered(n_images))
    pixels = np.stack([np.full((16, 16, 3), pixel, dtype=np.uint8) for _, _, pixel in found])
    return Labelled(pixels, np.array([label for _, label, _ in found]))


DATA = Splits(coloured(18), coloured(9), coloured(12))


@pytest.mark.parametrize("protocol", RECIPES)
def test_each_protocol_trains_on_its_data_set(protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = "cswin-tiny" if protocol == "imagenet-300e" else "deit-tiny"
    recipe = small(protocol, backbone, epochs=3)
    monkeypatch.setitem(SOURCES, recipe.dataset, tiny_images.write(recipe.dataset, tmp_path))
    data = load_splits(recipe.dataset, tmp_path, 2, recipe.split_seed)
    outcome = train_full(GRAPH, CONFIG, recipe, 0, data)
    assert outcome.status == "ok"
    assert [len(c) for c in (outcome.val_curve, outcome.val_loss_curve, outcome.train_loss_curve)] == [3, 3, 3]
    assert outcome.val_top1_percent == outcome.val_curve[-1]
    assert outcome.val_loss == outcome.val_loss_curve[-1]
    assert 0 <= outcome.test_top1_percent <= 100
    assert 0 < outcome.test_loss < 3
    assert outcome.train_seconds > 0
    assert outcome.device == "cpu"


def test_a_network_learns_colours() -> None:
    outcome = train_full(GRAPH, CONFIG, small("cifar100-300e", epochs=12, learning_rate=5e-3, rand_augment=""), 0, DATA)
    assert outcome.train_loss_curve[-1] < 0.5 * outcome.train_loss_curve[0]
    assert outcome.test_top1_percent > 90


def without_seconds(outcome: Any) -> Any:
    return replace(outcome, train_seconds=0.0)


def test_a_run_follows_from_its_seed_and_leaves_generators_alone() -> None:
    recipe = small("imagenet-300e", "cswin-tiny")
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    expected = (random.random(), np.random.rand(), torch.rand(1).item())
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    first = train_full(GRAPH, CONFIG, recipe, 0, DATA)
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == expected
    assert without_seconds(train_full(GRAPH, CONFIG, recipe, 0, DATA)) == without_seconds(first)
    assert without_seconds(train_full(GRAPH, CONFIG, recipe, 1, DATA)) != without_seconds(first)


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("backbone", ["deit-tiny", "cswin-tiny"], ids=["plain", "averaged"])
def test_an_interrupted_run_goes_on_as_if_it_had_not_been(tmp_path: Path, backbone: str) -> None:
    config = replace(CONFIG, drop_path=0.3)
    recipe = small("imagenet-300e", backbone, epochs=3)
    whole = train_full(GRAPH, config, recipe, 0, DATA)
    path = tmp_path / "kept" / "run.pt"
    for stop_after in (1, 3):

        def interrupt(progress: Progress, stop_after: int = stop_after) -> None:
            if len(progress.val_top1) == stop_after:
                raise Interrupted

        with pytest.raises(Interrupted):
            train_full(GRAPH, config, recipe, 0, DATA, checkpoint=path, identity={"text": "g"}, report=interrupt)
        assert path.is_file()
    resumed = train_full(GRAPH, config, recipe, 0, DATA, checkpoint=path, identity={"text": "g"})
    assert without_seconds(resumed) == without_seconds(whole)
    with pytest.raises(
        DataError, match=r"run\.pt is of the run \{'seed': 0, 'text': 'g'\}, not of \{'seed': 0, 'text': 'h'"
    ):
        train_full(GRAPH, config, recipe, 0, DATA, checkpoint=path, identity={"text": "h"})


def test_test_images_are_read_once_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    evaluation_of = Training.evaluation_of

    def spy(self: Training, labelled: Labelled) -> Any:
        read.append(len(labelled))
        return evaluation_of(self, labelled)

    monkeypatch.setattr(Training, "evaluation_of", spy)
    reported: list[int] = []
    train_full(GRAPH, CONFIG, small("cifar100-300e"), 0, DATA, report=lambda _: reported.append(len(read)))
    assert reported == [1, 1]
    assert read == [9, 12]


def test_a_run_under_the_floor_stops_and_keeps_what_it_measured() -> None:
    recipe = small("cifar100-300e", epochs=3, floor_epoch=2, floor_top1_percent=101.0)
    outcome = train_full(GRAPH, CONFIG, recipe, 0, DATA)
    assert outcome.status == "stopped"
    assert len(outcome.val_curve) == 2
    assert outcome.val_top1_percent == outcome.val_curve[-1]
    assert outcome.test_top1_percent is None


@pytest.mark.parametrize("when", ["training", "validation", "test"])
def test_a_loss_that_is_not_finite_is_an_outcome(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method = "epoch" if when == "training" else "evaluate"
    real, calls = getattr(Training, method), []
    at = {"training": 2, "validation": 2, "test": 3}[when]

    def sick(self: Training, *given: Any) -> Any:
        calls.append(given)
        found = real(self, *given)
        return found if len(calls) < at else float("nan") if method == "epoch" else (33.0, float("inf"))

    monkeypatch.setattr(Training, method, sick)
    outcome = train_full(GRAPH, CONFIG, small("cifar100-300e"), 0, DATA)
    assert outcome.status == "diverged"
    assert outcome.val_top1_percent is outcome.val_loss is outcome.test_top1_percent is outcome.test_loss is None
    assert len(outcome.val_curve) == (2 if when == "test" else 1)


def test_a_huge_learning_rate_diverges() -> None:
    recipe = small("cifar100-300e", learning_rate=1e30, warmup_epochs=0, epochs=3)
    assert train_full(GRAPH, CONFIG, recipe, 0, DATA).status == "diverged"


def test_a_batch_in_parts_gives_the_same_gradients() -> None:
    recipe = small("cifar100-300e", precision="fp32", epochs=1)
    whole, parts = (train_full(GRAPH, CONFIG, recipe, 0, DATA, Place(images_at_once=n)) for n in (None, 4))
    assert parts.train_loss_curve == pytest.approx(whole.train_loss_curve, abs=1e-6)
    assert parts.test_loss == pytest.approx(whole.test_loss, abs=1e-5)


def test_averaged_weights_are_the_ones_that_are_measured() -> None:
    """A decay of 1 keeps the first weights, so that validation cannot change; the loss does."""
    outcome = train_full(GRAPH, CONFIG, small("imagenet-300e", "cswin-tiny", ema_decay=1.0, epochs=3), 0, DATA)
    assert len(set(outcome.val_loss_curve)) == 1
    assert len(set(outcome.train_loss_curve)) == 3
    trained = train_full(GRAPH, CONFIG, small("imagenet-300e", "deit-tiny", epochs=3), 0, DATA)
    assert len(set(trained.val_loss_curve)) == 3


def test_clipping_is_off_where_the_recipe_has_none() -> None:
    def losses(clip: float | None) -> tuple[float, ...]:
        recipe = small("cifar100-300e", clip_norm=clip, precision="fp32")
        return train_full(GRAPH, CONFIG, recipe, 0, DATA).train_loss_curve

    assert losses(1e9) == losses(None) != losses(1e-9)


def test_label_smoothing_without_mixing() -> None:
    plain, smooth = (small("cifar100-300e", label_smoothing=s, precision="fp32") for s in (0.0, 0.5))
    images, labels = torch.randn(6, 3, 16, 16), torch.arange(6) % 3
    found = []
    for recipe in (plain, smooth):
        training = Training(GRAPH, CONFIG, recipe, 0, Place())
        logits = training.model.eval()(images)
        expected = torch.nn.functional.cross_entropy(logits, labels, label_smoothing=recipe.label_smoothing)
        assert training.backward(images, labels).item() == pytest.approx(expected.item(), abs=1e-6)
        found.append(expected.item())
    assert found[0] != found[1]


def test_a_graph_with_batchnorm_trains_with_averaging() -> None:
    graph = compile_graph(parse("batchnorm(q) * v"))
    assert train_full(graph, CONFIG, small("imagenet-300e", "cswin-tiny"), 0, DATA).status == "ok"


def test_bf16_is_what_the_recipe_decides() -> None:
    for precision, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        training = Training(GRAPH, CONFIG, small("cifar100-300e", precision=precision), 0, Place())
        with training.autocast():
            assert training.model(torch.randn(2, 3, 16, 16)).dtype == dtype


def test_batches_that_do_not_split_are_refused() -> None:
    recipe = small("imagenet-300e", batch_size=12)
    assert share_of(recipe, Place(world=2), 18) == 6
    with pytest.raises(ValueError, match="the batch of 12 images does not split over 5 processes"):
        share_of(recipe, Place(world=5), 18)
    with pytest.raises(ValueError, match="mixing pairs images, and 3 for each process is odd; start fewer processes"):
        share_of(recipe, Place(world=4), 18)
    assert share_of(small("cifar100-300e", batch_size=12), Place(world=4), 18) == 3
    with pytest.raises(ValueError, match="11 training images do not fill one batch of 12"):
        share_of(recipe, Place(), 11)
