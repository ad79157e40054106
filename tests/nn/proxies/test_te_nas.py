"""The neural tangent kernel by each way to it, its condition number, and linear regions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from attnbench.nn.proxies.layers import layers_by_role
from attnbench.nn.proxies.ntk import by_func, by_layer, by_loop, ntk
from attnbench.nn.proxies.passes import standalone
from attnbench.nn.proxies.te_nas import condition_number, n_regions, te_nas
from tests.nn.proxies.models import MODELS, model_of, shape_of
from tests.nn.proxies.plain import (
    FORMULAS,
    HEADS,
    WEIGHTS,
    gradients_of,
    plain_logits,
    small_batch,
    small_model,
    state64,
)


@pytest.mark.parametrize("name", FORMULAS)
def test_te_nas(name: str) -> None:
    images, _ = small_batch()
    rows, patterns = [], set()
    for image in images:
        weights = state64(small_model(FORMULAS[name]))
        seen: list[torch.Tensor] = []
        found = gradients_of(plain_logits(weights, image, HEADS[name], seen).sum(), weights)
        rows.append(np.concatenate([found[key].ravel() for key in WEIGHTS]))
        patterns.add(tuple(number > 0 for hidden in seen for number in hidden.flatten().tolist()))
    singular = np.linalg.svd(np.stack(rows), compute_uv=False)
    found = te_nas(small_model(FORMULAS[name]), images)
    same = singular[-1] < 1e-12 * singular[0]  # nothing takes the patches to the class token
    expected = math.inf if same else (singular[0] / singular[-1]) ** 2
    assert same == (name == "v")
    assert found["te_nas.ntk_cond"] == pytest.approx(expected, rel=1e-6)
    assert found["te_nas.regions"] == len(patterns)


@pytest.mark.parametrize("kind", MODELS)
def test_gradients_of_single_images_are_those_of_a_loop(kind: str) -> None:
    net = standalone(model_of(kind))
    images = torch.randn(3, *shape_of(kind), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    layers = [layer for group in layers_by_role(net).values() for layer in group]
    expected = by_loop(net, layers, images)
    for per_sample in (by_layer, by_func):
        for layer, found, row in zip(layers, per_sample(net, layers, images), expected, strict=True):
            torch.testing.assert_close(found, row, msg=lambda text, layer=layer: f"{layer}: {text}")
    assert not any(layer._forward_hooks for layer in layers)


class Odd(nn.Module):
    """A layer used twice, one whose weight alone is used, one that runs without images in front, and grouped ones."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = nn.Linear(6, 6)
        self.weight_alone = nn.Linear(6, 6)
        self.without_images = nn.Linear(6, 6, bias=False)
        self.strided = nn.Conv2d(6, 12, 3, stride=2, padding=1, dilation=2, groups=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.twice(torch.tanh(self.twice(x)))
        x = torch.tanh(nn.functional.linear(x, self.weight_alone.weight)) + self.without_images(
            torch.ones(1, 5, 6).double()
        )
        image = x.mT.unflatten(2, (5, 1)).expand(-1, -1, -1, 4)
        windows = torch.cat([image, 2 * image], 1).unflatten(1, (2, 6)).flatten(0, 1)
        return self.strided(windows).unflatten(0, (-1, 2)).square().sum((1, 3, 4))


def test_layers_that_are_used_oddly_have_their_gradients_too() -> None:
    net = standalone(Odd())
    layers = list(net.children())
    images = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for per_sample in (by_layer, by_func):
        for found, row in zip(per_sample(net, layers, images), by_loop(net, layers, images), strict=True):
            torch.testing.assert_close(found, row)


@pytest.mark.parametrize("per_sample", [by_func, by_loop])
def test_the_kernel_is_the_same_by_every_way_to_it(per_sample) -> None:
    net = standalone(small_model(FORMULAS["l2norm"]))
    images = small_batch()[0].double()
    kernel = ntk(net, images)
    assert kernel.shape == (6, 6)
    torch.testing.assert_close(ntk(net, images, per_sample), kernel)


def test_a_condition_number() -> None:
    turned, _ = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    kernel = turned @ torch.diag(torch.tensor([2.0, 8.0, 0.5], dtype=torch.float64)) @ turned.T
    assert condition_number(kernel) == pytest.approx(16)
    assert condition_number(torch.ones(3, 3, dtype=torch.float64)) == math.inf
    assert condition_number(torch.zeros(3, 3, dtype=torch.float64)) == math.inf
    assert math.isnan(condition_number(torch.full((3, 3), math.nan, dtype=torch.float64)))


def test_an_image_twice_has_one_region_and_no_condition() -> None:
    images, _ = small_batch(3)
    found = te_nas(small_model(FORMULAS["softmax"]), images[[0, 1, 2, 1]])
    assert found == {"te_nas.ntk_cond": math.inf, "te_nas.regions": 3}


def test_regions_follow_the_threshold() -> None:
    net = standalone(small_model(FORMULAS["softmax"]))
    images = small_batch()[0].double()
    assert n_regions(net, images) == 6
    assert n_regions(net, images, threshold=1e6) == 1
    assert not any(module._forward_pre_hooks for module in net.modules())
