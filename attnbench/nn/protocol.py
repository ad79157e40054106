"""Protocols: frozen training recipes, and the hash that says which of them a row was measured with."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from attnbench.nn.recipes import Recipe


@dataclass(frozen=True)
class Protocol:
    """One recipe. Sizes are images; fractions are of all steps; percentages are top-1 accuracies."""

    name: str
    dataset: str
    n_train_per_class: int
    n_val_per_class: int
    pixel_mean: float
    pixel_std: float
    flip_probability: float
    epochs: int
    batch_size: int
    learning_rate: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    warmup_fraction: float
    clip_norm: float
    floor_epoch: int
    floor_top1_percent: float
    precision: str = "fp32"


@dataclass(frozen=True)
class SupernetProtocol(Protocol):
    """A recipe for a supernet: each step trains one subnet. The floor does not apply.

    sharing: a name of `nn.supernet.SHARINGS`. sampling: what the draw of the subnet is uniform over, "coordinates" as
    AutoFormer's released code or "subnets"; see `space.subnet_sample.sample`.
    """

    sharing: str = "entangled"
    sampling: Literal["coordinates", "subnets"] = "coordinates"


_FMNIST_MICRO = Protocol(
    name="fmnist-micro",
    dataset="fashion-mnist",
    n_train_per_class=1000,
    n_val_per_class=500,
    pixel_mean=0.2860,
    pixel_std=0.3530,
    flip_probability=0.5,
    epochs=5,
    batch_size=50,
    learning_rate=3e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.05,
    warmup_fraction=0.1,
    clip_norm=1.0,
    floor_epoch=2,
    floor_top1_percent=15.0,
)


# The recipes of the micro subnets keep the data, the batch and the optimiser. A supernet has six times the steps of a
# run from scratch, whatever its sharing, as in AutoFormer's comparison.
_SUPERNET = {field.name: getattr(_FMNIST_MICRO, field.name) for field in fields(Protocol)} | {
    "epochs": 30,
    "floor_epoch": 0,
    "floor_top1_percent": 0.0,
}

PROTOCOLS: dict[str, Protocol] = {
    recipe.name: recipe
    for recipe in (
        _FMNIST_MICRO,
        replace(_FMNIST_MICRO, name="micro-scratch"),
        SupernetProtocol(**_SUPERNET | {"name": "micro-entangled", "sharing": "entangled"}),
        SupernetProtocol(**_SUPERNET | {"name": "micro-classical", "sharing": "classical"}),
    )
}


def protocol(name: str) -> Protocol:
    """A micro protocol by its name. Raises: ValueError (the message lists the known names)."""
    if name not in PROTOCOLS:
        from attnbench.nn.recipes import RECIPES

        if name in RECIPES:
            raise ValueError(f"{name} is for full backbones; micro ones have {', '.join(PROTOCOLS)}.")
        raise ValueError(
            f"unknown protocol {name!r}; known: {', '.join(PROTOCOLS)}, and for full backbones {', '.join(RECIPES)}."
        )
    return PROTOCOLS[name]


def protocol_hash(recipe: Protocol | Recipe, backbone: str, config: Any, operator_semantics: int) -> str:
    """16 hex digits over everything that decides what a run measures: recipe, backbone with frame, operators.

    `config` is the backbone's frozen config; `operator_semantics` the version of what the operators mean.
    """
    identity = {
        "recipe": asdict(recipe),
        "backbone": backbone,
        "kind": type(config).__name__,
        "config": asdict(config),
        "operator_semantics": operator_semantics,
    }
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=8).hexdigest()
