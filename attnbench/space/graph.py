"""`Graph`: a frozen attention formula, an expression over q, k and v, with its text, LaTeX, key and cost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from attnbench.errors import InvalidGraph
from attnbench.space.operators import INPUT_SHAPE, INPUTS, OPERATORS, Shape, ShapeMismatch

if TYPE_CHECKING:
    from attnbench.space.cost import Cost

MAX_DEPTH = 40


class Node(NamedTuple):
    """One sub-expression. Made by `build`, which checks shapes; equal nodes are equal spellings."""

    op: str
    args: tuple[Node, ...]
    axis: int | None
    shape: Shape
    depth: int


class Step(NamedTuple):
    """One line of a straight-line program: `args` are indices of earlier steps."""

    op: str
    args: tuple[int, ...]
    axis: int | None
    shape: Shape


Q, K, V = (Node(name, (), None, INPUT_SHAPE, 1) for name in INPUTS)

# Shapes are two letters out of three, so every operator's shape rule has a few dozen answers: each is computed once.
_shapes: dict[tuple[str, int | None, tuple[Shape, ...]], Shape] = {}


def build(op: str, *args: Node, axis: int | None = None) -> Node:
    """A sub-expression of operator `op`, shape-checked; `axis` (-1 or -2) defaults to -1 where the operator has one.

    Raises: InvalidGraph (unknown operator, number of operands, axis, shapes).
    """
    if len(args) == 1:
        shapes: tuple[Shape, ...] = (args[0].shape,)
        depth = args[0].depth + 1
    else:
        shapes = tuple([a.shape for a in args])
        depth = max([a.depth for a in args], default=0) + 1
    shape = _shapes.get((op, axis, shapes))
    if shape is None:
        shape = _infer(op, axis, shapes)
        _shapes[op, axis, shapes] = shape
    if axis is None and OPERATORS[op].has_axis:
        axis = -1
    return Node(op, args, axis, shape, depth)


def _infer(op: str, axis: int | None, shapes: tuple[Shape, ...]) -> Shape:
    known = OPERATORS.get(op)
    if known is None:
        raise InvalidGraph(f"unknown operator {op!r}; known: {', '.join(sorted(OPERATORS))}")
    if len(shapes) != known.arity:
        raise InvalidGraph(f"{op} takes {known.arity} operand{'s' * (known.arity > 1)}, got {len(shapes)}")
    if axis is not None and not known.has_axis:
        raise InvalidGraph(f"{op} has no axis, got axis={axis!r}")
    if known.has_axis:
        if axis not in (None, -1, -2):
            raise InvalidGraph(f"axis must be -1 (features) or -2 (rows), got axis={axis!r}")
        return known.shape(*shapes, axis=-1 if axis is None else axis)
    try:
        return known.shape(*shapes)
    except ShapeMismatch as error:
        raise InvalidGraph(f"{op}: {error}") from None


class Graph:
    """An attention formula: what a head computes from q, k and v, each (B, H, N, d), to a result of the same shape.

    Equality and hash are those of the spelling; two spellings of one function share `key`.
    Raises: InvalidGraph when the result is not (N, d) or the expression is deeper than 40.
    """

    root: Node
    notes: tuple[str, ...]

    def __init__(self, root: Node, notes: tuple[str, ...] = ()):
        if root.shape != INPUT_SHAPE:
            raise InvalidGraph(
                f"the result must be (N, d), one row of head width per token; it is ({root.shape[0]}, {root.shape[1]})"
            )
        if root.depth > MAX_DEPTH:
            raise InvalidGraph(f"the expression is {root.depth} deep; at most {MAX_DEPTH} is allowed")
        self.__dict__.update(root=root, notes=notes)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Graph is frozen: cannot set {name!r}; build another graph")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Graph is frozen: cannot delete {name!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.root == other.root

    def __hash__(self) -> int:
        return hash(self.root)

    def __repr__(self) -> str:
        return f"Graph({self.text!r})"

    def __str__(self) -> str:
        return self.text

    def _repr_latex_(self) -> str:
        return f"${self.latex}$"

    def __reduce__(self) -> tuple[type[Graph], tuple[Node, tuple[str, ...]]]:
        return Graph, (self.root, self.notes)

    @cached_property
    def text(self) -> str:
        """The formula, fully parenthesised where needed: `parse(graph.text) == graph`."""
        from attnbench.space.printing import to_text

        return to_text(self.root)

    @cached_property
    def latex(self) -> str:
        """The formula in LaTeX, for a paper."""
        from attnbench.space.printing import to_latex

        return to_latex(self.root)

    @cached_property
    def canonical(self) -> str:
        """The text that every spelling of this function shares, as far as the rewrite rules know."""
        from attnbench.space.canonical import canonical_text

        return canonical_text(self.root)

    @cached_property
    def key(self) -> str:
        """`ag1-` and 32 hex digits: the identity of the function in every table."""
        from attnbench.space.canonical import key_of

        return key_of(self.canonical)

    @cached_property
    def cost(self) -> Cost:
        """Multiply-adds and peak intermediate per head, as polynomials in N and d."""
        from attnbench.space.cost import cost_of

        return cost_of(self.root)

    @property
    def complexity(self) -> str:
        """Order of time and memory in the number of tokens: `O(N)` or `O(N^2)`."""
        return self.cost.complexity

    @cached_property
    def inputs(self) -> frozenset[str]:
        """Which of q, k and v the expression names."""
        return frozenset(step.op for step in program(self.root) if step.op in INPUTS)

    def same_function(self, other: Graph) -> bool:
        """Whether both give the same output, by evaluation at two sizes: finds the equalities that no rule knows."""
        from attnbench.space.evaluate import same_function

        return same_function(self, other)


def program(root: Node) -> list[Step]:
    """The expression as a straight line: equal sub-expressions once, operands before their use, the result last."""
    steps: list[Step] = []
    numbers: dict[tuple[str, tuple[int, ...], int | None], int] = {}

    def number(node: Node) -> int:
        args = tuple([number(a) for a in node.args])
        name = (node.op, args, node.axis)
        found = numbers.get(name)
        if found is None:
            found = numbers[name] = len(steps)
            steps.append(Step(node.op, args, node.axis, node.shape))
        return found

    number(root)
    return steps


def subexpressions(root: Node) -> Iterator[Node]:
    """Every node, operands before their use; a repeated one as often as it is written."""
    for arg in root.args:
        yield from subexpressions(arg)
    yield root
