"""PVT v1 with a searched attention."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attnbench.nn.attention import Grid
from attnbench.nn.backbones import seeded
from attnbench.nn.cost import attentions, count_params
from attnbench.nn.operators import compile_graph
from attnbench.nn.pvt import PVTConfig, ReducedAttention
from attnbench.space.parse import parse

SOFTMAX = compile_graph(parse("softmax(q @ k.T / sqrt(d)) @ v"))
SMALL = PVTConfig(
    image_size=(14, 24),
    padded_size=(16, 24),
    patch_size=(4, 4),
    widths=(8, 12),
    n_heads=(2, 3),
    depths=(2, 1),
    mlp_ratios=(2.0, 3.0),
    searched="AA",
    reductions=(1, 1),
    local=False,
)
IMAGES = torch.randn(3, 1, 14, 24, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("class_token", [True, False])
def test_with_softmax_it_is_the_original(class_token: bool) -> None:
    searched, original = (
        seeded(0, lambda letters=letters: replace(SMALL, searched=letters, class_token=class_token).build(SOFTMAX))
        for letters in ("AA", "BB")
    )
    weights = searched.state_dict()
    for name in [name for name in weights if ".qkv." in name]:
        q, k, v = weights.pop(name).chunk(3)
        weights |= {name.replace(".qkv.", ".q."): q, name.replace(".qkv.", ".kv."): torch.cat([k, v])}
    original.load_state_dict(weights)
    torch.testing.assert_close(searched(IMAGES), original(IMAGES))
    assert count_params(searched) == count_params(original)


def test_grids_may_be_oblong_and_the_last_has_the_class_token() -> None:
    assert SMALL.grids == (Grid(4, 6), Grid(2, 3, prefix=1))
    assert list(attentions(replace(SMALL, searched="M1A").build(SOFTMAX))) == [(2, 24, 4), (3, 7, 4)]
    assert replace(SMALL, class_token=False).grids[-1] == Grid(2, 3)


def test_reduced_keys_and_values_are_a_convolution_of_the_tokens() -> None:
    torch.manual_seed(0)
    module, x = ReducedAttention(6, 2, Grid(2, 4), reduction=2), torch.randn(2, 8, 6)
    image = x.view(2, 2, 4, 6)
    filters = module.reduce.weight
    coarse = torch.zeros(2, 2, 6)
    for place in range(2):
        for row in range(2):
            for col in range(2):
                coarse[:, place] += image[:, row, 2 * place + col] @ filters[:, :, row, col].T
    coarse = module.norm(coarse + module.reduce.bias)
    q, (k, v) = module.q(x), module.kv(coarse).chunk(2, dim=2)
    heads = []
    for s in (slice(0, 3), slice(3, 6)):
        heads.append(torch.softmax(q[..., s] @ k[..., s].mT / 3**0.5, dim=-1) @ v[..., s])
    torch.testing.assert_close(module(x), module.proj(torch.cat(heads, dim=-1)))


def test_the_published_sizes() -> None:
    tiny = PVTConfig(
        image_size=(224, 224),
        padded_size=(224, 224),
        patch_size=(4, 4),
        widths=(64, 128, 320, 512),
        n_heads=(1, 2, 5, 8),
        depths=(2, 2, 2, 2),
        mlp_ratios=(8.0, 8.0, 4.0, 4.0),
        searched="BBBB",
        reductions=(8, 4, 2, 1),
        n_channels=3,
        n_classes=1000,
    )
    with torch.device("meta"):
        assert round(count_params(tiny.build(SOFTMAX)) / 1e6, 1) == 13.2
        assert round(count_params(replace(tiny, depths=(3, 4, 6, 3)).build(SOFTMAX)) / 1e6, 1) == 24.5


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_heads": (3, 3)}, "width 8 does not split into 3 heads; use a width"),
        ({"n_heads": (3, 3), "searched": "BA"}, "width 8 does not split into 3 heads; use a width"),
        (
            {"reductions": (3, 1), "searched": "BA"},
            r"reduction 3 leaves tokens of Grid\(rows=4, cols=6, prefix=0\) out",
        ),
        ({"reductions": (1, 2), "searched": "AB"}, r"reduction 2 has no place for the class token of Grid\(rows=2"),
        ({"mlp_ratios": (2.0,)}, r"mlp_ratios = \(2.0,\) has 1 values for 2 stages"),
        ({"padded_size": (20, 24)}, r"\(5, 6\) pixels do not split into patches of \(2, 2\)"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changed: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changed).build(SOFTMAX)
