"""The recipes of the full backbones are AttnZero's, value by value."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from itertools import pairwise

import pytest
import torch

from attnbench.dataset.schema import PROTOCOL_CLASSES
from attnbench.errors import DataError
from attnbench.nn.datasets import SOURCES
from attnbench.nn.frozen import FROZEN, run_hash
from attnbench.nn.full import FULL
from attnbench.nn.full_train import learning_rates, mixing
from attnbench.nn.images import eval_transform, train_transform
from attnbench.nn.protocol import protocol
from attnbench.nn.recipes import RECIPE_CHANGES, RECIPES, full_recipe

SMALL = ("cifar100-300e", "flowers-300e")
# Batch over all GPUs, learning rate of it, lowest and warm-up rates, epochs with cooldown, warm-up epochs, drop path,
# clipping, weight decay, averaging.
IMAGENET = {
    "deit-tiny": (4096, 4e-3, 4e-5, 4e-6, 300, 20, 0.0, 5.0, 0.05, None),
    "deit-small": (1024, 1e-3, 1e-5, 1e-6, 300, 20, 0.1, 5.0, 0.05, None),
    "deit-base": (1024, 1e-3, 1e-5, 1e-6, 300, 20, 0.3, 5.0, 0.05, None),
    "pvt-tiny": (1024, 1e-3, 2e-5, 2e-6, 310, 5, 0.1, None, 0.05, None),
    "pvt-small": (1024, 1e-3, 2e-5, 2e-6, 310, 5, 0.1, None, 0.05, None),
    "pvt-medium": (1024, 1e-3, 2e-5, 2e-6, 310, 5, 0.3, 1.0, 0.05, None),
    "pvt-large": (512, 5e-4, 1e-5, 1e-6, 310, 5, 0.3, 1.0, 0.05, None),
    "swin-tiny": (1024, 1e-3, 1e-5, 1e-6, 300, 20, 0.2, 5.0, 0.05, None),
    "swin-small": (1024, 1e-3, 1e-5, 1e-6, 300, 20, 0.3, 5.0, 0.05, None),
    "swin-base": (512, 5e-4, 5e-6, 5e-7, 300, 20, 0.5, 5.0, 0.05, None),
    "cswin-tiny": (1024, 1e-3, 1e-5, 1e-6, 310, 20, 0.2, None, 0.05, 0.99984),
    "cswin-small": (1024, 1e-3, 1e-5, 1e-6, 310, 20, 0.4, None, 0.05, 0.99984),
    "cswin-base": (512, 5e-4, 5e-6, 5e-7, 310, 20, 0.5, None, 0.1, 0.99992),
}


@pytest.mark.parametrize("backbone", IMAGENET)
def test_imagenet_by_backbone(backbone: str) -> None:
    recipe, config = full_recipe("imagenet-300e", backbone)
    batch, rate, lowest, warmup_rate, epochs, warmup, drop_path, clip, decay, average = IMAGENET[backbone]
    rates = [recipe.scaled(r) for r in (recipe.learning_rate, recipe.min_learning_rate, recipe.warmup_learning_rate)]
    assert rates == pytest.approx([rate, lowest, warmup_rate])
    assert (recipe.batch_size, recipe.n_epochs, recipe.warmup_epochs) == (batch, epochs, warmup)
    assert (config.drop_path, recipe.clip_norm, recipe.weight_decay) == (drop_path, clip, decay)
    assert recipe.ema_decay == average
    assert config.searched == FULL[backbone].searched
    mix = mixing(recipe)
    assert (mix.mixup_alpha, mix.cutmix_alpha, mix.mix_prob, mix.switch_prob, mix.label_smoothing) == (
        0.8,
        1.0,
        1.0,
        0.5,
        0.1,
    )


def test_every_backbone_of_imagenet_is_looked_at() -> None:
    assert set(RECIPE_CHANGES["imagenet-300e"]) == set(IMAGENET)


@pytest.mark.parametrize("backbone", FULL)
@pytest.mark.parametrize("name", SMALL)
def test_small_data(name: str, backbone: str) -> None:
    recipe, config = full_recipe(name, backbone)
    rates = [recipe.scaled(r) for r in (recipe.learning_rate, recipe.min_learning_rate, recipe.warmup_learning_rate)]
    assert rates == [5e-4, 5e-6, 5e-7]
    assert (recipe.n_epochs, recipe.warmup_epochs, recipe.batch_size, recipe.clip_norm) == (300, 20, 128, None)
    assert (recipe.weight_decay, recipe.label_smoothing, recipe.ema_decay) == (0.05, 0.0, None)
    assert mixing(recipe) is None
    assert (recipe.floor_epoch, recipe.floor_top1_percent) == (100, 15.0)
    assert config.drop_path == (0.2 if backbone.startswith("swin") else 0.1)
    assert config.searched == ("AABB" if backbone.startswith("swin") else FULL[backbone].searched)
    assert config.image_size == (224, 224)


@pytest.mark.parametrize("name", RECIPES)
def test_classes_and_data_sets_fit(name: str) -> None:
    recipe, config = full_recipe(name, "deit-tiny")
    assert recipe.name == name
    assert recipe.n_classes == config.n_classes == PROTOCOL_CLASSES[name] == SOURCES[recipe.dataset].n_classes
    assert recipe.betas == (0.9, 0.999)
    assert recipe.eps == 1e-8


def rates_of(recipe, n_steps: int) -> list[float]:
    """The learning rate of every step of a run."""
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=recipe.scaled(recipe.learning_rate))
    schedule = learning_rates(optimiser, recipe, n_steps)
    found = []
    for epoch in range(recipe.n_epochs):
        for step in range(n_steps):
            if recipe.schedule == "epoch":
                schedule.step(epoch)
            else:
                schedule.step_update(epoch * n_steps + step)
            found.append(optimiser.param_groups[0]["lr"])
    return found


def test_small_data_sets_a_rate_for_each_epoch() -> None:
    rates = rates_of(RECIPES["cifar100-300e"], 2)
    assert rates[::2] == rates[1::2]
    epochs = rates[::2]
    assert epochs[0] == pytest.approx(5e-7)
    assert epochs[10] == pytest.approx((5e-7 + 5e-4) / 2)
    assert epochs[150] == pytest.approx((5e-6 + 5e-4) / 2)
    assert max(epochs) == epochs[20] == pytest.approx(5e-4, rel=0.02)
    assert epochs[-1] == pytest.approx(5e-6, rel=0.01)


def test_imagenet_sets_a_rate_for_each_step_and_cools_down_at_the_lowest() -> None:
    recipe, _ = full_recipe("imagenet-300e", "cswin-tiny")
    rates = rates_of(recipe, 3)
    assert rates[0] == pytest.approx(1e-6)
    assert rates[30] == pytest.approx((1e-6 + 1e-3) / 2)
    assert rates[450] == pytest.approx((1e-5 + 1e-3) / 2)
    assert all(before < after for before, after in pairwise(rates[:60]))
    assert all(before > after for before, after in pairwise(rates[60:900]))
    assert rates[3 * 300 :] == pytest.approx([1e-5] * 30)


@pytest.mark.parametrize("name", RECIPES)
def test_images_are_prepared_as_attnzero_does(name: str) -> None:
    recipe = RECIPES[name]
    training, evaluation = (str(make(recipe, (224, 224))) for make in (train_transform, eval_transform))
    assert "RandomResizedCropAndInterpolation(size=(224, 224), scale=(0.08, 1.0)" in training
    assert "interpolation=bicubic)" in training
    assert "RandomHorizontalFlip(p=0.5)" in training
    assert "RandAugment(n=2" in training
    assert training.count("m=9, mstd=0.5") == 15
    assert "ColorJitter" not in training
    assert "RandomErasing(p=0.25, mode=pixel" in training
    side = 256 if name == "imagenet-300e" else 224
    assert f"Resize(size=({side}, {side}), interpolation=bicubic" in evaluation
    assert "CenterCrop(size=(224, 224))" in evaluation
    for transform in (training, evaluation):
        assert "Normalize(mean=tensor([0.4850, 0.4560, 0.4060]), std=tensor([0.2290, 0.2240, 0.2250]))" in transform


def test_every_recipe_has_a_hash_of_its_own_that_is_frozen() -> None:
    frozen = {(name, backbone): found for name in RECIPES for backbone, found in FROZEN[name].items()}
    assert set(frozen) == {(name, backbone) for name, changes in RECIPE_CHANGES.items() for backbone in changes}
    assert len(set(frozen.values())) == len(frozen)


@pytest.mark.parametrize("what", ["recipe", "backbone"])
def test_a_changed_recipe_is_refused(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if what == "recipe":
        monkeypatch.setitem(RECIPES, "imagenet-300e", replace(RECIPES["imagenet-300e"], mixup=0.1))
    else:
        monkeypatch.setitem(FULL, "pvt-tiny", replace(FULL["pvt-tiny"], local=False))
    with pytest.raises(DataError, match=r"imagenet-300e on pvt-tiny is frozen as [0-9a-f]{16}, but this code's recipe"):
        run_hash("imagenet-300e", "pvt-tiny")


def test_sizes_of_protocol_and_backbone_must_agree() -> None:
    with pytest.raises(ValueError, match="fmnist-micro does not train the full backbone 'deit-tiny'; those have cifar"):
        run_hash("fmnist-micro", "deit-tiny")
    for refuses in (protocol, lambda name: run_hash(name, "deit-tiny")):
        with pytest.raises(
            ValueError, match=r"unknown protocol 'mnist'; known: fmnist-micro, .*, and for full backbones"
        ):
            refuses("mnist")
    with pytest.raises(ValueError, match=r"^flowers-300e is for full backbones; micro ones have fmnist-micro,"):
        protocol("flowers-300e")


def test_recipes_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        RECIPES["cifar100-300e"].epochs = 1


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(ValueError, match="unknown protocol 'cifar10' of full backbones; known: cifar100-300e, flowers"):
        full_recipe("cifar10", "deit-tiny")
    with pytest.raises(ValueError, match="unknown backbone: flowers-300e has no recipe for 'vgg'; it has one for deit"):
        full_recipe("flowers-300e", "vgg")
    for absent in ("pvt2-b0", "deit"):
        with pytest.raises(ValueError, match=f"^imagenet-300e has no recipe for '{absent}'; it has one for deit-tiny,"):
            full_recipe("imagenet-300e", absent)
