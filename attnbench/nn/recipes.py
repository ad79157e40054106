"""The recipes of the full backbones: `cifar100-300e`, `flowers-300e` and `imagenet-300e`, one frozen set a backbone.

Source: the configs of AttnZero's released code. Three things differ on purpose: validation images are held out of the
training images, where AttnZero reads the test images after every epoch and reports their maximum; the last epoch
counts; and precision is bf16 on all three, where AttnZero trains its small data sets in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from attnbench.nn.backbones import BACKBONES, BackboneConfig
from attnbench.nn.full import FULL


@dataclass(frozen=True)
class Recipe:
    """One recipe on one backbone. Batches are global: images per step over all processes.

    lr_per_images: the learning rates are for so many images a step and scale with the batch; None: as they are.
    schedule: a cosine from warm-up's end over `epochs`, set anew each "step" or "epoch"; `cooldown_epochs` follow at
    the lowest rate. n_val_per_class: held out of the training images, see `held_out`. eval_crop: side of the centre
    that is kept of an image resized to image size / eval_crop. mixup, cutmix: alphas; 0 is off.
    ema_decay: of the averaged weights that are evaluated; None: the trained weights are.
    floor_epoch: after it, a run under `floor_top1_percent` in validation stops; None: no run does.
    """

    name: str
    dataset: str
    n_classes: int
    n_val_per_class: int
    epochs: int
    cooldown_epochs: int
    warmup_epochs: int
    schedule: str
    batch_size: int
    lr_per_images: int | None
    learning_rate: float
    warmup_learning_rate: float
    min_learning_rate: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    clip_norm: float | None
    pixel_mean: tuple[float, float, float]
    pixel_std: tuple[float, float, float]
    interpolation: str
    eval_crop: float
    color_jitter: float
    rand_augment: str
    erase_probability: float
    erase_mode: str
    mixup: float
    cutmix: float
    mix_probability: float
    cutmix_share: float
    label_smoothing: float
    ema_decay: float | None
    floor_epoch: int | None
    floor_top1_percent: float
    precision: str
    split_seed: int = 0

    @property
    def n_epochs(self) -> int:
        return self.epochs + self.cooldown_epochs

    def scaled(self, learning_rate: float) -> float:
        """A learning rate for this recipe's batch."""
        return learning_rate if self.lr_per_images is None else learning_rate * self.batch_size / self.lr_per_images


CIFAR = Recipe(
    name="cifar100-300e",
    dataset="cifar-100",
    n_classes=100,
    n_val_per_class=50,
    epochs=300,
    cooldown_epochs=0,
    warmup_epochs=20,
    schedule="epoch",
    batch_size=128,
    lr_per_images=None,
    learning_rate=5e-4,
    warmup_learning_rate=5e-7,
    min_learning_rate=5e-6,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.05,
    clip_norm=None,
    pixel_mean=(0.485, 0.456, 0.406),  # ImageNet's, for every data set
    pixel_std=(0.229, 0.224, 0.225),
    interpolation="bicubic",
    eval_crop=1.0,
    color_jitter=0.4,  # timm leaves it out where RandAugment is on
    rand_augment="rand-m9-mstd0.5-inc1",
    erase_probability=0.25,
    erase_mode="pixel",
    mixup=0.0,
    cutmix=0.0,
    mix_probability=0.0,
    cutmix_share=0.0,
    label_smoothing=0.0,
    ema_decay=None,
    floor_epoch=100,
    floor_top1_percent=15.0,
    precision="bf16",
)
RECIPES: dict[str, Recipe] = {
    "cifar100-300e": CIFAR,
    # 4 of the 20 images of each class that its train and val lists hold together, which AttnZero trains on.
    "flowers-300e": replace(CIFAR, name="flowers-300e", dataset="flowers-102", n_classes=102, n_val_per_class=4),
    "imagenet-300e": replace(
        CIFAR,
        name="imagenet-300e",
        dataset="imagenet-1k",
        n_classes=1000,
        n_val_per_class=10,
        schedule="step",
        batch_size=1024,
        lr_per_images=512,
        clip_norm=5.0,
        eval_crop=0.875,
        mixup=0.8,
        cutmix=1.0,
        mix_probability=1.0,
        cutmix_share=0.5,
        label_smoothing=0.1,
        floor_epoch=None,
    ),
}

PVT = {"cooldown_epochs": 10, "warmup_epochs": 5, "warmup_learning_rate": 1e-6, "min_learning_rate": 1e-5}
CSWIN = {"cooldown_epochs": 10, "clip_norm": None, "ema_decay": 0.99984}
# What a backbone's recipe has otherwise, and which backbones a protocol is written for.
RECIPE_CHANGES: dict[str, dict[str, dict[str, Any]]] = {
    "cifar100-300e": {name: {} for name in FULL},
    "flowers-300e": {name: {} for name in FULL},
    "imagenet-300e": {
        "deit-tiny": {"batch_size": 4096},
        "deit-small": {},
        "deit-base": {},
        "pvt-tiny": PVT | {"clip_norm": None},
        "pvt-small": PVT | {"clip_norm": None},
        "pvt-medium": PVT | {"clip_norm": 1.0},
        "pvt-large": PVT | {"clip_norm": 1.0, "batch_size": 512},
        "swin-tiny": {},
        "swin-small": {},
        "swin-base": {"batch_size": 512},
        "cswin-tiny": CSWIN,
        "cswin-small": CSWIN,
        "cswin-base": CSWIN | {"batch_size": 512, "weight_decay": 0.1, "ema_decay": 0.99992},
    },
}
# What the backbone itself has otherwise than on ImageNet, for which nn/full.py is written.
SMALL_DATA: dict[str, dict[str, Any]] = {
    name: {"drop_path": 0.2, "searched": "AABB"} if name.startswith("swin") else {"drop_path": 0.1} for name in FULL
}
BACKBONE_CHANGES: dict[str, dict[str, dict[str, Any]]] = {"cifar100-300e": SMALL_DATA, "flowers-300e": SMALL_DATA}


def full_recipe(protocol: str, backbone: str) -> tuple[Recipe, BackboneConfig]:
    """What a protocol of the full backbones trains: the recipe, and the backbone for its classes.

    Raises: ValueError (unknown names, or a backbone that the protocol has no recipe for).
    """
    if protocol not in RECIPES:
        raise ValueError(f"unknown protocol {protocol!r} of full backbones; known: {', '.join(RECIPES)}.")
    changes = RECIPE_CHANGES[protocol]
    if backbone not in changes:
        unknown = "" if backbone in FULL or backbone in BACKBONES else "unknown backbone: "
        raise ValueError(f"{unknown}{protocol} has no recipe for {backbone!r}; it has one for {', '.join(changes)}.")
    recipe = replace(RECIPES[protocol], **changes[backbone])
    frame: Mapping[str, Any] = BACKBONE_CHANGES.get(protocol, {}).get(backbone, {})
    return recipe, replace(FULL[backbone], n_classes=recipe.n_classes, **frame)
