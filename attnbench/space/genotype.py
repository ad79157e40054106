"""`Genotype`: AttnZero's encoding of an attention graph, read from its files and turned into a `Graph` and back."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass

from attnbench.errors import InvalidGraph
from attnbench.space.graph import MAX_DEPTH, Graph, Node
from attnbench.space.upstream import (
    BINARY_NAMES,
    GRAPH_TYPES,
    INPUT_NODES,
    NO_OP,
    UNARY_NAMES,
    apply_binary,
    apply_unary,
    slot_count,
)

SCHEMA_VERSION = 1
_NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, slots=True)
class Genotype:
    """A graph type, a list of unary operators for each slot, and one binary operator for each join.

    `unary_ops` and `binary_ops` take lists, tuples, arrays and integers of any kind, and hold tuples of int.
    An empty slot is a slot of no-op. i3n401 and i3n402 are extensions outside AttnZero's six types.
    Raises: InvalidGraph, naming the slot or binary.
    """

    graph_type: str
    unary_ops: tuple[tuple[int, ...], ...]
    binary_ops: tuple[int, ...]

    def __post_init__(self) -> None:
        name = self.graph_type
        if not isinstance(name, str) or name.lower() not in GRAPH_TYPES:
            raise InvalidGraph(f"unknown graph type {name!r}; known: {', '.join(GRAPH_TYPES)}")
        name = name.lower()
        object.__setattr__(self, "graph_type", name)
        slots = _items(self.unary_ops, "unary_ops", "a list of operator indices for each slot")
        binaries = _items(self.binary_ops, "binary_ops", "one operator index for each join")
        for what, given, wanted in (
            ("slots", slots, slot_count(name)),
            ("binaries", binaries, len(GRAPH_TYPES[name])),
        ):
            if len(given) != wanted:
                raise InvalidGraph(f"{_count(len(given))} {what} for {name}; it has {_count(wanted)}")
        unary = tuple(
            tuple(
                _index(op, f"slot {i}, position {j}", UNARY_NAMES, "unary")
                for j, op in enumerate(_items(slot, f"slot {i}", "a list of operator indices"))
            )
            or (NO_OP,)
            for i, slot in enumerate(slots)
        )
        object.__setattr__(self, "unary_ops", unary)
        binary = tuple(_index(op, f"binary {i}", BINARY_NAMES, "binary") for i, op in enumerate(binaries))
        object.__setattr__(self, "binary_ops", binary)

    @classmethod
    def read(cls, source: object) -> Genotype:
        """A genotype from AttnZero's dictionary, its YAML or JSON text, or a genotype.

        Keys in any order and case: `graph_type`, `unary_op`, `binary_op` (or with `s`), alone, under `AT`, under
        `MODEL`, or dotted as `AT.GRAPH_TYPE`. Other keys are left alone.
        Raises: InvalidGraph, naming what is missing or wrong.
        """
        if isinstance(source, Genotype):
            return source
        if isinstance(source, str):
            from attnbench.space.yaml_subset import read_yaml

            source = read_yaml(source)
        if not isinstance(source, Mapping):
            raise InvalidGraph(
                f"a genotype is a mapping of graph_type, unary_op and binary_op, got {type(source).__name__}"
            )
        found = _flat(source)
        missing = [key for key in ("graph_type", "unary_op", "binary_op") if key not in found]
        if missing:
            raise InvalidGraph(f"the genotype lacks {', '.join(missing)}; it has {', '.join(map(repr, source))}")
        return cls(found["graph_type"], found["unary_op"], found["binary_op"])  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, object]:
        """The genotype as AttnZero writes it: `graph_type`, `unary_op`, `binary_op`, lists of int."""
        return {
            "graph_type": self.graph_type,
            "unary_op": [list(slot) for slot in self.unary_ops],
            "binary_op": list(self.binary_ops),
        }

    def to_json(self) -> str:
        """`to_dict` on one line, with the operators' names and the version of this encoding beside the indices."""
        named = {
            "unary_names": [[UNARY_NAMES[op] for op in slot] for slot in self.unary_ops],
            "binary_names": [BINARY_NAMES[op] for op in self.binary_ops],
            "version": SCHEMA_VERSION,
        }
        return json.dumps(self.to_dict() | named, separators=(",", ":"))

    def to_graph(self) -> Graph:
        """What the genotype computes on one head of one sample; `notes` say where upstream computes otherwise.

        Raises: InvalidGraph, naming the slot or binary that has no meaning here.
        """
        notes: list[str] = []
        results: list[Node] = []
        chains: dict[tuple[str | int, tuple[int, ...]], Node] = {}
        for number, (index, operands) in enumerate(zip(self.binary_ops, GRAPH_TYPES[self.graph_type], strict=True)):
            sides = []
            for source, slots in operands:
                x = results[source] if isinstance(source, int) else INPUT_NODES[source]
                for at, slot in enumerate(slots):
                    prefix = (source, slots[: at + 1])
                    if prefix not in chains:
                        chains[prefix] = self._through(slot, x, notes)
                    x = chains[prefix]
                sides.append(x)
            try:
                results.append(apply_binary(index, sides[0], sides[1], notes))
            except InvalidGraph as error:
                raise InvalidGraph(
                    f"{self.graph_type} binary {number} ({index}, {BINARY_NAMES[index]}): {error.reason}"
                ) from None
        try:
            return Graph(results[-1], tuple(notes))
        except InvalidGraph as error:
            raise InvalidGraph(f"{self.graph_type}: {error.reason}") from None

    def _through(self, slot: int, x: Node, notes: list[str]) -> Node:
        for position, index in enumerate(self.unary_ops[slot]):
            try:
                x = apply_unary(index, x, notes)
            except InvalidGraph as error:
                place = f"{self.graph_type} slot {slot}, position {position} ({index}, {UNARY_NAMES[index]})"
                raise InvalidGraph(f"{place}: {error.reason}") from None
        return x

    @staticmethod
    def from_graph(graph: Graph) -> Genotype:
        """A genotype of the same function, in the first type that can say it.

        Raises: InvalidGraph, when an operator or the shape of the formula is outside AttnZero's types.
        """
        from attnbench.space.encode import encode

        return encode(graph)


