"""What the proxies share: a copy to score, its linearised form, gradients of its weights, saliency."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy


def standalone(model: nn.Module, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A copy of a model in evaluation mode, whose parameters are leaves of their own and need gradients.

    The model itself stays as it is: values, gradients, flags. Evaluation mode turns stochastic depth off. In float64
    a score does not depend on the order of sums, and so not on the machine, to some ten digits; float32 takes half
    the time and memory.
    """
    values = chain(model.parameters(), model.buffers())
    # deepcopy refuses what is not there yet: the statistics of a `batchnorm` that has seen no input.
    copy = deepcopy(model, {id(value): type(value)() for value in values if is_lazy(value)}).to(dtype).eval()
    for parameter in copy.parameters():
        parameter.requires_grad_(True)
    return copy


@torch.no_grad()
def linearise(model: nn.Module) -> None:
    """Replace every parameter and buffer by its absolute value.

    This reaches weights, biases, gains of norms, position embedding and class token, as in TF-TAS and zero-cost-nas.
    Nothing is taken out of the forward pass: normalisations, activations and the attention graph act as they are, so
    that the network is linear in its weights only where they are. Source: SynFlow, Tanaka et al. 2020.
    """
    for value in model.state_dict().values():
        if not is_lazy(value) and value.is_floating_point():
            value.abs_()


def ones_output(model: nn.Module, image_shape: tuple[int, int, int]) -> Tensor:
    """The sum of a model's outputs for one image (channels, rows, cols) of ones: the loss that needs no data."""
    like = next(model.parameters())
    return model(torch.ones(1, *image_shape, dtype=like.dtype, device=like.device)).sum()


def gradients(loss: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The gradient of a loss by each weight; zeros for a weight that it does not depend on."""
    return torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)


def saliency(grads: Sequence[Tensor], weights: Sequence[Tensor], *, signed: bool = False) -> float:
    """The sum of |g ∘ w| over all entries; of g ∘ w where signed."""
    products = [grad * weight.detach() for grad, weight in zip(grads, weights, strict=True)]
    return sum((product if signed else product.abs()).sum().item() for product in products)
