"""grad_norm: how long the gradients are."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnbench.nn.proxies.passes import loss_gradients, standalone, weights_of


def grad_norm(
    model: nn.Module, images: Tensor, labels: Tensor, *, dtype: torch.dtype = torch.float64
) -> dict[str, float]:
    """Σ ‖∂L/∂W‖₂ over the weights of every linear and convolution layer; larger is better.

    L is the mean cross-entropy of one batch: images (n, channels, rows, cols) and labels (n,).
    Raises: ValueError (see `layers_by_role`).
    Source: Abdelfattah et al. 2021, "Zero-cost proxies for lightweight NAS".
    """
    net = standalone(model, dtype)
    return {"grad_norm": sum(grad.norm().item() for grad in loss_gradients(net, weights_of(net), images, labels))}
