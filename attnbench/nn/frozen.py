"""What is frozen: protocols whose rows are in the table, by backbone. A hash here changes no more."""

from __future__ import annotations

from dataclasses import dataclass

from attnbench.errors import DataError
from attnbench.nn.backbones import backbone_config
from attnbench.nn.frozen_full import FROZEN_FULL
from attnbench.nn.full import FULL
from attnbench.nn.operators import SEMANTICS_VERSION
from attnbench.nn.protocol import PROTOCOLS, Protocol, protocol, protocol_hash
from attnbench.nn.recipes import RECIPES, Recipe, full_recipe
from attnbench.nn.subnet import NETWORKS_VERSION
from attnbench.space.subnet_cost import Frame
from attnbench.space.subnet_named import SPACES
from attnbench.space.subnet_spaces import SubnetSpace

FROZEN: dict[str, dict[str, str]] = {
    "fmnist-micro": {
        "deit": "a4bf19616669c6cf",
        "pvt": "baacf7a305524f6d",
        "swin": "bf0289f0c966a15a",
        "cswin": "30163f84d9ec5a65",
    },
    "micro-scratch": {"autoformer-micro": "d9f33553f1fb1353"},
    "micro-entangled": {"autoformer-micro": "818c4f2d3c530c12"},
    "micro-classical": {"autoformer-micro": "652d07f4219c300b"},
    **FROZEN_FULL,
}


def run_hash(protocol_name: str, backbone: str) -> str:
    """The hash that rows of this protocol and backbone carry.

    Raises: ValueError (unknown names, a protocol that is not for this size of backbone), DataError where the code no
    longer does what the frozen hash stands for.
    """
    recipe: Protocol | Recipe
    if protocol_name in RECIPES:
        recipe, config = full_recipe(protocol_name, backbone)
    elif protocol_name in PROTOCOLS and backbone in FULL:
        raise ValueError(
            f"{protocol_name} does not train the full backbone {backbone!r}; those have {', '.join(RECIPES)}."
        )
    elif backbone in SPACES:
        return _unchanged(protocol_name, backbone, space_hash(protocol(protocol_name), SPACES[backbone]))
    else:
        recipe, config = protocol(protocol_name), backbone_config(backbone)
    return _unchanged(protocol_name, backbone, protocol_hash(recipe, backbone, config, SEMANTICS_VERSION))


@dataclass(frozen=True)
class SpaceConfig:
    """What stands in the place of a backbone's config for the subnets of a space."""

    space: SubnetSpace
    frame: Frame


def space_hash(recipe: Protocol, space: SubnetSpace) -> str:
    """The hash of a recipe, frozen or not, for the subnets of a space or for its supernet."""
    return protocol_hash(recipe, space.name, SpaceConfig(space, space.frame), NETWORKS_VERSION)


def _unchanged(protocol_name: str, backbone: str, found: str) -> str:
    frozen = FROZEN.get(protocol_name, {}).get(backbone)
    if frozen is not None and found != frozen:
        raise DataError(
            f"{protocol_name} on {backbone} is frozen as {frozen}, but this code's recipe, backbone and operators hash "
            f"to {found}. Rows of both must not mix: undo the change, or give the new recipe a name of its own."
        )
    return found
