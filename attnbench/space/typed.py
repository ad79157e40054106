"""The released distribution over genotypes, conditioned by dynamic programming instead of by rejection.

A genotype is a small program over shapes. What each slot and each binary does to a shape is known beforehand, so the
probability that a partial genotype ends well can be summed exactly, and every choice can be drawn with the weight of
its happy endings. The result is the raw distribution given the condition, without a rejected draw.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from functools import wraps
from itertools import accumulate
from typing import Any, Generic, NamedTuple, TypeVar

from attnbench.errors import InvalidGraph
from attnbench.space.genotype import Genotype
from attnbench.space.graph import Node, program
from attnbench.space.operators import INPUT_SHAPE, OPERATORS
from attnbench.space.sample import RELEASED, SamplerSettings
from attnbench.space.upstream import BINARY_NAMES, GRAPH_TYPES, apply_binary, apply_unary

CONDITIONS = ("graph", "promising")
_BIT = {"q": 1, "k": 2, "v": 4}
_KEY_OR_VALUE = _BIT["k"] | _BIT["v"]
# A row of one entry leaves these nothing to pass a gradient through.
_NORMALISES_A_ROW = ("softmax", "log_softmax", "l2norm", "l1norm", "sumnorm", "layernorm")


class Kind(NamedTuple):
    """What is tracked of a value: its shape, which inputs' gradients reach it (bits), and whether other tokens' do."""

    shape: str
    live: int = 0
    mixes: bool = False


State = tuple["Kind | None", ...]
Item = TypeVar("Item", bound=Hashable)
Function = TypeVar("Function", bound=Callable[..., Any])


class Choice(Generic[Item]):
    """A finite distribution: items with weights."""

    def __init__(self, weights: Iterable[tuple[Item, float]]):
        kept = [(item, weight) for item, weight in weights if weight > 0]
        self.items = [item for item, _ in kept]
        self.cumulative = list(accumulate(weight for _, weight in kept))
        self.total = self.cumulative[-1] if kept else 0.0

    def draw(self, rng: random.Random) -> Item:
        return self.items[bisect(self.cumulative, rng.random() * self.total, 0, len(self.items) - 1)]


def _remembered(method: Function) -> Function:
    """A method whose answers are kept on the object."""
    name = method.__name__

    @wraps(method)
    def call(self: TypedSampler, *args: Hashable) -> Any:
        memory = self._memory[name]
        found = memory.get(args)
        if found is None:
            found = memory[args] = method(self, *args)
        return found

    return call  # type: ignore[return-value]


class TypedSampler:
    """Draws genotypes from a raw distribution given a condition, without rejection.

    `graph`: the genotype translates to a graph. `promising`: besides, nothing grows with N squared, each of q, k and v
    has a path to the output that no operator without gradient cuts, and some path from k or v sums over tokens. The
    second is necessary for passing every check, so it saves draws and changes no distribution given the checks.

    `probability`: of the condition under the raw distribution, for each graph type.
    Raises: ValueError (an unknown condition; i3n402, which uses a slot twice).
    """

    def __init__(self, condition: str = "graph", settings: SamplerSettings = RELEASED):
        if condition not in CONDITIONS:
            raise ValueError(f"a condition is one of {', '.join(CONDITIONS)}; got {condition!r}")
        for name in settings.graph_types:
            if any(len(operand.slots) != 1 for operands in GRAPH_TYPES[name] for operand in operands):
                raise ValueError(f"{name} uses one slot for two operands; it can only be drawn raw")
        self.condition, self.settings = condition, settings
        self._memory: dict[str, dict[tuple[Hashable, ...], Any]] = defaultdict(dict)
        self._promising = condition == "promising"
        self._unary = tuple(enumerate(settings.unary_probabilities))
        self._inputs = {x: Kind(INPUT_SHAPE, bit if self._promising else 0) for x, bit in _BIT.items()}
        self.probability = {name: self._success(name, 0, ()) for name in settings.graph_types}
        self._types = Choice(self.probability.items())

    def draw(self, rng: random.Random) -> Genotype:
        """One genotype. Every one is a graph."""
        name = self._types.draw(rng)
        joins = GRAPH_TYPES[name]
        slots: list[tuple[int, ...]] = [()] * (2 * len(joins))
        binaries = []
        state: State = ()
        for number, operands in enumerate(joins):
            left, right, op, result = self._stage(name, number, state).draw(rng)
            for operand, after in zip(operands, (left, right), strict=True):
                before = self._source(operand.source, state)
                slots[operand.slots[0]] = self._draw_slot(before, after, rng)
            binaries.append(op)
            state = self._next(name, number, state, result)
        return Genotype(name, tuple(slots), tuple(binaries))

    def possible(self, genotype: Genotype) -> bool:
        """Whether a genotype meets the condition, and so can be drawn."""
        state: State = ()
        joins = GRAPH_TYPES[genotype.graph_type]
        for number, operands in enumerate(joins):
            sides: list[Kind] = []
            for operand in operands:
                x = self._source(operand.source, state)
                for op in genotype.unary_ops[operand.slots[0]]:
                    after = {index: kind for index, _, kind in self._after(x)}
                    if op not in after:
                        return False
                    x = after[op]
                sides.append(x)
            results = dict(self._joined(sides[0], sides[1]))
            if genotype.binary_ops[number] not in results:
                return False
            state = (*state, results[genotype.binary_ops[number]])
        return self._success(genotype.graph_type, len(joins), state) > 0

    # ---- one operator
    def _kind(self, node: Node, leaves: dict[str, Kind]) -> Kind | None:
        """What an expression over `leaves` is; None where it cannot end well."""
        kinds: list[Kind] = []
        for op, args, axis, shape in program(node):
            if not args:
                kinds.append(leaves[op])
                continue
            operands = [kinds[i] for i in args]
            if not self._promising:
                kinds.append(Kind(shape))
                continue
            # The one (N, N) value that costs nothing is a product inside a product.
            if op != "matmul" and (shape == "NN" or any(x.shape == "NN" for x in operands)):
                return None
            live, mixes = 0, False
            for x in operands:
                live, mixes = live | x.live, mixes or x.mixes
            reduced = _reduced(op, axis, [x.shape for x in operands])
            if "zero_gradient" in OPERATORS[op].properties or (
                reduced == "1" and (op in _NORMALISES_A_ROW or op == "cosine")
            ):
                live, mixes = 0, False
            elif reduced == "N" and op not in _NORMALISES_A_ROW and live & _KEY_OR_VALUE:
                mixes = True
            kinds.append(Kind(shape, live, mixes))
        return kinds[-1]

    @_remembered
    def _after(self, x: Kind) -> tuple[tuple[int, float, Kind], ...]:
        """Unary operators that take `x`: index, probability, result."""
        leaf = Node("x", (), None, x.shape, 1)
        found = []
        for index, probability in self._unary:
            try:
                kind = self._kind(apply_unary(index, leaf, []), {"x": x})
            except InvalidGraph:
                continue
            if kind is not None and probability > 0:
                found.append((index, probability, kind))
        return tuple(found)

    @_remembered
    def _joined(self, a: Kind, b: Kind) -> tuple[tuple[int, Kind], ...]:
        """Binary operators that take `a` and `b`: index and result."""
        left, right = Node("a", (), None, a.shape, 1), Node("b", (), None, b.shape, 1)
        found = []
        for index in range(len(BINARY_NAMES)):
            try:
                kind = self._kind(apply_binary(index, left, right, []), {"a": a, "b": b})
            except InvalidGraph:
                continue
            if kind is not None:
                found.append((index, kind))
        return tuple(found)

    # ---- a slot
    @_remembered
    def _chain(self, x: Kind, length: int) -> dict[Kind, float]:
        """Where `length` operators lead from `x`, with probabilities."""
        if length == 0:
            return {x: 1.0}
        ends: dict[Kind, float] = defaultdict(float)
        for _, probability, y in self._after(x):
            for end, rest in self._chain(y, length - 1).items():
                ends[end] += probability * rest
        return dict(ends)

    @_remembered
    def _slot(self, x: Kind) -> dict[Kind, float]:
        """Where a slot leads from `x`, over its lengths."""
        lengths = self.settings.slot_lengths
        ends: dict[Kind, float] = defaultdict(float)
        for length in lengths:
            for end, probability in self._chain(x, length).items():
                ends[end] += probability / len(lengths)
        return dict(ends)

    @_remembered
    def _length(self, x: Kind, end: Kind) -> Choice[int]:
        return Choice((n, self._chain(x, n).get(end, 0.0)) for n in self.settings.slot_lengths)

    @_remembered
    def _step(self, x: Kind, end: Kind, length: int) -> Choice[tuple[int, Kind]]:
        return Choice(((op, y), p * self._chain(y, length - 1).get(end, 0.0)) for op, p, y in self._after(x))

    def _draw_slot(self, x: Kind, end: Kind, rng: random.Random) -> tuple[int, ...]:
        """A slot's operators, given where it starts and ends."""
        ops = []
        for left in range(self._length(x, end).draw(rng), 0, -1):
            op, x = self._step(x, end, left).draw(rng)
            ops.append(op)
        return tuple(ops)

    # ---- a graph type, binary by binary
    def _source(self, source: str | int, state: State) -> Kind:
        found = self._inputs[source] if isinstance(source, str) else state[source]
        assert found is not None
        return found

    def _next(self, name: str, number: int, state: State, result: Kind) -> State:
        """The results so far, those that no later binary uses forgotten."""
        used = {operand.source for operands in GRAPH_TYPES[name][number + 1 :] for operand in operands}
        last = number == len(GRAPH_TYPES[name]) - 1
        results = (*state, result)
        return tuple(kind if i in used or (last and i == number) else None for i, kind in enumerate(results))

    @_remembered
    def _success(self, name: str, number: int, state: State) -> float:
        """Probability of ending well, `number` binaries done."""
        if number == len(GRAPH_TYPES[name]):
            end = state[-1]
            assert end is not None
            good = end.shape == INPUT_SHAPE and (not self._promising or (end.live == sum(_BIT.values()) and end.mixes))
            return float(good)
        if self._promising and self._lost(name, number, state):
            return 0.0
        return self._stage(name, number, state).total

    def _lost(self, name: str, number: int, state: State) -> bool:
        """Whether an input's gradient can no longer reach the end."""
        live = 0
        for kind in state:
            live |= kind.live if kind is not None else 0
        for operands in GRAPH_TYPES[name][number:]:
            for operand in operands:
                live |= _BIT.get(operand.source, 0) if isinstance(operand.source, str) else 0
        return live != sum(_BIT.values())

    @_remembered
    def _stage(self, name: str, number: int, state: State) -> Choice[tuple[Kind, Kind, int, Kind]]:
        """A binary with what its slots lead to: left, right, operator, result."""
        left, right = GRAPH_TYPES[name][number]
        weights = []
        for a, p_a in self._slot(self._source(left.source, state)).items():
            for b, p_b in self._slot(self._source(right.source, state)).items():
                for op, result in self._joined(a, b):
                    rest = self._success(name, number + 1, self._next(name, number, state, result))
                    weights.append(((a, b, op, result), p_a * p_b / len(BINARY_NAMES) * rest))
        return Choice(weights)


def _reduced(op: str, axis: int | None, shapes: list[str]) -> str:
    """Letter of the axis that an operator sums or normalises over; empty where it does neither."""
    if op in ("matmul", "distance", "cosine"):
        return max(shapes[0][1], shapes[1][1]) if op != "matmul" else shapes[0][1]
    if axis is None or op == "T":
        return ""
    return shapes[0][axis]
