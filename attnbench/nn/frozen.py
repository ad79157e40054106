"""What is frozen: protocols whose rows are in the table, by backbone. A hash here changes no more."""

from __future__ import annotations

from attnbench.errors import DataError
from attnbench.nn.backbones import backbone_config
from attnbench.nn.operators import SEMANTICS_VERSION
from attnbench.nn.protocol import protocol, protocol_hash

FROZEN: dict[str, dict[str, str]] = {"fmnist-micro": {"deit": "a4bf19616669c6cf"}}


def run_hash(protocol_name: str, backbone: str) -> str:
    """The hash that rows of this protocol and backbone carry.

    Raises: ValueError (unknown names), DataError where the code no longer does what the frozen hash stands for.
    """
    found = protocol_hash(protocol(protocol_name), backbone, backbone_config(backbone), SEMANTICS_VERSION)
    frozen = FROZEN.get(protocol_name, {}).get(backbone)
    if frozen is not None and found != frozen:
        raise DataError(
            f"{protocol_name} on {backbone} is frozen as {frozen}, but this code's recipe, backbone and operators hash "
            f"to {found}. Rows of both must not mix: undo the change, or give the new recipe a name of its own."
        )
    return found
