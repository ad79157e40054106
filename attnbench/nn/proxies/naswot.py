"""NASWOT: how well the untrained network's activation patterns tell the images of a batch apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnbench.nn.proxies.layers import activations
from attnbench.nn.proxies.passes import standalone


@torch.no_grad()
def naswot(
    model: nn.Module, images: Tensor, *, threshold: float = 0.0, dtype: torch.dtype = torch.float64
) -> dict[str, float]:
    """log |det K| with K[i, j] the number of units that are both on, or both off, for images i and j.

    Larger is better; -inf where two images have one pattern. images: one batch (n, channels, rows, cols).
    The paper's units are ReLUs, on above 0. Here they are the MLPs' activations, every token's: GELU bends without a
    threshold, and a unit counts as on above `threshold`. Activations inside an attention graph do not count, so that
    every graph has the same units.
    Raises: ValueError for a model without MLPs.
    Source: Mellor et al. 2021, "Neural architecture search without training".
    """
    net = standalone(model, dtype)
    kernel = torch.zeros(len(images), len(images), dtype=torch.float64, device=images.device)

    def count(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        before = inputs[0].unflatten(0, (len(images), -1)).flatten(1)
        on = (before > threshold).to(before.dtype)  # counts are exact, in float32 up to 16 million units
        n_on, both_on = on.sum(1), on @ on.T
        both_off = before.shape[1] - n_on[:, None] - n_on[None, :] + both_on
        agree = both_on + both_off
        kernel.add_(agree if before.isfinite().all() else torch.nan)

    for activation in activations(net):
        activation.register_forward_pre_hook(count)
    net(images.to(next(net.parameters())))
    if not kernel.isfinite().all():
        return {"naswot": float("nan")}
    return {"naswot": torch.linalg.slogdet(kernel).logabsdet.item()}
