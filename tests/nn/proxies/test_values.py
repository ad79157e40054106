"""Each proxy against its definition, computed anew in float64 on a transformer that is written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from attnbench.nn.proxies.dss import dss
from attnbench.nn.proxies.naswot import naswot
from attnbench.nn.proxies.snip import snip
from attnbench.nn.proxies.synflow import synflow
from tests.nn.proxies.plain import (
    FORMULAS,
    HEADS,
    SHAPE,
    SMALL,
    plain_logits,
    plain_loss,
    small_batch,
    small_model,
    state64,
)

BLOCKS = [f"blocks.{block}." for block in range(SMALL.depth)]
PROJ = [f"{block}attn.proj.weight" for block in BLOCKS]
QKV = [f"{block}attn.qkv.weight" for block in BLOCKS]
LOCAL = [f"{block}attn.local.weight" for block in BLOCKS]
MLP = [f"{block}mlp.{layer}.weight" for block in BLOCKS for layer in ("fc1", "fc2")]
ENDS = ["patch_embed.proj.weight", "head.weight"]


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-6)


def nuclear(matrix: torch.Tensor) -> float:
    return np.linalg.norm(matrix.detach().numpy(), "nuc")


def ones_gradients(name: str) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Absolute weights, and the gradient of the summed logits for an image of ones by each of them."""
    weights = state64(small_model(FORMULAS[name]), absolute=True)
    plain_logits(weights, torch.ones(SHAPE), HEADS[name], []).sum().backward()
    none = {key: torch.zeros_like(value) for key, value in weights.items()}
    return weights, none | {key: value.grad for key, value in weights.items() if value.grad is not None}


def saliency(names: list[str], weights: dict[str, torch.Tensor], grads: dict[str, torch.Tensor], signed=False) -> float:
    products = [(weights[name].detach() * grads[name]).numpy() for name in names]
    return sum(float(product.sum() if signed else np.abs(product).sum()) for product in products)


@pytest.mark.parametrize("name", FORMULAS)
def test_the_transformer_written_out_is_the_backbone(name: str) -> None:
    model = small_model(FORMULAS[name]).double().eval()
    images, _ = small_batch()
    weights = state64(model)
    plain = torch.stack([plain_logits(weights, image, HEADS[name], []) for image in images])
    torch.testing.assert_close(model(images.double()), plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FORMULAS)
def test_dss(name: str) -> None:
    weights, grads = ones_gradients(name)
    found = dss(small_model(FORMULAS[name]), SHAPE)
    n = SMALL.width
    roles = [(qkv, slice(place * n, (place + 1) * n)) for qkv in QKV for place in range(3)]
    qkv = sum(nuclear(grads[layer][rows]) * nuclear(weights[layer][rows]) for layer, rows in roles)
    proj = sum(nuclear(grads[layer]) * nuclear(weights[layer]) for layer in PROJ)
    mlp = saliency(MLP, weights, grads)
    assert found["dss.qkv"] == close(qkv)
    assert found["dss.proj"] == close(proj)
    assert found["dss.mlp"] == close(mlp)
    assert found["dss"] == close(qkv + proj + mlp)
    assert found["dss.patch"] == close(saliency(ENDS[:1], weights, grads))
    assert found["dss.head"] == close(saliency(ENDS[1:], weights, grads))


def test_options_of_dss() -> None:
    weights, grads = ones_gradients("softmax")
    model = small_model(FORMULAS["softmax"])
    fused = sum(nuclear(grads[layer]) * nuclear(weights[layer]) for layer in QKV)
    assert dss(model, SHAPE, qkv="fused")["dss.qkv"] == close(fused)
    size = SMALL.width // SMALL.n_heads
    heads = [slice(row, row + size) for row in range(0, 3 * SMALL.width, size)]
    per_head = sum(nuclear(grads[layer][s]) * nuclear(weights[layer][s]) for layer in QKV for s in heads)
    assert dss(model, SHAPE, qkv="per head")["dss.qkv"] == close(per_head)
    assert dss(model, SHAPE, signed=True)["dss.mlp"] == close(saliency(MLP, weights, grads, signed=True))


@pytest.mark.parametrize("name", FORMULAS)
def test_synflow(name: str) -> None:
    weights, grads = ones_gradients(name)
    counted = QKV + LOCAL + PROJ + MLP + ENDS
    model = small_model(FORMULAS[name])
    assert synflow(model, SHAPE)["synflow"] == close(saliency(counted, weights, grads))
    assert synflow(model, SHAPE, signed=True)["synflow"] == close(saliency(counted, weights, grads, signed=True))


@pytest.mark.parametrize("name", FORMULAS)
def test_snip_is_the_change_of_the_loss_as_connections_are_masked(name: str) -> None:
    model = small_model(FORMULAS[name])
    images, labels = small_batch()
    weights = {key: value.detach() for key, value in state64(model).items()}
    masks = {key: torch.ones_like(weights[key]).requires_grad_() for key in QKV + LOCAL + PROJ + MLP + ENDS}
    masked = weights | {key: weights[key] * mask for key, mask in masks.items()}
    plain_loss(masked, images, labels, HEADS[name]).backward()
    expected = sum(mask.grad.abs().sum().item() for mask in masks.values())
    assert snip(model, images, labels)["snip"] == close(expected)


@pytest.mark.parametrize("threshold", [0.0, 0.25])
@pytest.mark.parametrize("name", FORMULAS)
def test_naswot_counts_the_units_that_agree(name: str, threshold: float) -> None:
    model = small_model(FORMULAS[name])
    images, _ = small_batch()
    weights = state64(model)
    codes = []
    for image in images:
        seen: list[torch.Tensor] = []
        plain_logits(weights, image, HEADS[name], seen)
        codes.append([number > threshold for hidden in seen for number in hidden.flatten().tolist()])
    agree = [[sum(x == y for x, y in zip(a, b, strict=True)) for b in codes] for a in codes]
    eigenvalues = np.linalg.eigvalsh(np.array(agree, dtype=float))
    assert (eigenvalues > 0).all()
    assert naswot(model, images, threshold=threshold)["naswot"] == close(sum(map(math.log, eigenvalues)))
