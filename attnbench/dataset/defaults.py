"""What is meant where no backbone and no protocol are named."""

from __future__ import annotations

from attnbench.dataset.schema import DEFAULT_BACKBONE, DEFAULT_PROTOCOL
from attnbench.errors import InvalidSubnet
from attnbench.space.graph import Graph
from attnbench.space.subnet import Subnet


def default_backbone(arch: Graph | Subnet) -> str:
    """`deit` for attention, its space for a subnet. Raises: InvalidSubnet where no named space holds it."""
    if isinstance(arch, Graph):
        return DEFAULT_BACKBONE
    from attnbench.space.subnet_named import SPACES, space_of

    space = space_of(arch)
    if space is None:
        raise InvalidSubnet(f"{arch.text!r} lies in none of the spaces {', '.join(SPACES)}; change its coordinates.")
    return space.name


def default_protocol(arch: Graph | Subnet) -> str:
    """`fmnist-micro` for attention, `micro-scratch` for a subnet."""
    return DEFAULT_PROTOCOL["attention" if isinstance(arch, Graph) else "subnet"]
