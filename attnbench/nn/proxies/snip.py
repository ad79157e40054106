"""SNIP: how much the loss depends on each connection."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnbench.nn.proxies.passes import loss_gradients, saliency, standalone, weights_of


def snip(model: nn.Module, images: Tensor, labels: Tensor, *, dtype: torch.dtype = torch.float64) -> dict[str, float]:
    """Σ |∂L/∂w ∘ w| over the weights of every linear and convolution layer; larger is better.

    L is the mean cross-entropy of one batch: images (n, channels, rows, cols) and labels (n,). The paper divides each
    connection's saliency by the network's sum, which leaves every network with 1: as a score it stays undivided. The
    weights are the model's own; the paper draws them by variance scaling.
    Raises: ValueError (see `layers_by_role`).
    Source: Lee et al. 2019, "SNIP: single-shot network pruning"; summed as in Abdelfattah et al. 2021.
    """
    net = standalone(model, dtype)
    weights = weights_of(net)
    return {"snip": saliency(loss_gradients(net, weights, images, labels), weights)}
