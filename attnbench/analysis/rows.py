"""Which rows a statistic may use, and why the others were left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

# The order in which a row's columns are inspected decides which reason it is counted under.
MISSING, NAN, INFINITE = "missing", "NaN", "inf"


class Dropped(NamedTuple):
    """How many rows one column's values ruled out, and why: "missing", "NaN" or "inf"."""

    column: str
    reason: str
    rows: int


class UsableRows(NamedTuple):
    """Columns without the rows that no ranking can place."""

    columns: dict[str, np.ndarray]
    kept: np.ndarray
    dropped: tuple[Dropped, ...]

    @property
    def n(self) -> int:
        """Rows kept."""
        return int(self.kept.sum())


def usable_rows(columns: Mapping[str, Iterable[object]]) -> UsableRows:
    """Keep the rows whose every column is a finite number; count the others once each, under their first reason.

    None and pandas' NA are "missing"; NaN (also a frame's empty float cell) is "NaN"; both infinities are "inf".
    Shapes: every column has the same length; the kept columns are float64.
    Raises: ValueError for columns of unequal length; TypeError for values that are not numbers.
    """
    parsed = {name: _numbers(name, values) for name, values in columns.items()}
    lengths = {name: len(values) for name, (values, _) in parsed.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns differ in length: {lengths}. Pass one value per row, None where there is none.")
    kept = np.ones(next(iter(lengths.values()), 0), dtype=bool)
    dropped = []
    for name, (values, missing) in parsed.items():
        for reason, bad in (
            (MISSING, missing),
            (NAN, np.isnan(values) & ~missing),
            (INFINITE, np.isinf(values)),
        ):
            newly = bad & kept
            if newly.any():
                dropped.append(Dropped(name, reason, int(newly.sum())))
                kept &= ~newly
    return UsableRows({name: values[kept] for name, (values, _) in parsed.items()}, kept, tuple(dropped))


def _numbers(name: str, values: Iterable[object]) -> tuple[np.ndarray, np.ndarray]:
    """A column as float64 and the mask of its missing values (NaN in the column)."""
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        numbers = np.asarray(values, dtype=np.float64).ravel()
        return numbers, np.zeros(len(numbers), dtype=bool)
    cells = list(values)
    # pandas' NA compares to itself as NA, which has no truth value; its type's name is all we need to know.
    missing = np.array([cell is None or type(cell).__name__ == "NAType" for cell in cells], dtype=bool)
    try:
        numbers = np.array([np.nan if gone else float(cell) for cell, gone in zip(cells, missing, strict=True)])  # type: ignore[arg-type]
    except (TypeError, ValueError):
        culprit = next(cell for cell, gone in zip(cells, missing, strict=True) if not gone and not _is_number(cell))
        raise TypeError(
            f"column {name!r} holds {culprit!r}, which is not a number. Pass numbers, and None for a missing value."
        ) from None
    return numbers.astype(np.float64), missing


def _is_number(cell: object) -> bool:
    try:
        float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True
