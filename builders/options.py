"""What the builders' options take: their types for argparse, which names what it expected."""

from __future__ import annotations

import argparse
import math
import re

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
    return _numbers(text, "seeds such as 0,1,2")


def sizes(text: str) -> tuple[int, ...]:
    return _numbers(text, "numbers of tokens such as 64,256")


def _numbers(text: str, expected: str) -> tuple[int, ...]:
    found = tuple(whole(part) for part in in_list(text))
    if not found:
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
    return found


def data_version(text: str) -> str:
    """Of data: major, minor and patch, and behind a hyphen what it is."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(-[a-z0-9]+)?", text):
        raise argparse.ArgumentTypeError(f"expected a version such as 1.2.3, got {text!r}")
    return text


def minutes(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"expected minutes, 0 or more, got {text!r}")
    return found
