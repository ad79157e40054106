"""What the builders' options take: their types for argparse, which names what it expected."""

from __future__ import annotations

import argparse
import math

from attnbench.cli.options import device as device
from attnbench.cli.options import whole as whole


def in_list(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def names(text: str) -> list[str]:
    found = in_list(text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected names with commas between them, got {text!r}")
    return found


def seeds(text: str) -> tuple[int, ...]:
    return tuple(whole(seed) for seed in in_list(text))


def sizes(text: str) -> tuple[int, ...]:
    found = seeds(text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected numbers of tokens such as 64,256, got {text!r}")
    return found


def minutes(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"expected minutes, 0 or more, got {text!r}")
    return found
