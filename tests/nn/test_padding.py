"""The border around images."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from attnbench.nn.padding import Padded, patch_grid


def test_the_border_is_zero_and_the_odd_pixel_lies_behind() -> None:
    padded = Padded(nn.Identity(), (3, 4), (6, 6))
    images = torch.arange(1.0, 13.0).view(1, 1, 3, 4)
    found = padded(images)
    assert found.shape == (1, 1, 6, 6)
    assert torch.equal(found[:, :, 1:4, 1:5], images)
    assert found.sum() == images.sum()


def test_images_must_fit() -> None:
    with pytest.raises(ValueError, match=r"images of \(28, 28\) do not fit into \(32, 24\); padded_size must not"):
        Padded(nn.Identity(), (28, 28), (32, 24))
    with pytest.raises(ValueError, match=r"built for images of \(3, 4\), but got \(4, 3\); resize the images"):
        Padded(nn.Identity(), (3, 4), (6, 6))(torch.zeros(1, 1, 4, 3))


def test_patches_must_divide_the_image() -> None:
    assert patch_grid((32, 24), (4, 8)) == (8, 3)
    with pytest.raises(ValueError, match=r"\(30, 32\) pixels do not split into patches of \(4, 4\); pad the images"):
        patch_grid((30, 32), (4, 4))
