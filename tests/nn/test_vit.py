"""timm's VisionTransformer with a searched attention."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attnbench.nn.attention import Grid
from attnbench.nn.backbones import seeded
from attnbench.nn.cost import attentions
from attnbench.nn.operators import compile_graph
from attnbench.nn.vit import DeepViTConfig, FramedForTimm
from attnbench.space.parse import parse

SOFTMAX = compile_graph(parse("softmax(q @ k.T / sqrt(d)) @ v"))
SMALL = DeepViTConfig(
    image_size=(6, 12), patch_size=(3, 2), width=8, n_heads=2, depth=3, mlp_ratio=2.0, local=False, searched="A"
)
IMAGES = torch.randn(3, 1, 6, 12, generator=torch.Generator().manual_seed(0))


def test_with_softmax_it_is_timms_on_an_oblong_grid() -> None:
    searched, original = (
        seeded(0, lambda letters=letters: replace(SMALL, searched=letters).build(SOFTMAX)) for letters in ("A", "B")
    )
    original.load_state_dict(searched.state_dict())
    torch.testing.assert_close(searched(IMAGES), original(IMAGES))
    assert SMALL.grid == Grid(2, 6, prefix=1)
    assert not list(attentions(original))


def test_the_first_blocks_only_may_be_searched() -> None:
    model = replace(SMALL, searched="M2").build(SOFTMAX)
    assert [isinstance(block.attn, FramedForTimm) for block in model.blocks] == [True, True, False]
    assert list(attentions(model)) == [(2, 13, 4)] * 2


def test_the_class_token_is_one_of_the_graphs_tokens_and_no_patch() -> None:
    frame = FramedForTimm(4, 1, compile_graph(parse("zeros(q) + mean(v, axis=-2)")), Grid(1, 3, prefix=1))
    x = torch.randn(1, 4, 4)
    changed = x.clone()
    changed[:, 0] += 1
    difference = frame(changed) - frame(x)
    assert difference[:, 1:].abs().min() > 0  # the graph takes it to every patch
    torch.testing.assert_close(difference[:, 1:], difference[:, :1].expand(-1, 3, -1))  # the convolution does not


@pytest.mark.parametrize("mask", [{"attn_mask": torch.zeros(13, 13)}, {"is_causal": True}])
def test_a_mask_is_refused(mask: dict) -> None:
    with pytest.raises(ValueError, match="attention graphs take no mask; call the backbone without attn_mask and is_c"):
        FramedForTimm(8, 2, SOFTMAX, SMALL.grid)(torch.zeros(1, 13, 8), **mask)


def test_patches_that_leave_pixels_out_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(7, 12\) pixels do not split into patches of \(3, 2\); pad the images"):
        replace(SMALL, image_size=(7, 12)).build(SOFTMAX)