def _flat(source: Mapping[object, object], depth: int = 0) -> dict[str, object]:
    """The three entries, wherever and however upstream's configurations spell them."""
    if depth > MAX_DEPTH:
        raise InvalidGraph(f"the genotype is nested too deeply; at most {MAX_DEPTH} levels are read")
    found: dict[str, object] = {}
    for key, value in source.items():
        name = str(key).lower().rsplit(".", 1)[-1]
        name = {"unary_ops": "unary_op", "binary_ops": "binary_op"}.get(name, name)
        if name in ("at", "model") and isinstance(value, Mapping):
            found |= _flat(value, depth + 1)
        elif name in ("graph_type", "unary_op", "binary_op"):
            found[name] = value
    return found


def _items(value: object, where: str, wanted: str) -> tuple[object, ...]:
    if hasattr(value, "tolist"):  # a numpy array
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise InvalidGraph(f"{where} must be {wanted}, got {value!r:.60}")
    return tuple(value)


def _index(value: object, where: str, names: tuple[str, ...], kind: str) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        index = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidGraph(f"{where}: an operator index is an integer, got {value!r:.60}") from None
    if not 0 <= index < len(names):
        given = str(index) if abs(index) < 10**9 else "of more than nine digits"
        raise InvalidGraph(f"{where}: {kind} operator {given} does not exist; indices run from 0 to {len(names) - 1}")
    return index


def _count(n: int) -> str:
    return _NUMBER_WORDS[n] if n < len(_NUMBER_WORDS) else str(n)
