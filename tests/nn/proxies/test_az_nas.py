"""AZ-NAS's three terms against their definitions, and the blocks it reads them from."""

from __future__ import annotations

import math

import numpy as np
import pytest
import timm
import torch
from torch import nn

from attnbench.nn.cost import count_macs
from attnbench.nn.proxies.az_nas import az_nas
from tests.nn.proxies.models import MODELS, model_of, shape_of
from tests.nn.proxies.plain import (
    FORMULAS,
    HEADS,
    SHAPE,
    SMALL,
    after_attention,
    after_mlp,
    embed,
    small_model,
    state64,
)

N = 4


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-6)


def plain_entropy(features: torch.Tensor) -> float:
    """Of features (images, tokens, channels)."""
    rows = features.detach().reshape(-1, features.shape[-1]).numpy()
    eigenvalues = np.linalg.svd(np.cov(rows.T, bias=True), compute_uv=False)
    shares = eigenvalues / eigenvalues.sum()
    return -sum(share * math.log(share + 1e-8) for share in shares.tolist())


def plain_trainability(before: torch.Tensor, step, signs: torch.Tensor) -> float:
    """Of a step from features (images, tokens, channels) to the next ones, image by image, by its whole Jacobian."""
    _, n_tokens, width = before.shape
    correlation = np.zeros((width, width))
    for x, g in zip(before, signs, strict=True):
        jacobian = torch.autograd.functional.jacobian(step, x.detach()).reshape(n_tokens * width, n_tokens * width)
        induced = (jacobian.T @ g.flatten()).reshape(n_tokens, width)
        correlation += induced.numpy().T @ g.numpy()
    s = np.linalg.svd(correlation / (len(before) * n_tokens), compute_uv=False)[0]
    return 2 - s - 1 / (s + 1e-6)


@pytest.mark.parametrize(("name", "seed"), [("softmax", 0), ("l2norm", 3), ("v", 0)])
def test_az_nas(name: str, seed: int) -> None:
    model = small_model(FORMULAS[name])
    w = {key: value.detach() for key, value in state64(model).items()}
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(N, *SHAPE, generator=generator, dtype=torch.float64)
    entropies, scores = [], []
    x = torch.stack([embed(w, image) for image in images])
    for block in range(SMALL.depth):

        def attend(x: torch.Tensor, block: int = block) -> torch.Tensor:
            return after_attention(w, block, x, HEADS[name])

        def expand(x: torch.Tensor, block: int = block) -> torch.Tensor:
            return after_mlp(w, block, x, [])

        middle = torch.stack([attend(one) for one in x])
        output = torch.stack([expand(one) for one in middle])
        entropies += [plain_entropy(middle), plain_entropy(output)]
        for before, step in [(middle, expand), (x, attend)][: 2 if block else 1]:
            signs = torch.randint(0, 2, before.shape, generator=generator).double() * 2 - 1
            scores.append(plain_trainability(before, step, signs))
        x = output
    found = az_nas(model, SHAPE, n_images=N, seed=seed)
    assert found["az_nas.expressivity"] == close(sum(entropies))
    assert found["az_nas.trainability"] == close(sum(scores) / len(scores))
    assert found["az_nas.complexity"] == count_macs(model, SHAPE)


@pytest.mark.parametrize("kind", MODELS)
def test_every_block_of_every_kind_of_model_counts(kind: str) -> None:
    model = model_of(kind)
    entered = []
    for name, module in model.named_modules():
        if name.split(".")[-1] in ("attn", "attention") and isinstance(getattr(module, "proj", None), nn.Linear):
            module.register_forward_pre_hook(lambda *_, name=name: entered.append(name))
    found = az_nas(model, shape_of(kind), n_images=2)
    assert all(math.isfinite(value) for value in found.values())
    assert entered
    widths = [module.proj.out_features for name, module in model.named_modules() if name in entered]
    assert 0 < found["az_nas.expressivity"] < 2 * sum(map(math.log, widths))
    assert found["az_nas.trainability"] <= 0 + 1e-6


def test_steps_that_change_no_gradient_are_left_out() -> None:
    model = small_model(FORMULAS["v"])
    before = az_nas(model, SHAPE, n_images=N)
    with torch.no_grad():
        model.blocks[1].mlp.fc2.weight.zero_()
        model.blocks[1].attn.proj.weight.zero_()
    after = az_nas(model, SHAPE, n_images=N)
    only = small_model(FORMULAS["v"])
    only.blocks = only.blocks[:1]
    assert after["az_nas.trainability"] == close(az_nas(only, SHAPE, n_images=N)["az_nas.trainability"])
    assert after["az_nas.trainability"] != before["az_nas.trainability"]
    with torch.no_grad():
        model.blocks[0].mlp.fc2.weight.zero_()
    assert math.isnan(az_nas(model, SHAPE, n_images=N)["az_nas.trainability"])


def test_a_seed_decides_the_noise() -> None:
    model = small_model(FORMULAS["v"])
    assert az_nas(model, SHAPE, seed=0) == az_nas(model, SHAPE)
    assert az_nas(model, SHAPE, seed=1) != az_nas(model, SHAPE)


def test_an_attention_outside_of_pre_norm_blocks_is_refused() -> None:
    model = small_model("v")
    model.blocks[1].norm = model.blocks[1].norm2
    del model.blocks[1].norm2
    with pytest.raises(ValueError, match=r"has 1 pre-norm blocks, .* for 2 attentions; az_nas needs one"):
        az_nas(model, SHAPE)


def test_blocks_with_the_norm_behind_are_refused() -> None:
    model = timm.create_model(
        "vit_tiny_patch16_224", patch_size=8, img_size=16, embed_dim=12, depth=1, num_heads=2, num_classes=3
    )
    model.blocks[0].mlp.register_forward_pre_hook(lambda _, inputs: (inputs[0] * 2,))
    with pytest.raises(ValueError, match=r"block 'blocks\.0' does not hand norm2 to its MLP; az_nas needs pre-norm"):
        az_nas(model, (3, 16, 16))
