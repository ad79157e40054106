"""Which stored formulas look most like a given one; for messages, so quick and approximate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_TOKEN = re.compile(r"[A-Za-z_]\w*|-?\d+|\S")
_SHORTLIST = 40


def nearest(text: str, stored: Iterable[str], n: int = 3) -> tuple[str, ...]:
    """The `n` stored texts with the smallest edit distance in tokens, among those that share most token triples."""
    given = _tokens(text)
    triples = _triples(given)
    shared = [(-_overlap(triples, _triples(_tokens(other))), len(other), other) for other in stored]
    shortlist = [other for _, _, other in sorted(shared)[:_SHORTLIST]]
    return tuple(sorted(shortlist, key=lambda other: (edit_distance(given, _tokens(other)), len(other), other))[:n])


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
