"""Images of a data set as batches: decoded, augmented by timm, the same whoever reads them.

Every draw of an augmentation follows from (seed, epoch, image): neither the number of processes nor a restart in the
middle of a run changes how an image is augmented. Which images are mixed is drawn later, in each process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from PIL import Image
from timm.data import create_transform
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from attnbench.errors import DataError
from attnbench.nn.datasets import Labelled
from attnbench.nn.generators import drawing_from, number_of
from attnbench.nn.recipes import Recipe

EVAL_BATCH = 200
Draw = tuple[int, int]  # epoch, index of the image


def train_transform(recipe: Recipe, image_size: tuple[int, int]) -> Callable[[Image.Image], Tensor]:
    """Random crop, flip, RandAugment and erasing as the recipe says."""
    return create_transform(
        image_size,
        is_training=True,
        color_jitter=recipe.color_jitter,
        auto_augment=recipe.rand_augment,
        interpolation=recipe.interpolation,
        re_prob=recipe.erase_probability,
        re_mode=recipe.erase_mode,
        mean=recipe.pixel_mean,
        std=recipe.pixel_std,
    )


def eval_transform(recipe: Recipe, image_size: tuple[int, int]) -> Callable[[Image.Image], Tensor]:
    """Resized whole, whatever its aspect, then the centre."""
    return create_transform(
        image_size,
        is_training=False,
        interpolation=recipe.interpolation,
        crop_mode="squash",
        crop_pct=recipe.eval_crop,
        mean=recipe.pixel_mean,
        std=recipe.pixel_std,
    )


class ImageSet(Dataset[tuple[Tensor, int]]):
    """Images that are read and transformed when asked for, by (epoch, index)."""

    def __init__(self, labelled: Labelled, transform: Callable[[Image.Image], Tensor], seed: int):
        self.labelled = labelled
        self.transform = transform
        self.seed = seed

    def __len__(self) -> int:
        return len(self.labelled)

    def __getitem__(self, draw: Draw) -> tuple[Tensor, int]:
        epoch, index = draw
        with drawing_from(self.seed, epoch, index):
            return self.transform(read_image(self.labelled.images[index])), int(self.labelled.labels[index])


def read_image(image: Any) -> Image.Image:
    """From pixels (rows, cols, 3), or the path of a file. Raises: DataError (no whole image)."""
    if isinstance(image, np.ndarray):
        return Image.fromarray(image)
    path = os.fsdecode(image)
    try:
        with Image.open(path) as opened:
            return opened.convert("RGB")
    except (OSError, SyntaxError) as error:  # PIL's word for some broken files
        raise DataError(f"{path} is no whole image ({error}). Unpack the data set anew.") from None


class EpochOrder(DistributedSampler[Draw]):
    """One process's share of a shuffled epoch, as (epoch, index).

    A global batch holds the same images in any number of processes; images that would not fill one are left out.
    """

    def __init__(self, images: ImageSet, seed: int, rank: int, world: int):
        super().__init__(images, num_replicas=world, rank=rank, seed=number_of(seed, "order"), drop_last=True)

    def __iter__(self) -> Iterator[Draw]:
        return ((self.epoch, index) for index in super().__iter__())


def train_batches(images: ImageSet, order: EpochOrder, per_process: int, workers: int, pin: bool) -> DataLoader[Any]:
    """Batches of (images, labels) in the sampler's order, the last one left out where it is not full."""
    return DataLoader(
        images,
        per_process,
        sampler=order,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=pin,
        generator=torch.Generator(),
    )


def eval_batches(images: ImageSet, rank: int, world: int, workers: int, pin: bool) -> DataLoader[Any]:
    """Every world-th image, so that all processes together read each image once."""
    share = [(0, index) for index in range(rank, len(images), world)]
    return DataLoader(
        images, EVAL_BATCH, sampler=share, num_workers=workers, pin_memory=pin, generator=torch.Generator()
    )
