"""DSS, the indicator of TF-TAS: diversity of the attentions' weights, saliency of the MLPs'."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Literal

import torch
from torch import Tensor, nn

from attnbench.nn.proxies.layers import input_layers, layers_by_role, projections
from attnbench.nn.proxies.passes import gradients, linearise, ones_output, saliency, standalone

COUNTED = ("qkv", "proj", "mlp")
REPORTED = (*COUNTED, "patch", "head")


def dss(
    model: nn.Module,
    image_shape: tuple[int, int, int],
    *,
    form: Literal["paper", "released"] = "paper",
    qkv: Literal["separate", "fused", "per head"] = "separate",
    signed: bool = False,
    dtype: torch.dtype = torch.float64,
) -> dict[str, float]:
    """Σ ‖∂L/∂W‖_nuc · ‖W‖_nuc over the attentions' weights, plus Σ |∂L/∂W ∘ W| over the MLPs'; larger is better.

    L is the sum of the outputs for an image of ones, with all weights replaced by their absolute values.
    form: "released" is what TF-TAS's released code arrives at: only class token and positions become absolute, all
    other weights keep their signs, and q, k, v, patch embedding and head get no gradient and add 0.
    qkv: the projections of query, key and value count as three matrices (as the paper speaks of them), as one of all
    their rows (as TF-TAS means it), or as three for every head, whether the model holds them as one or apart.
    signed: MLP saliency as the paper's formula writes it, without the absolute value that TF-TAS takes; in front of a
    LayerNorm its terms cancel.
    Returns: the total under "dss", its parts under "dss.qkv", "dss.proj" and "dss.mlp"; beside them, and not in the
    total, the saliency of "dss.patch" and "dss.head". Convolutions inside attentions and MLPs, which the paper does
    not have, count nowhere. A part that no gradient reaches is 0.
    Raises: ValueError (another form; see `layers_by_role`).
    Source: Zhou et al. 2022, "Training-free transformer architecture search"; TF-TAS.
    """
    if form not in ("paper", "released"):
        raise ValueError(f"unknown form {form!r} of dss; known: paper, released.")
    net = standalone(model, dtype)
    if form == "paper":
        linearise(net)
    else:
        linearise_positions(net)
    weights = {role: [layer.weight for layer in layers] for role, layers in layers_by_role(net).items()}
    roles = REPORTED if form == "paper" else ("proj", "mlp")
    found = iter(gradients(ones_output(net, image_shape), list(chain.from_iterable(weights[role] for role in roles))))
    grads = {role: [next(found) for _ in weights[role]] for role in roles}
    parts = dict.fromkeys(REPORTED, 0.0)
    parts["proj"] = diversity(grads["proj"], weights["proj"])
    if "qkv" in roles:
        parts["qkv"] = diversity(*(by_projection(net, values["qkv"], qkv) for values in (grads, weights)))
    for role in set(roles) - {"qkv", "proj"}:
        parts[role] = saliency(grads[role], weights[role], signed=signed)
    return {"dss": sum(parts[role] for role in COUNTED)} | {f"dss.{role}": parts[role] for role in REPORTED}


def by_projection(model: nn.Module, matrices: Sequence[Tensor], qkv: str) -> list[Tensor]:
    """Matrices shaped as the layers that make q, k and v, cut or joined to those that `qkv` says to count."""
    rest = iter(matrices)
    counted: list[Tensor] = []
    for attention in projections(model):
        own = attention.split([next(rest) for _ in attention.inputs])
        if qkv == "fused":
            own = [torch.cat(own)]
        elif qkv == "per head":
            own = [head for matrix in own for head in matrix.chunk(attention.n_heads)]
        counted += own
    return counted


@torch.no_grad()
def linearise_positions(model: nn.Module) -> None:
    """Replace what lies around the attentions, tokens and positions of the image, by its absolute value."""
    for module in model.modules():
        if not input_layers(module) and any(map(input_layers, module.modules())):
            for parameter in module.parameters(recurse=False):
                parameter.abs_()


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
