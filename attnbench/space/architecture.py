"""An architecture from its text, whichever of the two languages it is written in."""

from __future__ import annotations

import re

from attnbench.space.graph import Graph
from attnbench.space.parse import parse
from attnbench.space.subnet import Subnet
from attnbench.space.subnet_text import FAMILIES, parse_subnet

_SUBNET = re.compile(rf"\s*(?:{'|'.join(FAMILIES)})\s*\(")


def read_architecture(text: str) -> Graph | Subnet:
    """The subnet of a text that starts with a family, such as `autoformer(...)`; else the graph of a formula.

    Both have `key` and `text`. Raises: InvalidGraph, InvalidSubnet.
    """
    if isinstance(text, str) and _SUBNET.match(text):
        return parse_subnet(text)
    return parse(text)
