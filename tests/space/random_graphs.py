"""Seeded random expressions over every operator, drawn well-typed: from the shape wanted down to the inputs."""

from __future__ import annotations

import random

from attnbench.space.graph import Graph, K, Node, Q, V, build
from attnbench.space.operators import OPERATORS

UNARIES = sorted(n for n, op in OPERATORS.items() if op.arity == 1 and op.kind in ("activation", "normalisation"))
SHAPES = ("Nd", "dN", "dd", "NN", "N1", "1N", "1d", "d1", "11")
# The plain parts of a formula more often than zeros and constants, which swallow what is around them.
STRUCTURE = ("T", "identity", "neg", "scale")


def random_graph(rng: random.Random, size: int = 12) -> Graph:
    """A graph of roughly `size` operators."""
    return Graph(random_node(rng, "Nd", size))


def random_node(rng: random.Random, shape: str, size: int) -> Node:
    """An expression of the static shape wanted."""
    if size <= 1:
        return _leaf(rng, shape)
    kind = rng.random()
    if kind < 0.42:
        op = rng.choice(UNARIES) if rng.random() < 0.97 else "zeros"
        return build(op, random_node(rng, shape, size - 1), axis=_axis(rng, op))
    if kind < 0.55:
        op = rng.choice(STRUCTURE)
        return build(op, random_node(rng, shape[::-1] if op == "T" else shape, size - 1))
    if "1" in shape and kind < 0.75:
        return _reduced(rng, shape, size)
    left = rng.randint(1, max(1, size - 2))
    if kind < 0.78:
        inner = rng.choice("NdNd1")
        a = random_node(rng, shape[0] + inner, left)
        return build("matmul", a, random_node(rng, inner + shape[1], size - 1 - left))
    op = rng.choice(("add", "mul", "mul", "maximum"))
    a, b = random_node(rng, shape, left), random_node(rng, _narrower(rng, shape), size - 1 - left)
    return build(op, *((a, b) if rng.random() < 0.5 else (b, a)))


def _reduced(rng: random.Random, shape: str, size: int) -> Node:
    if shape[1] == "1" and rng.random() < 0.2 and size > 2:
        wide, op = shape[0] + rng.choice("Nd"), rng.choice(("distance", "cosine"))
        return build(op, random_node(rng, wide, size // 2), random_node(rng, _narrower(rng, wide), size // 2))
    axis = rng.choice([a for a in (-1, -2) if shape[a] == "1"])
    symbol = rng.choice("Nd")
    wide = shape[0] + symbol if axis == -1 else symbol + shape[1]
    return build(rng.choice(("sum", "mean")), random_node(rng, wide, size - 1), axis=axis)


def _narrower(rng: random.Random, shape: str) -> str:
    if rng.random() < 0.7:
        return shape
    return "".join("1" if rng.random() < 0.5 else symbol for symbol in shape)


def _axis(rng: random.Random, op: str) -> int | None:
    return rng.choice((-1, -2)) if OPERATORS[op].has_axis else None


def _leaf(rng: random.Random, shape: str) -> Node:
    x, y = rng.choice((Q, K, V)), rng.choice((Q, K, V))
    if shape == "Nd":
        return x
    if shape == "dN":
        return build("T", x)
    if shape == "dd":
        return build("matmul", build("T", x), y)
    if shape == "NN":
        return build("matmul", x, build("T", y))
    reduce = rng.choice(("sum", "mean"))
    if shape[1] == "1":
        return build(reduce, _leaf(rng, shape[0] + ("d" if shape[0] in "N1" else "N")), axis=-1)
    return build(reduce, _leaf(rng, ("N" if shape[1] == "d" else "d") + shape[1]), axis=-2)


def shuffled(rng: random.Random, node: Node) -> Node:
    """Another spelling of the same function: operands swapped, chains re-associated, no-ops put in."""
    args = [shuffled(rng, arg) for arg in node.args]
    made = build(node.op, *args, axis=node.axis) if args else node
    if len(args) == 2:
        made = _respelled(rng, node.op, *args)
    kind = rng.random()
    if kind < 0.06:
        return build("T", build("T", made))
    if kind < 0.12:
        return build("neg", build("neg", made))
    if kind < 0.18:
        return build("identity", made)
    return made


def _respelled(rng: random.Random, op: str, a: Node, b: Node) -> Node:
    kind = rng.random()
    if op in ("add", "mul", "maximum"):
        if kind < 0.5:
            a, b = b, a
        if b.op == op and kind % 0.1 < 0.05 and _broadcasts(op, a, b.args[0]):
            return build(op, build(op, a, b.args[0]), b.args[1])
    elif op == "matmul":
        if b.op == "matmul" and kind < 0.4:
            return build(op, build(op, a, b.args[0]), b.args[1])
        if kind < 0.6:
            return build("T", build(op, build("T", b), build("T", a)))
    elif kind < 0.5 and OPERATORS[op].properties >= {"commutative"}:
        a, b = b, a
    return build(op, a, b)


def _broadcasts(op: str, a: Node, b: Node) -> bool:
    return all(x == y or "1" in (x, y) for x, y in zip(a.shape, b.shape, strict=True))
