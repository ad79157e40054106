"""timm's PVT v2 with a searched attention."""

from __future__ import annotations

from dataclasses import replace

import pytest
import timm
import torch

from attnbench.nn.cost import attentions, count_params
from attnbench.nn.full import FULL
from attnbench.nn.operators import compile_graph
from attnbench.nn.pvt2 import PVT2Config
from attnbench.space.parse import parse

SOFTMAX = compile_graph(parse("softmax(q @ k.T / sqrt(d)) @ v"))
SMALL = PVT2Config(
    image_size=(16, 27),
    widths=(8, 12),
    n_heads=(2, 3),
    depths=(1, 1),
    mlp_ratios=(2.0, 2.0),
    searched="AA",
    reductions=(1, 1),
    local=False,
)
IMAGES = torch.randn(2, 1, 16, 27, generator=torch.Generator().manual_seed(0))


def test_the_softmax_version_has_the_parameters_of_timms() -> None:
    with torch.device("meta"):
        expected = count_params(timm.create_model("pvt_v2_b0", pretrained=False))
        assert count_params(replace(FULL["pvt2-b0"], searched="BBBB").build(SOFTMAX)) == expected
        model = FULL["pvt2-b0"].build(SOFTMAX)
        assert list(attentions(model)) == [
            (h, n, 32) for h, n in ((1, 3136), (2, 784), (5, 196), (8, 49)) for _ in "12"
        ]
        assert model(torch.zeros(1, 3, 224, 224)).shape == (1, 1000)


def test_with_softmax_it_is_timms_on_an_oblong_grid() -> None:
    searched, original = (replace(SMALL, searched=letters).build(SOFTMAX) for letters in ("AA", "BB"))
    weights = searched.state_dict()
    for name in [name for name in weights if ".qkv." in name]:
        q, k, v = weights.pop(name).chunk(3)
        weights |= {name.replace(".qkv.", ".q."): q, name.replace(".qkv.", ".kv."): torch.cat([k, v])}
    original.load_state_dict(weights)
    torch.testing.assert_close(searched(IMAGES), original(IMAGES))


def test_images_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"got tokens on a grid of \(7, 4\) but was built for Grid\(rows=4, cols=7"):
        SMALL.build(SOFTMAX)(IMAGES.mT)


def test_settings_have_one_value_a_stage() -> None:
    with pytest.raises(ValueError, match=r"reductions = \(1,\) has 1 values for 2 stages"):
        replace(SMALL, reductions=(1,)).build(SOFTMAX)
