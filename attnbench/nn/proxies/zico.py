"""ZiCo: how large gradients are against how much they vary from batch to batch."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from attnbench.nn.proxies.passes import loss_gradients, standalone, weights_of


def zico(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    n_batches: int = 2,
    spread_of: Literal["magnitudes", "gradients"] = "magnitudes",
    single_batch: bool = False,
    dtype: torch.dtype = torch.float64,
) -> dict[str, float]:
    """Σ log Σ mean |g| / std |g|; larger is better. Outer sum: linear and convolution layers; inner: their weights.

    g is the gradient of a batch's mean cross-entropy; mean and standard deviation (of a population) are over
    batches, the `n_batches` equal parts of images (n, channels, rows, cols) and labels (n,) in their order. Weights
    whose gradient is the same in every batch, up to rounding, are left out, and so are layers that have no other.
    spread_of: "gradients" takes the standard deviation of g instead, as the released code does. single_batch: all
    images as one batch, and log Σ |mean g| / (std g + 1e-9), with mean and deviation over the entries of each layer,
    as in AttnZero's copy.
    Raises: ValueError (fewer than two batches, or than one image in each; see `layers_by_role`).
    Source: Li et al. 2023, "ZiCo: zero-shot NAS via inverse coefficient of variation on gradients", eq. 13.
    """
    net = standalone(model, dtype)
    weights = weights_of(net)
    if single_batch:
        grads = [grad.double() for grad in loss_gradients(net, weights, images, labels)]
        return {"zico": log(sum((g.mean().abs() / (g.std() + 1e-9)).item() for g in grads))}
    if not 2 <= n_batches <= len(images):
        raise ValueError(
            f"{len(images)} images in {n_batches} batches have no spread between batches; pass 2 up to {len(images)}, "
            "or single_batch=True for AttnZero's variant."
        )
    batches = zip(images.tensor_split(n_batches), labels.tensor_split(n_batches), strict=True)
    by_batch = [loss_gradients(net, weights, *batch) for batch in batches]
    by_layer = [torch.stack(grads) for grads in zip(*by_batch, strict=True)]
    sums = [inverse_variation(grads, spread_of) for grads in by_layer]
    return {"zico": sum(math.log(found) for found in sums if found != 0)}


def inverse_variation(grads: Tensor, spread_of: str) -> float:
    """The sum over entries of mean over spread, of one layer's gradients (batches, *)."""
    eps = torch.finfo(grads.dtype).eps
    magnitudes = grads.abs().double()
    mean = magnitudes.mean(0)
    std = (magnitudes if spread_of == "magnitudes" else grads.double()).std(0, correction=0)
    varies = ~(std <= 100 * eps * mean)  # NaN counts
    return (mean[varies] / std[varies]).sum().item()


def log(x: float) -> float:
    return math.log(x) if x else -math.inf
