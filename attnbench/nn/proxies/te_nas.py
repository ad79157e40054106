"""TE-NAS: trainability by the neural tangent kernel's condition, expressivity by the number of linear regions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnbench.nn.proxies.layers import activations
from attnbench.nn.proxies.ntk import ntk
from attnbench.nn.proxies.passes import in_chunks, require_several, standalone


def te_nas(
    model: nn.Module, images: Tensor, *, threshold: float = 0.0, dtype: torch.dtype = torch.float64
) -> dict[str, float]:
    """The two terms of TE-NAS, whose ranks it adds; that is left to analysis.

    images: one batch (n, channels, rows, cols).
    te_nas.ntk_cond: largest over smallest eigenvalue of `ntk`; lower is better. Infinite where the smallest is 0 up to
    rounding. te_nas.regions: how many different activation patterns the images have; higher is better. As in
    `naswot`, the units are the MLPs' activations, every token's, on above `threshold`. The paper counts on tiny images
    and networks of one channel; at full size every image has a pattern of its own unless the network is degenerate,
    and the number is n.
    The paper draws weights anew by Kaiming's rule, three times; here they are the model's own.
    Raises: ValueError (fewer than two images; see `layers_by_role` and `activations`).
    Source: Chen et al. 2021, "Neural architecture search on ImageNet in four GPU hours".
    """
    require_several(images, "te_nas")
    net = standalone(model, dtype)
    images = images.to(next(net.parameters()))
    return {
        "te_nas.ntk_cond": condition_number(ntk(net, images)),
        "te_nas.regions": n_regions(net, images, threshold),
    }


def condition_number(kernel: Tensor) -> float:
    """The largest eigenvalue over the smallest; infinite where that is 0 up to rounding, NaN if an entry is not finite.

    kernel: symmetric, (n, n), float64.
    """
    if not kernel.isfinite().all():
        return float("nan")
    eigenvalues = torch.linalg.eigvalsh(kernel)
    smallest, largest = eigenvalues[0].item(), eigenvalues[-1].item()
    rounding = len(kernel) * torch.finfo(kernel.dtype).eps * largest
    return largest / smallest if smallest > rounding else float("inf")


@torch.no_grad()
def n_regions(net: nn.Module, images: Tensor, threshold: float = 0.0) -> float:
    """How many patterns of activations on and off the images have; NaN where an activation is not finite."""
    codes: list[Tensor] = []
    handles = [unit.register_forward_pre_hook(lambda _, inputs: codes.append(inputs[0])) for unit in activations(net)]
    patterns: set[bytes] = set()
    finite = True
    for chunk in in_chunks(len(images), images[0]):
        codes.clear()
        net(images[chunk])
        n = chunk.stop - chunk.start
        values = torch.cat([code.unflatten(0, (n, -1)).flatten(1) for code in codes], 1)
        finite &= bool(values.isfinite().all())
        patterns |= {row.tobytes() for row in (values > threshold).cpu().numpy()}
    for handle in handles:
        handle.remove()
    return float(len(patterns)) if finite else float("nan")
