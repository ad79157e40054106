"""What the builders' options take: their types for argparse, which names what it expected."""

from __future__ import annotations

import argparse
import math

MAX_WHOLE = 2**31 - 1  # what a column of seeds holds


def whole(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_WHOLE:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to {MAX_WHOLE}, got {text!r}")
    return int(text)


def in_list(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


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
