"""The neural tangent kernel of a batch: inner products of single images' gradients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnbench.nn.proxies.layers import layers_by_role
from attnbench.nn.proxies.passes import gradients, in_chunks

# (network, layers, images) to one tensor a layer, (n, its weight's numbers).
PerSample = Callable[[nn.Module, Sequence[nn.Module], Tensor], list[Tensor]]


def by_layer(net: nn.Module, layers: Sequence[nn.Module], images: Tensor) -> list[Tensor]:
    """The gradient of every image's summed logits by every layer's weight, from one pass of all of them.

    A linear layer's is the product of what comes in and the gradient of what goes out, image by image; a
    convolution's is that of its patches. Layers that the network does not call with images in front (it may take
    their weight alone) are left to `by_func`.
    Source: Goodfellow 2015, "Efficient per-example gradient computations"; for convolutions Rochette et al. 2019.
    """
    calls: list[tuple[nn.Module, Tensor, Tensor]] = []
    handles = [
        layer.register_forward_hook(lambda layer, inputs, output: calls.append((layer, inputs[0].detach(), output)))
        for layer in layers
    ]
    try:
        total = net(images).sum()
    finally:
        for handle in handles:
            handle.remove()
    found: dict[nn.Module, list[Tensor]] = defaultdict(list)
    for (layer, value, _), output_grad in zip(calls, gradients(total, [out for *_, out in calls]), strict=True):
        if len(value) % len(images) == 0:
            found[layer].append(by_image(layer, value, output_grad, len(images)))
    n_calls = {layer: sum(called is layer for called, *_ in calls) for layer in layers}
    rest = [layer for layer in layers if not found[layer] or len(found[layer]) < n_calls[layer]]
    others = dict(zip(rest, by_func(net, rest, images) if rest else [], strict=True))
    return [others[layer] if layer in others else torch.stack(found[layer]).sum(0) for layer in layers]


def by_image(layer: nn.Module, value: Tensor, output_grad: Tensor, n: int) -> Tensor:
    """The weight's gradient by each of `n` images (n, its numbers), from one call's input and output's gradient."""
    if isinstance(layer, nn.Linear):
        whole = output_grad.reshape(n, -1, layer.out_features).mT @ value.reshape(n, -1, layer.in_features)
        return whole.flatten(1)
    patches = functional.unfold(value, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
    groups = layer.groups
    by_row = output_grad.flatten(2).unflatten(1, (groups, -1)) @ patches.unflatten(1, (groups, -1)).mT
    return by_row.unflatten(0, (n, -1)).sum(1).flatten(1)


def by_func(net: nn.Module, layers: Sequence[nn.Module], images: Tensor) -> list[Tensor]:
    """The same by torch.func, whatever the layers are and however they are used. The network has run before."""
    names = {parameter: name for name, parameter in net.named_parameters()}
    weights = {names[layer.weight]: layer.weight.detach() for layer in layers}

    def output(weights: dict[str, Tensor], image: Tensor) -> Tensor:
        return functional_call(net, weights, (image[None],)).sum()

    with sdpa_kernel(SDPBackend.MATH):  # fused attention has no rule for vmap
        return [found.flatten(1) for found in vmap(grad(output), (None, 0))(weights, images).values()]


def by_loop(net: nn.Module, layers: Sequence[nn.Module], images: Tensor) -> list[Tensor]:
    """The same by one backward pass for each image: what the others are tested and timed against."""
    weights = [layer.weight for layer in layers]
    rows = [gradients(net(image[None]).sum(), weights) for image in images]
    return [torch.stack(found).flatten(1) for found in zip(*rows, strict=True)]


def ntk(net: nn.Module, images: Tensor, per_sample: PerSample = by_layer) -> Tensor:
    """K[i, j] = <∂f(i)/∂w, ∂f(j)/∂w>, (n, n) in float64, with f an image's summed logits.

    w are the weights of every linear and convolution layer, which need gradients. All gradients of single images are
    held at once, in the network's dtype: n times its size.
    Raises: ValueError (see `layers_by_role`).
    """
    layers = [layer for group in layers_by_role(net).values() for layer in group]
    chunks = [per_sample(net, layers, images[chunk]) for chunk in in_chunks(len(images), images[0])]
    kernel = torch.zeros(len(images), len(images), dtype=torch.float64, device=images.device)
    for parts in zip(*chunks, strict=True):
        rows = torch.cat(parts).detach().double()
        kernel += rows @ rows.T
    return kernel
