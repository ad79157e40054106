"""Scores that took long, one line of JSON each, in a file that is only added to: nothing is computed twice."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from attnbench.errors import DataError

Question = Mapping[str, str | int | float | None]


class LoggedScore(NamedTuple):
    """An answer of the log. value: None where it was NaN or infinite. seconds: that computing it took."""

    value: float | None
    seconds: float


class ScoreLog:
    """What was scored, by everything a score depends on: the question, a flat mapping of names to plain values.

    A kill loses the score that was being computed; a line that it cut short is passed over. Two processes may add to
    one file. path: None keeps the scores in memory alone.
    Raises: DataError for a file of something else.
    """

    def __init__(self, path: Path | None = None):
        self.path = path
        self._scores: dict[str, LoggedScore] = {}
        if path is not None and path.exists():
            if path.is_dir():
                raise DataError(f"{path} is a folder; the log of scores is a file, which is made where there is none.")
            content = path.read_bytes()
            for line in content.splitlines():
                self._read(line)
            if content.strip() and not self._scores:
                raise DataError(f"{path} is no log of scores, and is left as it is; name another file, or a new one.")

    def __len__(self) -> int:
        return len(self._scores)

    def get(self, question: Question) -> LoggedScore | None:
        """The stored score; None where there is none."""
        return self._scores.get(_canonical(question))

    def __getitem__(self, question: Question) -> LoggedScore:
        """The stored score. Raises: KeyError where there is none."""
        return self._scores[_canonical(question)]

    def add(self, question: Question, value: float | None, seconds: float) -> None:
        """Stores a score, on disk before it returns."""
        canonical = _canonical(question)
        self._scores[canonical] = LoggedScore(value, seconds)
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # A new line first: what a kill cut short must not swallow this one.
        line = f'\n{{"question": {canonical}, "value": {json.dumps(value)}, "seconds": {seconds:.3f}}}\n'
        with self.path.open("ab", buffering=0) as file:
            file.write(line.encode())
            os.fsync(file.fileno())

    def _read(self, line: bytes) -> None:
        try:
            row = json.loads(line)
            value, seconds = row["value"], row["seconds"]
            if isinstance(row["question"], dict) and isinstance(value, (float, int, type(None))):
                self._scores[_canonical(row["question"])] = LoggedScore(value, float(seconds))
        except (ValueError, TypeError, KeyError):
            return


def _canonical(question: Question) -> str:
    return json.dumps(dict(question), sort_keys=True)
