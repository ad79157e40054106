"""The weighted layers of a backbone by their role, never by class name or size alone."""

from __future__ import annotations

from timm.layers import Mlp, PatchEmbed
from timm.models.swin_transformer import PatchMerging
from torch import nn

from attnbench.nn.attention import FrameAttention
from attnbench.nn.cswin import ConvEmbed

ROLES = ("patch", "qkv", "local", "proj", "mlp", "head")


def layers_by_role(model: nn.Module) -> dict[str, list[nn.Module]]:
    """Every linear and convolution layer of a backbone under its role, in the model's order.

    patch: patch embedding and what merges patches between stages; qkv, local, proj: the attention's projections and
    depthwise convolution; head: classifier.
    Raises: ValueError for a layer whose role is not known, so that no score leaves a layer out unnoticed.
    """
    role: dict[nn.Module, str] = {model.get_classifier(): "head"}
    for module in model.modules():
        if isinstance(module, FrameAttention):
            role |= {module.qkv: "qkv", module.proj: "proj"}
            if module.local is not None:
                role[module.local] = "local"
        elif isinstance(module, Mlp):
            role |= {module.fc1: "mlp", module.fc2: "mlp"}
        elif isinstance(module, (PatchEmbed, ConvEmbed)):
            role[module.proj] = "patch"
        elif isinstance(module, PatchMerging):
            role[module.reduction] = "patch"
    layers: dict[str, list[nn.Module]] = {name: [] for name in ROLES}
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)):
            if module not in role:
                raise ValueError(
                    f"layer {name!r} of {type(model).__name__} has no role among {', '.join(ROLES)}; a backbone's "
                    "layers are expected in FrameAttention, in timm's Mlp, PatchEmbed and PatchMerging, in ConvEmbed, "
                    "and as the classifier."
                )
            layers[role[module]].append(module)
    return layers


def activations(model: nn.Module) -> list[nn.Module]:
    """The activation of every MLP, in the model's order."""
    return [module.act for module in model.modules() if isinstance(module, Mlp)]
