"""A pyarrow table held as columns of plain Python values, with the rows of each value at hand.

Reading a value out of pyarrow takes microseconds, out of a list it takes nanoseconds; a column is turned into a
list when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


class Columns:
    """One table by column and position."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self._lists: dict[str, Sequence[Any]] = {}
        self._rows_of: dict[tuple[str, ...], dict[Any, list[int]]] = {}

    def __getitem__(self, name: str) -> Sequence[Any]:
        """The values of a column; null is None, a list is a tuple."""
        found = self._lists.get(name)
        if found is None:
            found = self._lists[name] = _plain(self.table.column(name))
        return found

    def rows_of(self, *names: str) -> dict[Any, list[int]]:
        """Positions of the rows of each value of a column, or of each tuple of values of several; kept."""
        found = self._rows_of.get(names)
        if found is None:
            found = self._rows_of[names] = {}
            values = self[names[0]] if len(names) == 1 else zip(*(self[name] for name in names), strict=True)
            for position, value in enumerate(values):
                found.setdefault(value, []).append(position)
        return found

    def several(self, *names: str) -> tuple[Sequence[Any], ...]:
        """Some columns at once."""
        return tuple(self[name] for name in names)


class _Lists(Sequence[tuple[Any, ...]]):
    """A list column as offsets into its flat values: a tuple is made when a row is read."""

    def __init__(self, offsets: list[int], values: Sequence[Any]) -> None:
        self.offsets, self.values = offsets, values

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: Any) -> Any:
        return tuple(self.values[self.offsets[row] : self.offsets[row + 1]])


def _plain(column: pa.ChunkedArray) -> Sequence[Any]:
    import pyarrow as pa

    if column.num_chunks == 0:
        return []
    array = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    # to_pylist throughout: dictionary_encode loads pyarrow.compute, to_numpy even pandas.
    if pa.types.is_list(array.type):
        if array.null_count:
            return [None if row is None else tuple(row) for row in array.to_pylist()]
        return _Lists(array.offsets.to_pylist(), _plain(pa.chunked_array([array.values])))
    values = array.to_pylist()
    if pa.types.is_string(array.type):
        # Most strings repeat in every row: keep one of each, whose hash is then known too.
        shared: dict[Any, Any] = {}
        return [shared.setdefault(value, value) for value in values]
    return values
