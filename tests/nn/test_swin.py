"""timm's Swin with a searched attention."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
import torch

from attnbench.nn.attention import Grid
from attnbench.nn.backbones import seeded
from attnbench.nn.cost import attentions, count_params
from attnbench.nn.operators import compile_graph
from attnbench.nn.swin import SwinConfig, SwinWithClassToken, WindowFrame
from attnbench.space.parse import parse

SOFTMAX = compile_graph(parse("softmax(q @ k.T / sqrt(d)) @ v"))
SMALL = SwinConfig(
    image_size=(14, 32),
    padded_size=(16, 32),
    patch_size=(4, 4),
    width=8,
    n_heads=(2, 4),
    depths=(1, 1),
    mlp_ratio=2.0,
    searched="AA",
    searched_window=(2, 4),
    window=(2, 4),
    local=False,
)
IMAGES = torch.randn(3, 1, 14, 32, generator=torch.Generator().manual_seed(0))


def test_with_softmax_it_is_timms_without_position_bias() -> None:
    searched, original = (
        seeded(0, lambda letters=letters: replace(SMALL, searched=letters).build(SOFTMAX)) for letters in ("AA", "BB")
    )
    weights = original.state_dict()
    tables = {name: torch.zeros_like(value) for name, value in weights.items() if "relative_position_bias" in name}
    assert len(tables) == 2
    original.load_state_dict(searched.state_dict() | tables)
    torch.testing.assert_close(searched(IMAGES), original(IMAGES))


def test_windows_are_cut_down_to_the_grid_and_do_not_shift() -> None:
    model = replace(SMALL, depths=(2, 3), searched="AM2", searched_window=(4, 4)).build(SOFTMAX)
    blocks = [block for stage in model.backbone.layers for block in stage.blocks]
    assert [block.window_size for block in blocks[:4]] == [(4, 4), (4, 4), (2, 4), (2, 4)]
    assert all(block.shift_size == (0, 0) and block.attn_mask is None for block in blocks[:4])
    assert [type(block.attn) is WindowFrame for block in blocks] == [True] * 4 + [False]
    assert list(attentions(model)) == [(2 * 2, 16, 4)] * 2 + [(4, 8, 4)] * 2
    assert model(IMAGES).isfinite().all()


def test_softmax_blocks_keep_their_shift_and_its_mask() -> None:
    model = replace(SMALL, depths=(2, 1), searched="BA", window=(2, 2)).build(SOFTMAX)
    shifted = model.backbone.layers[0].blocks[1]
    assert shifted.shift_size == (1, 1)
    assert shifted.attn_mask is not None


def test_windows_see_their_own_tokens_only() -> None:
    model = replace(SMALL, depths=(1,), n_heads=(2,), searched="A").build(compile_graph(parse("mean(v, axis=-2) + q")))
    block = model.backbone.layers[0].blocks[0]
    x = torch.randn(1, 4, 8, 8)
    changed = x.clone()
    changed[:, 0, 0] += 1
    differs = (block._attn(x) != block._attn(changed)).any(-1)[0]
    expected = torch.zeros(4, 8, dtype=torch.bool)
    expected[:2, :4] = True
    assert torch.equal(differs, expected)


def test_a_mask_is_refused() -> None:
    with pytest.raises(ValueError, match="attention graphs take no mask; a searched block must not shift"):
        WindowFrame(8, 2, SOFTMAX, Grid(2, 2), 1)(torch.zeros(1, 4, 8), mask=torch.zeros(1, 4, 4))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"searched_window": (3, 4)}, "a grid of 4 x 8 tokens does not split into windows of 3 x 4, and a graph takes"),
        ({"padded_size": (18, 32)}, r"\(18, 32\) pixels do not split into patches of \(4, 4\)"),
        ({"n_heads": (2,)}, r"n_heads = \(2,\) has 1 values for 2 stages"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changed: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changed).build(SOFTMAX)


def test_the_frames_convolution_stays_inside_its_window() -> None:
    with_local, without = (replace(SMALL, local=local).build(SOFTMAX) for local in (True, False))
    assert count_params(with_local) - count_params(without) == 10 * (8 + 16)
    frame = with_local.backbone.layers[0].blocks[0].attn
    assert frame.grid == Grid(2, 4)


def test_a_class_token_joins_the_last_stage_and_is_classified() -> None:
    config = replace(SMALL, depths=(1, 2), searched_window=(4, 4), drop_path=0.2)
    model = SwinWithClassToken(**asdict(config)).build(SOFTMAX).eval()
    assert list(attentions(model)) == [(2 * 2, 16, 4)] + [(4, 9, 4)] * 2
    stage = model.backbone.layers[-1]
    assert stage.blocks[1].drop_path.drop_prob == pytest.approx(0.2)
    x = torch.randn(3, 4, 8, 8)
    patches = stage.downsample(x).flatten(1, 2)
    tokens = torch.cat([stage.blocks.cls_token.expand(3, -1, -1), patches], dim=1)
    for block in stage.blocks:
        tokens = block(tokens)
    torch.testing.assert_close(stage(x), tokens[:, None, :1])


@pytest.mark.parametrize(
    "changed", [{"searched": "AB"}, {"searched": "AM1", "depths": (1, 2)}, {"searched_window": (1, 4)}]
)
def test_a_class_token_without_a_place_is_refused(changed: dict) -> None:
    config = SwinWithClassToken(**asdict(SMALL) | changed)
    with pytest.raises(ValueError, match="leaves the class token of the last stage's 2 x 4 tokens without a place"):
        config.build(SOFTMAX)
