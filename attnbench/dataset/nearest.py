"""Which stored formulas or subnets are most like a given one; for messages, so quick and approximate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import zip_longest

from attnbench.space.subnet import Subnet

_TOKEN = re.compile(r"[A-Za-z_]\w*|-?\d+|\S")
_SHORTLIST = 40


def nearest(text: str, stored: Iterable[str], n: int = 3) -> tuple[str, ...]:
    """The `n` stored texts with the smallest edit distance in tokens, among those that share most token triples."""
    given = _tokens(text)
    triples = _triples(given)
    shared = [(-_overlap(triples, _triples(_tokens(other))), len(other), other) for other in stored]
    shortlist = [other for _, _, other in sorted(shared)[:_SHORTLIST]]
    return tuple(sorted(shortlist, key=lambda other: (edit_distance(given, _tokens(other)), len(other), other))[:n])


def nearest_subnets(subnet: Subnet, stored: Iterable[str], n: int = 3) -> tuple[str, ...]:
    """The `n` stored subnets of the same space that differ in the fewest coordinates, of those the nearest in value."""
    from attnbench.space.subnet_named import space_of
    from attnbench.space.subnet_text import parse_subnet

    family, space = subnet.text.partition("(")[0] + "(", space_of(subnet)
    others = (parse_subnet(text) for text in stored if text.startswith(family))
    found = [(*_differences(subnet, other), other.text) for other in others if space is None or other in space]
    return tuple(text for *_, text in sorted(found)[:n])


def _differences(a: Subnet, b: Subnet) -> tuple[int, float]:
    """How many coordinates differ, and by how much in all, each relative to the larger; a missing layer's are 0."""
    groups = zip(_coordinates(a), _coordinates(b), strict=True)
    pairs = [pair for left, right in groups for pair in zip_longest(left, right, fillvalue=0.0)]
    return sum(x != y for x, y in pairs), sum(abs(x - y) / max(x, y) for x, y in pairs)


def _coordinates(subnet: Subnet) -> list[tuple[float, ...]]:
    """A group for every field: one number, or one a layer or stage."""
    values = [getattr(subnet, field.name) for field in fields(subnet)]  # type: ignore[arg-type]
    return [value if isinstance(value, tuple) else (value,) for value in values]


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Insertions, deletions and replacements of tokens that turn `a` into `b` (Levenshtein)."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            diagonal, row[j] = row[j], min(diagonal + (left != right), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _triples(tokens: list[str]) -> Counter[tuple[str, ...]]:
    padded = ["", *tokens, ""]
    return Counter(zip(padded, padded[1:], padded[2:], strict=False))


def _overlap(a: Counter[tuple[str, ...]], b: Counter[tuple[str, ...]]) -> float:
    return 2 * (a & b).total() / ((a.total() + b.total()) or 1)
