"""The weighted layers of a vision transformer by their role, told by where they stand, never by their size."""

from __future__ import annotations

from dataclasses import dataclass

from timm.layers import PatchEmbed
from timm.models import pit, pvt_v2, twins
from timm.models.swin_transformer import PatchMerging
from torch import Tensor, nn

from attnbench.nn.cswin import ConvEmbed
from attnbench.nn.subnet import Patches, Pool

ROLES = ("patch", "qkv", "local", "proj", "mlp", "head")

# How modules call the layers that make q, k and v, in the order in which their rows do.
PROJECTIONS = (("qkv",), ("q", "k", "v"), ("q", "kv"), ("q_proj", "k_proj", "v_proj"))
MLPS = (("fc1", "fc2"), ("fc1_g", "fc1_x", "fc2"))
PATCHES: dict[type[nn.Module], tuple[str, ...]] = {
    PatchEmbed: ("proj",),
    ConvEmbed: ("proj",),
    Patches: ("proj",),
    pvt_v2.OverlapPatchEmbed: ("proj",),
    twins.PatchEmbed: ("proj",),
    pit.ConvEmbedding: ("conv",),
    PatchMerging: ("reduction",),
    Pool: ("conv", "fc"),
    pit.Pooling: ("conv", "fc"),
}


@dataclass(frozen=True)
class Projections:
    """The weighted layers of one attention: those that make q, k and v, fused or not, and the output's."""

    inputs: tuple[nn.Module, ...]
    proj: nn.Module
    n_heads: int

    def split(self, weights: list[Tensor]) -> list[Tensor]:
        """Matrices shaped as the inputs' weights, one for each layer, to one for each of q, k and v."""
        pieces = {1: (3,), 2: (1, 2), 3: (1, 1, 1)}[len(self.inputs)]
        return [part for weight, n in zip(weights, pieces, strict=True) for part in weight.chunk(n)]


def layers_by_role(model: nn.Module) -> dict[str, list[nn.Module]]:
    """Every linear and convolution layer of a vision transformer under its role, in the model's order.

    patch: patch embedding, and what merges patches between stages; qkv, proj: the attentions' projections; mlp: the
    linear layers of MLPs; local: convolutions inside attentions and MLPs, and those that tell positions; head:
    classifier. It knows every backbone and subnet here, and timm's models of such parts.
    Raises: ValueError for a model without attention, or a layer whose role is not known, so that no score leaves a
    layer out unnoticed.
    """
    role = dict.fromkeys(classifiers(model), "head")
    for attention in projections(model):
        role |= dict.fromkeys(attention.inputs, "qkv") | {attention.proj: "proj"}
    for module in model.modules():
        mlp = mlp_layers(module)
        role |= dict.fromkeys(mlp, "mlp")
        if mlp or input_layers(module) or isinstance(module, twins.PosConv):
            role |= {layer: "local" for layer in module.modules() if is_convolution(layer) and layer not in role}
        for kind, names in PATCHES.items():
            if isinstance(module, kind):
                role |= {getattr(module, name): "patch" for name in names}
    layers: dict[str, list[nn.Module]] = {name: [] for name in ROLES}
    for name, module in model.named_modules():
        if is_weighted(module):
            if module not in role:
                raise ValueError(
                    f"layer {name!r} of {type(model).__name__} has no role among {', '.join(ROLES)}; layers are "
                    "expected in attentions (qkv, or q, k, v, or q, kv; and proj), in MLPs (fc1, fc2), in the patch "
                    "embeddings and poolings of this package and of timm, and as the classifier."
                )
            layers[role[module]].append(module)
    return layers


def projections(model: nn.Module) -> list[Projections]:
    """Every attention of a model, in its order. Raises: ValueError where there is none."""
    found = [
        Projections(inputs, module.proj, getattr(module, "n_heads", None) or module.num_heads)  # type: ignore[arg-type]
        for module in model.modules()
        if (inputs := input_layers(module))
    ]
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no attention layers, modules with a linear proj and with qkv, or q, k, v, or "
            "q, kv; pass a vision transformer."
        )
    return found


def input_layers(module: nn.Module) -> tuple[nn.Module, ...]:
    """The layers that make q, k and v where a module is an attention; none where it is not."""
    if isinstance(getattr(module, "proj", None), nn.Linear):
        for names in PROJECTIONS:
            layers = tuple(getattr(module, name, None) for name in names)
            if all(isinstance(layer, nn.Linear) for layer in layers):
                return layers  # type: ignore[return-value]
    return ()


def mlp_layers(module: nn.Module) -> tuple[nn.Module, ...]:
    """The linear layers where a module is an MLP; none where it is not."""
    if isinstance(getattr(module, "act", None), nn.Module):
        for names in MLPS:
            layers = tuple(getattr(module, name, None) for name in names)
            if all(is_weighted(layer) for layer in layers):
                return layers  # type: ignore[return-value]
    return ()


def activations(model: nn.Module) -> list[nn.Module]:
    """The activation of every MLP, in the model's order. Raises: ValueError where there is none."""
    found = [module.act for module in model.modules() if mlp_layers(module)]
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no MLP, a module with fc1, act and fc2; pass a vision transformer."
        )
    return found  # type: ignore[return-value]


def classifiers(model: nn.Module) -> list[nn.Module]:
    """The last layers, of a distilled model two; none where the model was built without classes."""
    if not hasattr(model, "get_classifier"):
        raise ValueError(
            f"{type(model).__name__} does not say which layer classifies; give it get_classifier(), as timm's models "
            "have it."
        )
    heads = model.get_classifier()
    return [head for head in (heads if isinstance(heads, tuple) else (heads,)) if is_weighted(head)]


def is_weighted(module: object) -> bool:
    return isinstance(module, nn.Linear) or is_convolution(module)


def is_convolution(module: object) -> bool:
    return isinstance(module, nn.modules.conv._ConvNd)
