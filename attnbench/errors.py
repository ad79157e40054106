"""The named errors of attnbench. Each says what was given, what was expected and how to fix it."""

from __future__ import annotations


class AttnBenchError(Exception):
    """Base of every error that attnbench raises on purpose."""


class InvalidGraph(AttnBenchError, ValueError):
    """A formula or genotype that is not an attention graph: syntax, names, shapes or limits.

    `text` is the formula, `start` and `end` the character range of the offending sub-expression, where known.
    """

    def __init__(self, message: str, text: str | None = None, start: int | None = None, end: int | None = None):
        self.reason, self.text, self.start, self.end = message, text, start, end
        super().__init__(message + _pointer(text, start, end))


class InvalidSubnet(AttnBenchError, ValueError):
    """A subnet that cannot exist, that its text does not describe, or that lies outside the space asked about."""


class NotInBenchmark(AttnBenchError, LookupError):
    """A valid architecture that the table has no row for; `nearest` holds the texts of the rows most like it."""

    def __init__(self, message: str, nearest: tuple[str, ...] = ()):
        self.nearest = nearest
        super().__init__(message)


class NoSuchRun(AttnBenchError, LookupError):
    """An architecture of the table that has no run with the backbone, protocol or seed asked for."""


class DataError(AttnBenchError):
    """Tables that cannot be used: missing, cut short, changed, of another schema version, or breaking a rule."""


class DiskFull(AttnBenchError):
    """A file that could not be written for want of space; what it was to replace is still there, whole."""


class GroundTruthError(AttnBenchError, ValueError):
    """A file of published accuracies that is damaged, holds foreign objects, or describes what cannot be."""


class InvalidSQL(AttnBenchError, ValueError):
    """A statement that is no single SELECT over the tables, or that DuckDB refuses."""


def _pointer(text: str | None, start: int | None, end: int | None) -> str:
    """Two lines that show the formula and underline the range; a long formula is cut around it."""
    if text is None or start is None:
        return ""
    end = max(start + 1, end if end is not None else start + 1)
    left = max(0, start - 40)
    right = min(len(text), max(end, start + 40) if end - start < 60 else start + 60)
    shown = "".join(c if c.isprintable() and c.isascii() else "?" for c in text[left:right])
    dots = "..." if left else ""
    return f"\n  {dots}{shown}{'...' if right < len(text) else ''}\n  {' ' * (len(dots) + start - left)}" + "^" * (
        min(end, right) - start or 1
    )
