"""Files of architectures, a formula or a subnet a line."""

from __future__ import annotations

from pathlib import Path

from attnbench.space.architecture import read_architecture
from attnbench.space.graph import Graph
from attnbench.space.subnet import Subnet
from attnbench.space.subnet_named import SPACES


def read_texts(path: Path, backbone: str) -> list[str]:
    """The lines of a file, all of which must belong to a backbone or a space.

    Raises: ValueError for one that does not and where there is none, InvalidGraph, InvalidSubnet, OSError.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8 ({error.reason} at byte {error.start}).") from None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{path} holds no line; expected an architecture a line.")
    for line in lines:
        if not belongs(read_architecture(line), backbone):
            what = f"a subnet of {backbone}" if backbone in SPACES else "a formula"
            raise ValueError(f"{path}: {line:.80} does not belong on {backbone}; expected {what}.")
    return lines


def belongs(architecture: Graph | Subnet, backbone: str) -> bool:
    """Whether it is a graph for a backbone, or a subnet of a space."""
    return architecture in SPACES[backbone] if backbone in SPACES else isinstance(architecture, Graph)
