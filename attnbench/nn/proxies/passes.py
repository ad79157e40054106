"""What the proxies share: a copy to score, its linearised form, gradients of its weights, saliency."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parameter import is_lazy

from attnbench.nn.proxies.layers import layers_by_role

# Pixels, of all channels, that go through a network at once: memory for 8 images of 224 x 224 will do.
PIXELS_AT_ONCE = 8 * 3 * 224 * 224


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


def weights_of(model: nn.Module) -> list[nn.Parameter]:
    """The weights of every linear and convolution layer. Raises: ValueError (see `layers_by_role`)."""
    return [layer.weight for layers in layers_by_role(model).values() for layer in layers]


def in_chunks(n: int, image: Tensor) -> list[slice]:
    """`n` images like this one, cut to as many at once as memory should hold."""
    size = max(1, PIXELS_AT_ONCE // image.numel())
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def require_several(images: Tensor, proxy: str) -> None:
    """Raises: ValueError for fewer than two images, for a proxy that compares them."""
    if len(images) < 2:
        raise ValueError(f"{proxy} compares images: expected two or more, got {len(images)}.")


def cross_entropy(model: nn.Module, images: Tensor, labels: Tensor, temperature: float = 1.0) -> Tensor:
    """The sum over images (n, channels, rows, cols) of the cross-entropy of their logits over `temperature`."""
    like = next(model.parameters())
    logits = model(images.to(like)) / temperature
    return functional.cross_entropy(logits, labels.to(like.device), reduction="sum")


def loss_gradients(
    model: nn.Module, weights: Sequence[Tensor], images: Tensor, labels: Tensor, temperature: float = 1.0
) -> list[Tensor]:
    """The gradient of a batch's mean cross-entropy by each weight; see `cross_entropy`."""
    total = [torch.zeros_like(weight) for weight in weights]
    for chunk in in_chunks(len(images), images[0]):
        loss = cross_entropy(model, images[chunk], labels[chunk], temperature) / len(images)
        for sum_, grad in zip(total, gradients(loss, weights), strict=True):
            sum_ += grad
    return total


def gradients(loss: Tensor, weights: Sequence[Tensor], *, again: bool = False) -> tuple[Tensor, ...]:
    """The gradient of a loss by each weight; zeros for a weight that it does not depend on.

    again: the gradients shall be differentiated themselves.
    """
    return torch.autograd.grad(loss, weights, create_graph=again, allow_unused=True, materialize_grads=True)


def saliency(grads: Sequence[Tensor], weights: Sequence[Tensor], *, signed: bool = False) -> float:
    """The sum of |g ∘ w| over all entries; of g ∘ w where signed."""
    products = [grad * weight.detach() for grad, weight in zip(grads, weights, strict=True)]
    return sum((product if signed else product.abs()).sum().item() for product in products)
