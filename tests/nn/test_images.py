"""Images come out the same whoever reads them, and all of them once."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from attnbench.nn.datasets import Labelled
from attnbench.nn.generators import drawing_from
from attnbench.nn.images import (
    EVAL_BATCH,
    EpochOrder,
    ImageSet,
    eval_batches,
    eval_transform,
    train_batches,
    train_transform,
)
from attnbench.nn.recipes import RECIPES

RECIPE = RECIPES["imagenet-300e"]


def images(n_images: int, seed: int = 0, train: bool = True) -> ImageSet:
    """Images that show their own number."""
    pixels = np.arange(n_images, dtype=np.uint8)[:, None, None, None] * np.ones((20, 24, 3), dtype=np.uint8)
    transform = (train_transform if train else eval_transform)(RECIPE, (16, 16))
    return ImageSet(Labelled(pixels, np.arange(n_images)), transform, seed)


def test_an_image_follows_from_seed_epoch_and_index_alone() -> None:
    some = images(5)
    first = some[3, 2][0]
    random.random(), torch.rand(1), np.random.rand()
    assert torch.equal(some[3, 2][0], first)
    others = [some[4, 2], some[3, 1], images(5, seed=1)[3, 2]]
    assert all(not torch.equal(other[0], first) for other in others)
    assert first.shape == (3, 16, 16)


def test_generators_of_others_are_left_alone() -> None:
    def draws() -> list[float]:
        return [random.random(), np.random.rand(), torch.rand(1).item()]

    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    expected = draws()
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    with drawing_from(1, 2):
        inside = draws()
    images(5)[0, 0]
    assert draws() == expected != inside


@pytest.mark.parametrize("world", [1, 2, 4])
def test_a_global_batch_is_the_same_in_any_number_of_processes(world: int) -> None:
    some = images(27)  # 3 batches of 8, and 3 images left out
    found = []
    for rank in range(world):
        order = EpochOrder(some, 5, rank, world)
        order.set_epoch(1)
        found.append([labels.tolist() for _, labels in train_batches(some, order, 8 // world, 0, pin=False)])
    batches = [sorted(label for part in parts for label in part) for parts in zip(*found, strict=True)]
    assert len(batches) == 3
    order = EpochOrder(some, 5, 0, 1)
    order.set_epoch(1)
    alone = [sorted(labels.tolist()) for _, labels in train_batches(some, order, 8, 0, pin=False)]
    assert batches == alone
    order.set_epoch(2)
    assert [sorted(labels.tolist()) for _, labels in train_batches(some, order, 8, 0, pin=False)] != alone


def test_processes_that_read_ahead_change_nothing() -> None:
    some = images(16)
    read = []
    for workers in (0, 1):
        order = EpochOrder(some, 0, 0, 1)
        loader = train_batches(some, order, 8, workers, pin=False)
        read.append([])
        for epoch in range(2):
            order.set_epoch(epoch)
            read[-1] += [batch for batch, _ in loader]
    assert len(read[0]) == 4
    assert all(torch.equal(a, b) for a, b in zip(*read, strict=True))


@pytest.mark.parametrize("world", [1, 2, 3])
def test_every_image_is_evaluated_once(world: int) -> None:
    some = images(EVAL_BATCH + 1, train=False)
    batches = [batch for rank in range(world) for batch in eval_batches(some, rank, world, 0, pin=False)]
    assert sorted(torch.cat([labels for _, labels in batches]).tolist()) == list(range(EVAL_BATCH + 1))


def test_evaluation_sees_the_centre_of_the_whole_image() -> None:
    wide = np.zeros((1, 16, 64, 3), dtype=np.uint8)
    wide[:, :, 32:] = 255  # whatever its aspect, the border lies in the middle
    image, _ = ImageSet(Labelled(wide, np.zeros(1)), eval_transform(RECIPE, (16, 16)), 0)[0, 0]
    assert image.shape == (3, 16, 16)
    assert (image[0, :, :6] < image[0].mean()).all()
    assert (image[0, :, 10:] > image[0].mean()).all()
