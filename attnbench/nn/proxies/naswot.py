"""NASWOT: how well the untrained network's activation patterns tell the images of a batch apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnbench.nn.proxies.layers import activations
from attnbench.nn.proxies.passes import standalone


@torch.no_grad()
def naswot(model: nn.Module, images: Tensor, *, threshold: float = 0.0) -> dict[str, float]:
    """log |det K| with K[i, j] the number of units that are both on, or both off, for images i and j.

    Larger is better; -inf where two images have one pattern. images: one batch (n, channels, rows, cols).
    The paper's units are ReLUs, on above 0. Here they are the MLPs' activations, every token's: GELU bends without a
    threshold, and a unit counts as on above `threshold`. Activations inside an attention graph do not count, so that
    every graph has the same units.
    Source: Mellor et al. 2021, "Neural architecture search without training".
    """
    net = standalone(model)
    codes: list[Tensor] = []
    for activation in activations(net):
        activation.register_forward_pre_hook(lambda _, inputs: codes.append(inputs[0].flatten(1)))
    net(images.to(next(net.parameters())))
    before = torch.cat(codes, 1) if codes else torch.zeros(len(images), 0, dtype=torch.float64)
    if not before.isfinite().all():
        return {"naswot": float("nan")}
    on = (before > threshold).to(torch.float64)
    kernel = on @ on.T + (1 - on) @ (1 - on).T
    return {"naswot": torch.linalg.slogdet(kernel).logabsdet.item()}
