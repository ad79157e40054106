"""DSS, the indicator of TF-TAS: diversity of the attentions' weights, saliency of the MLPs'."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Literal

import torch
from torch import Tensor, nn

from attnbench.nn.attention import FrameAttention
from attnbench.nn.proxies.layers import layers_by_role
from attnbench.nn.proxies.passes import gradients, linearise, ones_output, saliency, standalone

COUNTED = ("qkv", "proj", "mlp")
REPORTED = (*COUNTED, "patch", "head")


def dss(
    model: nn.Module,
    image_shape: tuple[int, int, int],
    *,
    qkv: Literal["separate", "fused", "per head"] = "separate",
    signed: bool = False,
) -> dict[str, float]:
    """Σ ‖∂L/∂W‖_nuc · ‖W‖_nuc over the attentions' weights, plus Σ |∂L/∂W ∘ W| over the MLPs'; larger is better.

    L is the sum of the outputs for an image of ones, with all weights replaced by their absolute values.
    qkv: the projections of query, key and value count as three matrices (as the paper speaks of them), as the one
    that the code holds (as in TF-TAS), or as three for every head. signed: MLP saliency as the paper's formula writes
    it, without the absolute value that TF-TAS takes; in front of a LayerNorm its terms cancel.
    Returns: the total under "dss", its parts under "dss.qkv", "dss.proj" and "dss.mlp"; beside them, and not in the
    total, the saliency of "dss.patch" and "dss.head". The depthwise convolution of AttnZero's frame, which the paper
    does not have, counts nowhere. A part that no gradient reaches is 0.
    Raises: ValueError (see `layers_by_role`).
    Source: Zhou et al. 2022, "Training-free transformer architecture search"; TF-TAS.
    """
    net = standalone(model)
    linearise(net)
    weights = {role: [layer.weight for layer in layers] for role, layers in layers_by_role(net).items()}
    counted = list(chain.from_iterable(weights[role] for role in REPORTED))
    found = iter(gradients(ones_output(net, image_shape), counted))
    grads = {role: [next(found) for _ in weights[role]] for role in REPORTED}
    n_heads = [module.n_heads for module in net.modules() if isinstance(module, FrameAttention)]
    pieces = [{"separate": 3, "fused": 1, "per head": 3 * n}[qkv] for n in n_heads]
    parts = {
        "qkv": diversity(split(grads["qkv"], pieces), split(weights["qkv"], pieces)),
        "proj": diversity(grads["proj"], weights["proj"]),
        **{role: saliency(grads[role], weights[role], signed=signed) for role in ("mlp", "patch", "head")},
    }
    return {"dss": sum(parts[role] for role in COUNTED)} | {f"dss.{role}": parts[role] for role in REPORTED}


def split(matrices: Sequence[Tensor], pieces: Sequence[int]) -> list[Tensor]:
    """Each matrix cut into so many pieces of equal rows."""
    return [piece for matrix, n in zip(matrices, pieces, strict=True) for piece in matrix.chunk(n)]


def diversity(grads: Sequence[Tensor], weights: Sequence[Tensor]) -> float:
    """The sum of ‖g‖_nuc · ‖w‖_nuc over pairs of a gradient and a weight matrix."""
    return sum(g * w for g, w in zip(nuclear_norms(grads), nuclear_norms(weights), strict=True))


@torch.no_grad()
def nuclear_norms(matrices: Sequence[Tensor]) -> list[float]:
    """The sum of each matrix's singular values; NaN for a matrix that is not finite. Equal shapes go together."""
    norms = [float("nan")] * len(matrices)
    by_shape: dict[torch.Size, list[int]] = {}
    for place, matrix in enumerate(matrices):
        if matrix.isfinite().all():  # LAPACK refuses others
            by_shape.setdefault(matrix.shape, []).append(place)
    for places in by_shape.values():
        sums = torch.linalg.svdvals(torch.stack([matrices[place] for place in places])).sum(-1)
        for place, norm in zip(places, sums.tolist(), strict=True):
            norms[place] = norm
    return norms
