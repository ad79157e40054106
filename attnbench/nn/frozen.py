"""The hash that rows carry: of recipe, backbone and operators, checked against what is frozen."""

from __future__ import annotations

from dataclasses import dataclass

from attnbench.errors import DataError
from attnbench.nn.backbones import backbone_config
from attnbench.nn.frozen_hashes import FROZEN as FROZEN
from attnbench.nn.full import FULL
from attnbench.nn.operators import SEMANTICS_VERSION
from attnbench.nn.protocol import PROTOCOLS, Protocol, protocol, protocol_hash
from attnbench.nn.recipes import RECIPES, Recipe, full_recipe
from attnbench.nn.subnet import NETWORKS_VERSION
from attnbench.space.subnet_cost import Frame
from attnbench.space.subnet_named import SPACES
from attnbench.space.subnet_spaces import SubnetSpace


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
