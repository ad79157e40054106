"""A vision transformer written out in float64, image by image and head by head, to check the proxies against."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from attnbench.nn.backbones import ViTConfig, seeded
from attnbench.nn.operators import compile_graph
from attnbench.space.parse import parse

SMALL = ViTConfig(image_size=(6, 9), patch_size=(3, 3), width=8, n_heads=2, depth=2, mlp_ratio=2.0)
SHAPE = (1, 6, 9)
GRID = (2, 3)
# Every weight of a linear or convolution layer, one name a layer.
WEIGHTS = [
    "patch_embed.proj.weight",
    *(
        f"blocks.{block}.{layer}.weight"
        for block in range(SMALL.depth)
        for layer in ("attn.qkv", "attn.local", "attn.proj", "mlp.fc1", "mlp.fc2")
    ),
    "head.weight",
]

FORMULAS = {
    "softmax": "softmax(q @ k.T / sqrt(d)) @ v",
    "l2norm": "q * l2norm(l2norm(q) @ softmax(elu1(k).T @ v))",
    "v": "v",
}
HEADS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "softmax": lambda q, k, v: rows_softmax(q @ k.T / math.sqrt(q.shape[1])) @ v,
    "l2norm": lambda q, k, v: q * rows_l2norm(rows_l2norm(q) @ rows_softmax(elu1(k).T @ v)),
    "v": lambda q, k, v: v,
}


def rows_softmax(x: Tensor) -> Tensor:
    powers = torch.stack([torch.stack([number.exp() for number in row]) for row in x])
    return powers / powers.sum(1, keepdim=True)


def rows_l2norm(x: Tensor) -> Tensor:
    return torch.stack([row / (row.dot(row) + 1e-12) ** 0.5 for row in x])


def elu1(x: Tensor) -> Tensor:
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def small_model(formula: str, seed: int = 0):
    """The small transformer around a graph, with weights large enough for every part of it to matter."""
    model = seeded(seed, lambda: SMALL.build(compile_graph(parse(formula))))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def small_batch(n: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, *SHAPE, generator=generator), torch.arange(n) % 10


def state64(model, absolute: bool = False) -> dict[str, Tensor]:
    """The model's weights as float64 leaves, of their absolute values where asked."""
    values = {name: value.double().clone() for name, value in model.state_dict().items()}
    return {name: (value.abs() if absolute else value).requires_grad_() for name, value in values.items()}


def plain_logits(
    w: Mapping[str, Tensor], image: Tensor, head: Callable[[Tensor, Tensor, Tensor], Tensor], seen: list[Tensor]
) -> Tensor:
    """Logits of one image (1, rows, cols); what enters each GELU is appended to `seen`."""
    x = embed(w, image)
    for block in range(SMALL.depth):
        x = after_mlp(w, block, after_attention(w, block, x, head), seen)
    return (norm(w, "fc_norm.", x[:1]) @ w["head.weight"].T + w["head.bias"])[0]


def embed(w: Mapping[str, Tensor], image: Tensor) -> Tensor:
    """Class token and patches with their positions (N, width)."""
    rows, cols = GRID
    height, width = SMALL.patch_size
    tokens = [w["cls_token"][0, 0]]
    for r in range(rows):
        for c in range(cols):
            patch = image[0, r * height : (r + 1) * height, c * width : (c + 1) * width].double()
            filters = w["patch_embed.proj.weight"]
            values = [(filters[o, 0] * patch).sum() + w["patch_embed.proj.bias"][o] for o in range(SMALL.width)]
            tokens.append(torch.stack(values))
    return torch.stack(tokens) + w["pos_embed"][0]


def after_attention(w: Mapping[str, Tensor], block: int, x: Tensor, head) -> Tensor:
    at = f"blocks.{block}."
    return x + attention(w, at + "attn.", norm(w, at + "norm1.", x), head, *GRID)


def after_mlp(w: Mapping[str, Tensor], block: int, x: Tensor, seen: list[Tensor]) -> Tensor:
    at = f"blocks.{block}."
    hidden = norm(w, at + "norm2.", x) @ w[at + "mlp.fc1.weight"].T + w[at + "mlp.fc1.bias"]
    seen.append(hidden)
    gelu = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
    return x + gelu @ w[at + "mlp.fc2.weight"].T + w[at + "mlp.fc2.bias"]


def plain_loss(w: Mapping[str, Tensor], images: Tensor, labels: Tensor, head, temperature: float = 1.0) -> Tensor:
    """The mean cross-entropy of a batch."""
    losses = []
    for image, label in zip(images, labels.tolist(), strict=True):
        logits = plain_logits(w, image, head, []) / temperature
        losses.append(logits.exp().sum().log() - logits[label])
    return sum(losses) / len(losses)


def norm(w: Mapping[str, Tensor], at: str, x: Tensor) -> Tensor:
    mean = x.mean(1, keepdim=True)
    variance = ((x - mean) ** 2).mean(1, keepdim=True)
    return (x - mean) / (variance + 1e-6).sqrt() * w[at + "weight"] + w[at + "bias"]


def attention(w, at: str, x: Tensor, head, rows: int, cols: int) -> Tensor:
    """AttnZero's frame: each head by itself, and the depthwise convolution as a sum over neighbours."""
    big = x @ w[at + "qkv.weight"].T + w[at + "qkv.bias"]
    q, k, v = big[:, : SMALL.width], big[:, SMALL.width : 2 * SMALL.width], big[:, 2 * SMALL.width :]
    size = SMALL.width // SMALL.n_heads
    each = [slice(h * size, (h + 1) * size) for h in range(SMALL.n_heads)]
    merged = list(torch.cat([head(q[:, s], k[:, s], v[:, s]) for s in each], 1))
    filters = w[at + "local.weight"]
    for r in range(rows):
        for c in range(cols):
            total = w[at + "local.bias"]
            for dr in (-1, 0, 1):
                for dc in (-1, 0, 1):
                    if 0 <= r + dr < rows and 0 <= c + dc < cols:
                        total = total + filters[:, 0, 1 + dr, 1 + dc] * v[1 + (r + dr) * cols + c + dc]
            merged[1 + r * cols + c] = merged[1 + r * cols + c] + total
    return torch.stack(merged) @ w[at + "proj.weight"].T + w[at + "proj.bias"]


def gradients_of(output: Tensor, w: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """The gradient by every weight of a layer."""
    found = torch.autograd.grad(output, [w[name] for name in WEIGHTS], allow_unused=True, materialize_grads=True)
    return {name: grad.numpy() for name, grad in zip(WEIGHTS, found, strict=True)}
