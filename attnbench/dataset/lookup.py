"""From an architecture, however it is given, to the key of its row."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from attnbench.dataset.columns import Columns
from attnbench.dataset.schema import CELLS
from attnbench.errors import InvalidGraph, NotInBenchmark
from attnbench.space.aliases import current_key
from attnbench.space.graph import Graph
from attnbench.space.subnet import Subnet

_KEY = re.compile(r"(ag|sn)\d+-[0-9a-f]{32}")
_KEYLIKE = re.compile(r"(ag|sn)\d+-")
_SPELLINGS_KEPT = 100_000


class Lookup:
    """Knows every key, name, stored spelling and grid cell; parses the rest."""

    def __init__(self, architectures: Columns, read_cells: Callable[[], Columns]) -> None:
        self._architectures = architectures
        self._read_cells = read_cells
        self.known = self._stored_spellings()

    def key(self, arch: Any) -> str:
        """The key of the row of an architecture.

        Raises: InvalidGraph, InvalidSubnet (no architecture), NotInBenchmark (no row; the nearest ones).
        """
        found = self.find(arch)
        if found is None:
            raise self._absent(arch)
        return found

    def find(self, arch: Any) -> str | None:
        """The key of the row of an architecture, or None where there is no row.

        Raises: InvalidGraph, InvalidSubnet (no architecture).
        """
        if isinstance(arch, (Graph, Subnet)):
            return self._row_of(arch)
        if isinstance(arch, str):
            return self._find_text(arch)
        cell = _coordinates(arch)
        found = self._cells.get(cell) if cell is not None else None
        return found if found is not None else self._row_of(_read(arch))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every name, sorted: those of the table, and of published subnets that have a row."""
        from attnbench.space.subnet_named import PUBLISHED_SUBNETS

        rows = self._architectures.rows_of("key")
        published = {name for name, row in PUBLISHED_SUBNETS.items() if row.subnet.key in rows}
        return tuple(sorted({name for names in self._architectures["names"] for name in names} | published))

    def _stored_spellings(self) -> dict[str, str]:
        """Names, texts and keys to keys; where a name reads as another row's text, the text wins."""
        table = self._architectures
        spellings = {name: key for key, names in zip(table["key"], table["names"], strict=True) for name in names}
        spellings.update(zip(table["text"], table["key"], strict=True))
        spellings.update((key, key) for key in table["key"])
        return spellings

    def _find_text(self, text: str) -> str | None:
        found = self.known.get(text) or self._folded_names.get(text.strip().casefold())
        if found is not None:
            return found
        if _KEYLIKE.match(text.strip()):
            text = text.strip()
            if not _KEY.fullmatch(text):
                raise InvalidGraph(f"{text[:80]!r} is no key: expected ag1- (or sn1-) and 32 hex digits.")
            current = current_key(text)
            return current if current in self._architectures.rows_of("key") else None
        try:
            arch = _read(text)
        except InvalidGraph as error:
            close = self._close_names(text)
            if not close:
                raise
            raise InvalidGraph(f"{error}\nOr is a name meant? Names like it: {', '.join(close)}") from None
        key = self._row_of(arch)
        if key is not None:
            if len(self.known) > _SPELLINGS_KEPT:  # start over rather than grow through a long search
                self.known = self._stored_spellings()
            self.known[text] = key
        return key

    def _row_of(self, arch: Graph | Subnet) -> str | None:
        key = arch.key
        if key in self._architectures.rows_of("key"):
            return key
        return self._same_function(arch) if isinstance(arch, Graph) else None

    def _absent(self, arch: Any) -> NotInBenchmark:
        from attnbench.dataset.absent import absent_graph, absent_key, absent_subnet

        table = self._architectures
        if isinstance(arch, str) and _KEYLIKE.match(arch.strip()):
            return absent_key(arch.strip(), len(table["key"]))
        read = _read(arch)
        kind = "subnet" if isinstance(read, Subnet) else "attention"
        texts = [text for text, of in zip(table["text"], table["kind"], strict=True) if of == kind]
        return absent_subnet(read, texts) if isinstance(read, Subnet) else absent_graph(read, texts)

    def _same_function(self, graph: Graph) -> str | None:
        """The row that gives the same numbers, where no rewrite rule knows that it is the same function."""
        stored = self._signatures
        if not stored:
            return None
        from attnbench.space.evaluate import same_function, same_signature, signature
        from attnbench.space.parse import parse

        mine = signature(graph)
        rows, texts = self._architectures.rows_of("key"), self._architectures["text"]
        alike = (key for key, other in stored if same_signature(mine, other))
        return next((key for key in alike if same_function(graph, parse(texts[rows[key][0]]))), None)

    def _close_names(self, text: str) -> list[str]:
        if re.search(r"[()@*+/=]", text):
            return []  # a formula was meant
        from difflib import get_close_matches

        usual = {name.casefold(): name for name in self.names}
        return [usual[name] for name in get_close_matches(text.strip().casefold(), list(usual), n=5)]

    @cached_property
    def _folded_names(self) -> dict[str, str]:
        return {name.casefold(): self.known[name] for names in self._architectures["names"] for name in names}

    @cached_property
    def _cells(self) -> dict[tuple[str, ...], str]:
        table = self._read_cells()
        coordinates = zip(*(table[name] for name in CELLS.identity), strict=True)
        return dict(zip(coordinates, table["key"], strict=True))

    @cached_property
    def _signatures(self) -> list[tuple[str, tuple[float, ...]]]:
        table = self._architectures
        return [(k, s) for k, s in zip(table["key"], table["signature"], strict=True) if s is not None]


def _coordinates(arch: Any) -> tuple[str, ...] | None:
    """The levels of a grid cell, in the table's order; None for what is given in another way."""
    if isinstance(arch, Mapping):
        if set(arch) != set(CELLS.identity):
            return None
        arch = [arch[name] for name in CELLS.identity]
    return tuple(arch) if isinstance(arch, (tuple, list)) and all(isinstance(level, str) for level in arch) else None


def _read(arch: Any) -> Graph | Subnet:
    """The graph or subnet of anything that is no key and no name of the table.

    Raises: InvalidGraph, with the place; InvalidSubnet.
    """
    if isinstance(arch, (Graph, Subnet)):
        return arch
    if isinstance(arch, str):
        from attnbench.space.architecture import read_architecture

        return _published_subnet(arch) or read_architecture(arch)
    cell = _coordinates(arch)
    if cell is not None or isinstance(arch, (tuple, list)):
        from attnbench.space.grid import cell_graph

        return cell_graph(tuple(arch) if cell is None else cell)
    if isinstance(arch, Mapping) and any(str(name).lower() == "mlp_ratio" for name in arch):
        from attnbench.space.subnet_text import read_subnet

        return read_subnet(arch)
    from attnbench.space.genotype import Genotype

    if isinstance(arch, (Mapping, Genotype)):
        return Genotype.read(arch).to_graph()
    raise InvalidGraph(
        f"no architecture: {type(arch).__name__} {str(arch)[:80]!r}. Pass a Graph, a formula, a Subnet or its text, "
        "a key, a name, a genotype or the six coordinates of a grid cell."
    )


def _published_subnet(name: str) -> Subnet | None:
    """The subnet that a paper published under a name, whether or not it has a row."""
    from attnbench.space.subnet_named import PUBLISHED_SUBNETS

    wanted = name.strip().casefold()
    return next((row.subnet for row in PUBLISHED_SUBNETS.values() if row.name.casefold() == wanted), None)
