"""Text -> Graph. A small subset of Python expressions, read with `ast` (or `shunting`) and never evaluated."""

from __future__ import annotations

import ast
import difflib
import re
import warnings

from attnbench.errors import InvalidGraph
from attnbench.space.graph import MAX_DEPTH, Graph, K, Node, Q, V, build
from attnbench.space.operators import INPUT_SHAPE, OPERATORS
from attnbench.space.shunting import read_plain

MAX_LENGTH = 2000
_PLAIN_CALLS = frozenset(f"{name}(" for name in OPERATORS if name not in ("neg", "T", "add", "mul", "matmul"))
_ALLOWED = re.compile(r"[A-Za-z0-9_+\-*/@.,=()\s]*", re.ASCII)
_INPUTS = {"q": Q, "k": K, "v": V}
# The operators that are written as calls; the others have their own syntax.
_CALLS = {name: op for name, op in OPERATORS.items() if name not in ("neg", "T", "add", "mul", "matmul")}


def parse(text: str) -> Graph:
    """The graph of a formula such as `q @ (softmax(k, axis=-2).T @ v)`.

    Raises: InvalidGraph, pointing at the sub-expression (syntax, unknown names, shapes, limits).
    """
    if not isinstance(text, str):
        raise InvalidGraph(f"a formula is a string, got {type(text).__name__}: {str(text)[:80]!r}")
    if len(text) > MAX_LENGTH:
        raise InvalidGraph(f"the formula has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    stripped = text.strip()
    plain = read_plain(stripped, _INPUTS, _PLAIN_CALLS)
    if plain is not None and plain.shape == INPUT_SHAPE and plain.depth <= MAX_DEPTH:
        return Graph(plain)
    if not stripped:
        raise InvalidGraph(
            "the formula is empty; write an expression over q, k and v, such as 'softmax(q) @ (k.T @ v)'"
        )
    allowed = _ALLOWED.match(stripped)
    if allowed is None or allowed.end() != len(stripped):
        at = allowed.end() if allowed else 0
        raise InvalidGraph(
            f"character {stripped[at]!r} is not part of the language: ASCII names, + - * / @ . , = and parentheses",
            stripped,
            at,
        )
    try:
        with warnings.catch_warnings():
            # Python warns of what looks like a slip, such as `1and`; here it is an error in its own right.
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(stripped, mode="eval")
    except SyntaxError as error:
        raise _syntax_error(error, stripped) from None
    except (RecursionError, MemoryError, ValueError):
        raise InvalidGraph(
            f"the formula is nested too deeply to read; at most {MAX_DEPTH} levels are allowed"
        ) from None
    try:
        return Graph(_Reader(stripped).node(tree.body, 1))
    except InvalidGraph as error:
        raise error if error.text else InvalidGraph(error.reason, stripped, 0, len(stripped)) from None


def _syntax_error(error: SyntaxError, text: str) -> InvalidGraph:
    if "too many nested" in str(error.msg):
        return InvalidGraph(f"the formula is nested too deeply to read; at most {MAX_DEPTH} levels are allowed")
    start = _offset(text, error.lineno or 1, max(0, (error.offset or 1) - 1))
    return InvalidGraph(f"not an expression of the language: {error.msg}", text, min(start, len(text) - 1))


def _offset(text: str, line: int, column: int) -> int:
    """Character offset of an ast position; the text is ASCII, so bytes are characters."""
    return sum(len(row) for row in text.splitlines(keepends=True)[: line - 1]) + column


class _Reader:
    """Turns one formula's ast into nodes; knows the text so that errors can point into it."""

    def __init__(self, text: str):
        self.text = text

    def error(self, message: str, tree: ast.expr | ast.keyword) -> InvalidGraph:
        start = _offset(self.text, tree.lineno, tree.col_offset)
        end = _offset(self.text, tree.end_lineno or tree.lineno, tree.end_col_offset or tree.col_offset + 1)
        return InvalidGraph(message, self.text, start, end)

    def make(self, tree: ast.expr, op: str, *args: Node, axis: int | None = None) -> Node:
        try:
            return build(op, *args, axis=axis)
        except InvalidGraph as error:
            raise self.error(error.reason, tree) from None

    def node(self, tree: ast.expr, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise InvalidGraph(f"the formula is more than {MAX_DEPTH} levels deep", self.text, 0, len(self.text))
        if isinstance(tree, ast.Name):
            found = _INPUTS.get(tree.id)
            if found is None:
                raise self.unknown_name(tree)
            return found
        if isinstance(tree, ast.Call):
            return self.call(tree, depth)
        if isinstance(tree, ast.BinOp):
            return self.binary(tree, depth)
        if isinstance(tree, ast.Attribute):
            if tree.attr != "T":
                raise self.error(f"unknown attribute .{tree.attr}; the only one is .T, the transpose", tree)
            return self.make(tree, "T", self.node(tree.value, depth + 1))
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
            return self.make(tree, "neg", self.node(tree.operand, depth + 1))
        if isinstance(tree, ast.Constant):
            raise self.error(f"there are no numbers in the language, got {str(tree.value)[:20]}", tree)
        raise self.error(f"{_describe(tree)} is not part of the language", tree)

    def unknown_name(self, tree: ast.Name) -> InvalidGraph:
        if tree.id in OPERATORS:
            return self.error(f"{tree.id} is an operator: write {OPERATORS[tree.id].example}", tree)
        return self.error(f"unknown name {tree.id!r}; the inputs are q, k and v", tree)

    def call(self, tree: ast.Call, depth: int) -> Node:
        if not isinstance(tree.func, ast.Name):
            raise self.error("only operators can be called, by their plain name", tree.func)
        name = tree.func.id
        op = _CALLS.get(name)
        if op is None:
            close = difflib.get_close_matches(name, _CALLS, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; known: {', '.join(sorted(_CALLS))}"
            raise self.error(f"unknown operator {name!r}{hint}", tree.func)
        axis = None
        for keyword in tree.keywords:
            if keyword.arg != "axis" or not op.has_axis or len(tree.keywords) > 1:
                wanted = "only axis" if op.has_axis else "no keywords"
                raise self.error(f"{name} takes {wanted}, got {keyword.arg or '**'}", keyword)
            axis = self.axis(keyword.value)
        if len(tree.args) != op.arity:
            raise self.error(f"{name} takes {op.arity} operand{'s' * (op.arity > 1)}, got {len(tree.args)}", tree)
        return self.make(tree, name, *[self.node(arg, depth + 1) for arg in tree.args], axis=axis)

    def axis(self, tree: ast.expr) -> int:
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub) and isinstance(tree.operand, ast.Constant):
            value = tree.operand.value
            if type(value) is int and value in (1, 2):
                return -value
        raise self.error("axis must be -1 (features) or -2 (rows)", tree)

    def binary(self, tree: ast.BinOp, depth: int) -> Node:
        kind = type(tree.op)
        left = self.node(tree.left, depth + 1)
        if kind is ast.Div and _is_sqrt_d(tree.right):
            return self.make(tree, "scale", left)
        right = self.node(tree.right, depth + 1)
        if kind is ast.MatMult:
            return self.make(tree, "matmul", left, right)
        if kind is ast.Mult:
            return self.make(tree, "mul", left, right)
        if kind is ast.Add:
            return self.make(tree, "add", left, right)
        if kind is ast.Sub:
            return self.make(tree, "add", left, self.make(tree.right, "neg", right))
        if kind is ast.Div:
            return self.make(tree, "mul", left, self.make(tree.right, "recip", right))
        raise self.error("the binary signs are + - * / and @", tree)


def _is_sqrt_d(tree: ast.expr) -> bool:
    return (
        isinstance(tree, ast.Call)
        and isinstance(tree.func, ast.Name)
        and tree.func.id == "sqrt"
        and len(tree.args) == 1
        and not tree.keywords
        and isinstance(tree.args[0], ast.Name)
        and tree.args[0].id == "d"
    )


def _describe(tree: ast.expr) -> str:
    words = {ast.UnaryOp: "this unary sign", ast.Tuple: "a tuple", ast.Starred: "*", ast.NamedExpr: ":="}
    return words.get(type(tree), f"a Python {type(tree).__name__.lower()}")
