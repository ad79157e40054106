"""CSwin with a searched attention."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import pytest
import torch
from torch import Tensor

from attnbench.nn.attention import Grid
from attnbench.nn.backbones import seeded
from attnbench.nn.cost import attentions, count_params
from attnbench.nn.cswin import CrossFrame, CrossSoftmax, CSwinConfig, CSwinWithClassToken
from attnbench.nn.operators import compile_graph
from attnbench.space.parse import parse

SOFTMAX = compile_graph(parse("softmax(q @ k.T / sqrt(d)) @ v"))
SMALL = CSwinConfig(
    image_size=(14, 24),
    padded_size=(16, 24),
    patch_size=4,
    widths=(8, 12),
    n_heads=(2, 3),
    depths=(2, 1),
    mlp_ratio=2.0,
    searched="AA",
    searched_splits=(2, 3),
    splits=(2, 3),
)
IMAGES = torch.randn(3, 1, 14, 24, generator=torch.Generator().manual_seed(0))


def plain_cross(module: CrossFrame, x: Tensor, split: int) -> Tensor:
    """Each token of each head by itself: it attends to, and is convolved with, the tokens of its own stripe."""
    grid, width = module.grid, x.shape[2]
    each = width // module.n_heads
    places = [(row, col) for row in range(grid.rows) for col in range(grid.cols)]
    q, k, v = module.qkv(x).chunk(3, dim=2)
    out = torch.zeros_like(x)
    for head in range(module.n_heads):
        s = slice(head * each, (head + 1) * each)
        axis = 1 if 2 * head < module.n_heads else 0  # vertical stripes first: equal columns
        for at, place in enumerate(places):
            stripe = [i for i, other in enumerate(places) if other[axis] // split == place[axis] // split]
            weights = torch.softmax((k[:, stripe, s] @ q[:, at, s, None])[..., 0] / math.sqrt(each), dim=1)
            total = (weights[..., None] * v[:, stripe, s]).sum(1) + module.local.bias[s]
            for i in stripe:
                row, col = places[i][0] - place[0] + 1, places[i][1] - place[1] + 1
                if 0 <= row < 3 and 0 <= col < 3:
                    total = total + v[:, i, s] * module.local.weight[s, 0, row, col]
            out[:, at, s] = total
    return module.proj(out)


@pytest.mark.parametrize(("grid", "split"), [(Grid(4, 4), 2), (Grid(2, 6), 2), (Grid(3, 6), 1), (Grid(2, 3), 3)])
def test_cross_shaped_windows_as_their_definition_says(grid: Grid, split: int) -> None:
    torch.manual_seed(0)
    module = CrossFrame(8, 4, SOFTMAX, grid, split).double()
    x = torch.randn(2, grid.n_tokens, 8, dtype=torch.float64)
    if split >= max(grid.rows, grid.cols):
        torch.testing.assert_close(module(x), super(CrossFrame, module).forward(x))  # all heads see the grid
        assert module.graph_sizes() == [(4, grid.n_tokens, 2)]
    else:
        torch.testing.assert_close(module(x), plain_cross(module, x, split))


def test_with_softmax_it_is_the_original() -> None:
    searched, original = (
        seeded(0, lambda letters=letters: replace(SMALL, searched=letters).build(SOFTMAX)) for letters in ("AA", "BB")
    )
    original.load_state_dict(searched.state_dict())
    torch.testing.assert_close(searched(IMAGES), original(IMAGES))
    assert type(original.backbone.stages[0].blocks[0].attn) is CrossSoftmax


def test_grids_may_be_oblong() -> None:
    assert SMALL.grids == (Grid(4, 6), Grid(2, 3))
    # stage 1, two blocks: 3 vertical stripes of 4 x 2, 2 horizontal ones of 2 x 6; stage 2: the grid
    assert list(attentions(SMALL.build(SOFTMAX))) == [(3, 8, 4), (2, 12, 4)] * 2 + [(3, 6, 4)]
    assert list(attentions(replace(SMALL, searched="M1B").build(SOFTMAX))) == [(3, 8, 4), (2, 12, 4)]


@pytest.mark.parametrize(
    ("published_millions", "depths", "scale"),
    [(23, (1, 2, 21, 1), 1.0), (35, (2, 4, 32, 2), 1.0), (78, (2, 4, 32, 2), 1.5)],
)
def test_the_published_sizes(published_millions: int, depths: tuple[int, ...], scale: float) -> None:
    model = CSwinConfig(
        image_size=(224, 224),
        padded_size=(224, 224),
        patch_size=4,
        widths=tuple(round(scale * width) for width in (64, 128, 256, 512)),
        n_heads=(2, 4, 8, 16) if scale == 1 else (4, 8, 16, 32),
        depths=depths,
        mlp_ratio=4.0,
        searched="BBBB",
        searched_splits=(56, 28, 14, 7),
        splits=(1, 2, 7, 7),
        n_channels=3,
        n_classes=1000,
    )
    with torch.device("meta"):
        assert math.ceil(count_params(model.build(SOFTMAX)) / 1e6) == published_millions  # the paper rounds up


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_heads": (1, 3)}, "1 heads do not halve into vertical and horizontal stripes; use an even number"),
        ({"n_heads": (3, 3)}, "width 8 does not split into 3 heads"),
        ({"searched_splits": (4, 3)}, r"Grid\(rows=4, cols=6, prefix=0\) does not split into stripes 4 wide; use"),
        ({"splits": (2,)}, r"splits = \(2,\) has 1 values for 2 stages"),
        ({"padded_size": (20, 24)}, r"\(5, 6\) pixels do not split into patches of \(2, 2\)"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changed: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changed).build(SOFTMAX)


@pytest.mark.parametrize("size", [(24, 16), (15, 24)])
def test_images_of_another_size_are_refused_though_the_tokens_would_fit(size: tuple[int, int]) -> None:
    model = replace(SMALL, image_size=(16, 24)).build(SOFTMAX)
    with pytest.raises(ValueError, match=rf"built for images of \(16, 24\), but got \({size[0]}, {size[1]}\); resize"):
        model(torch.zeros(1, 1, *size))


def test_another_number_of_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="the attention got 5 tokens but was built for 4"):
        CrossFrame(8, 2, SOFTMAX, Grid(2, 2), 1)(torch.zeros(1, 5, 8))


@pytest.mark.parametrize("letters", ["AA", "AB"])
def test_a_class_token_joins_the_last_stage_and_is_classified(letters: str) -> None:
    model = CSwinWithClassToken(**asdict(SMALL) | {"searched": letters}).build(SOFTMAX)
    stage = model.backbone.stages[-1]
    image = torch.randn(3, 8, 4, 6)
    tokens = stage.patch_embed(image)
    assert tokens.shape == (3, 6, 12)
    tokens = stage.blocks[0](torch.cat([stage.blocks.cls_token.expand(3, -1, -1), tokens], dim=1))
    torch.testing.assert_close(stage(image), tokens.mT[:, :, :1, None])
    assert [size for size in attentions(model) if size[1] == 7] == [(3, 7, 4)] * (letters == "AA")


def test_a_class_token_lies_in_no_stripe() -> None:
    config = CSwinWithClassToken(**asdict(SMALL) | {"searched_splits": (2, 1)})
    with pytest.raises(ValueError, match=r"the class token of Grid\(rows=2, .*\) lies in no stripe; use a split that"):
        config.build(SOFTMAX)
