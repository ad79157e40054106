"""SynFlow: what flows through the network from input to output, without data."""

from __future__ import annotations

import torch
from torch import nn

from attnbench.nn.proxies.passes import gradients, linearise, ones_output, saliency, standalone, weights_of


def synflow(
    model: nn.Module, image_shape: tuple[int, int, int], *, signed: bool = False, dtype: torch.dtype = torch.float64
) -> dict[str, float]:
    """Σ |∂R/∂w ∘ w| over the weights of every linear and convolution layer; larger is better.

    R is the sum of the outputs for an image of ones, with all weights replaced by their absolute values. signed: as
    the paper writes it, without the absolute value. On its networks the two agree; normalisations make them differ.
    Raises: ValueError (see `layers_by_role`).
    Source: Tanaka et al. 2020, "Pruning neural networks without any data by iteratively conserving synaptic flow";
    summed as in Abdelfattah et al. 2021.
    """
    net = standalone(model, dtype)
    linearise(net)
    weights = weights_of(net)
    return {"synflow": saliency(gradients(ones_output(net, image_shape), weights), weights, signed=signed)}
