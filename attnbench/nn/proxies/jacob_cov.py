"""jacob_cov: how differently the untrained network's output reacts to each image."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnbench.nn.proxies.layers import layers_by_role
from attnbench.nn.proxies.passes import gradients, in_chunks, require_several, standalone

K = 1e-5


def jacob_cov(model: nn.Module, images: Tensor, *, dtype: torch.dtype = torch.float64) -> dict[str, float]:
    """-Σ (log(σ + 1e-5) + 1 / (σ + 1e-5)) over the eigenvalues σ of the correlations between Jacobians.

    Larger, nearer to 0, is better: no two images alike. The Jacobian of an image is that of its summed logits by its
    pixels; NaN where one is constant, as of an output that does not see its image.
    images: one batch (n, channels, rows, cols).
    Raises: ValueError (fewer than two images; see `layers_by_role`).
    Source: Mellor et al. 2020, "Neural architecture search without training", first version; Abdelfattah et al. 2021.
    """
    require_several(images, "jacob_cov")
    net = standalone(model, dtype)
    layers_by_role(net)
    like = next(net.parameters())
    rows = []
    for chunk in in_chunks(len(images), images[0]):
        pixels = images[chunk].to(like).requires_grad_()
        rows.append(gradients(net(pixels).sum(), [pixels])[0].flatten(1))
    correlations = torch.corrcoef(torch.cat(rows).double())
    if not correlations.isfinite().all():
        return {"jacob_cov": float("nan")}
    shifted = torch.linalg.eigvalsh(correlations) + K
    return {"jacob_cov": -(shifted.log() + 1 / shifted).sum().item()}
