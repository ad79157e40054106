"""GraSP: what a step along the gradient does to the gradient, through each connection."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnbench.nn.proxies.passes import cross_entropy, gradients, in_chunks, loss_gradients, standalone, weights_of


def grasp(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    temperature: float = 200.0,
    last_split_of: int = 1,
    dtype: torch.dtype = torch.float64,
) -> dict[str, float]:
    """-Σ w ∘ Hg over the weights w of every linear and convolution layer; larger is better.

    g and H are gradient and Hessian of the mean cross-entropy of one batch, of as many images of each class as it
    can have, with logits divided by `temperature`. The minus sign is the paper's, whose connections with a low value
    are those to keep; Abdelfattah et al. sum it as it is, and so do we. The paper takes ten images of each class, in
    two halves, and weights drawn by a normal distribution; here all images count at once, and weights are the model's.
    last_split_of: the batch is cut into so many parts in its order, H is the sum of theirs and g that of the last one
    alone. TF-TAS is temperature=1 with last_split_of=10.
    Raises: ValueError (see `layers_by_role`; more parts than images).
    Source: Wang et al. 2020, "Picking winning tickets before training by preserving gradient flow", eq. 8; summed as
    in Abdelfattah et al. 2021.
    """
    if not 1 <= last_split_of <= len(images):
        raise ValueError(f"{len(images)} images do not split into {last_split_of} parts; pass 1 up to {len(images)}.")
    net = standalone(model, dtype)
    weights = weights_of(net)
    total = 0.0
    with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
        parts = list(zip(images.tensor_split(last_split_of), labels.tensor_split(last_split_of), strict=True))
        first = loss_gradients(net, weights, *parts[-1], temperature)
        for part, part_labels in parts:
            for chunk in in_chunks(len(part), part[0]):
                loss = cross_entropy(net, part[chunk], part_labels[chunk], temperature) / len(part)
                second = gradients(loss, weights, again=True)
                product = sum((a * b).sum() for a, b in zip(first, second, strict=True))
                through = gradients(product, weights)
                total -= sum((h * w.detach()).sum().item() for h, w in zip(through, weights, strict=True))
    return {"grasp": total}
