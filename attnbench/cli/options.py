"""What options take on the command line: their types for argparse, which names what it expected."""

from __future__ import annotations

import argparse
import re

MAX_WHOLE = 2**31 - 1  # what a column of seeds holds


def whole(given: str) -> int:
    """A seed or a number of things."""
    if not given.isdecimal() or int(given) > MAX_WHOLE:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to {MAX_WHOLE}, got {given!r}")
    return int(given)


def positive(given: str) -> int:
    """How many of something."""
    if not given.isdecimal() or not 1 <= int(given) <= MAX_WHOLE:
        raise argparse.ArgumentTypeError(f"{given!r} is not a whole number from 1 to {MAX_WHOLE}")
    return int(given)


def device(given: str) -> str:
    """Where to train."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", given):
        raise argparse.ArgumentTypeError(f"expected cpu, cuda or cuda:1, got {given!r}")
    return given
