"""Size and cost as proxies: what any other score has to beat."""

from __future__ import annotations

import torch
from torch import nn

from attnbench.nn.cost import count_macs, count_params


def params(
    model: nn.Module, image_shape: tuple[int, int, int], *, dtype: torch.dtype = torch.float64
) -> dict[str, float]:
    """Parameters of the model; larger is better. Depends on neither images nor dtype. Source: `count_params`."""
    return {"params": float(count_params(model))}


def macs(
    model: nn.Module, image_shape: tuple[int, int, int], *, dtype: torch.dtype = torch.float64
) -> dict[str, float]:
    """Multiply-adds of one image; larger is better. Does not depend on dtype. Source: `count_macs`."""
    return {"macs": float(count_macs(model, image_shape))}
