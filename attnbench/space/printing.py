"""Expressions as text that parses back, and as LaTeX."""

from __future__ import annotations

from attnbench.space.graph import Node
from attnbench.space.operators import INPUTS

# How tightly a form binds, as in Python: + below * and @, below unary minus, below a call, a name or .T
SUM, PRODUCT, UNARY, ATOM = 1, 2, 3, 4
INFIX = {"mul": " * ", "matmul": " @ "}


def to_text(node: Node) -> str:
    """The formula in the language's own syntax: `parse(to_text(root)).root == root`."""
    return _text(node)[0]


def _text(node: Node) -> tuple[str, int]:
    op = node.op
    if op in INPUTS:
        return op, ATOM
    if op == "add":
        left = _text(node.args[0])[0]
        right = node.args[1]
        if right.op == "neg":
            return f"{left} - {_wrapped(right.args[0], PRODUCT)}", SUM
        return f"{left} + {_wrapped(right, PRODUCT)}", SUM
    if op in INFIX:
        return f"{_wrapped(node.args[0], PRODUCT)}{INFIX[op]}{_wrapped(node.args[1], UNARY)}", PRODUCT
    if op == "neg":
        return f"-{_wrapped(node.args[0], UNARY)}", UNARY
    if op == "T":
        return f"{_wrapped(node.args[0], ATOM)}.T", ATOM
    inside = ", ".join(_text(arg)[0] for arg in node.args)
    axis = f", axis={node.axis}" if node.axis == -2 else ""
    return f"{op}({inside}{axis})", ATOM


def _wrapped(node: Node, needed: int) -> str:
    text, strength = _text(node)
    return text if strength >= needed else f"({text})"


LATEX_CALLS = {
    "abs": r"\left| %s \right|",
    "sqrt": r"\sqrt{%s}",
    "exp": r"e^{%s}",
    "scale": r"\frac{%s}{\sqrt{d}}",
    "zeros": r"0\left(%s\right)",
    "logabs": r"\ln\left| %s \right|",
}
LATEX_NAMES = {"elu1": r"\operatorname{elu}_{+1}", "maximum": r"\max", "log_softmax": r"\operatorname{log\,softmax}"}
LATEX_INFIX = {"mul": r" \odot ", "matmul": " "}


def to_latex(node: Node) -> str:
    """The formula in LaTeX: bold capitals for q, k, v; `T` for token axis where an axis is not the features."""
    return _latex(node)[0]


def _latex(node: Node) -> tuple[str, int]:
    op = node.op
    if op in INPUTS:
        return rf"\mathbf{{{op.upper()}}}", ATOM
    if op == "add":
        right = node.args[1]
        sign, shown = ("-", right.args[0]) if right.op == "neg" else ("+", right)
        return f"{_latex(node.args[0])[0]} {sign} {_latex_wrapped(shown, PRODUCT)}", SUM
    if op in LATEX_INFIX:
        left, right_text = _latex_wrapped(node.args[0], PRODUCT), _latex_wrapped(node.args[1], UNARY)
        return f"{left}{LATEX_INFIX[op]}{right_text}", PRODUCT
    if op == "neg":
        return f"-{_latex_wrapped(node.args[0], UNARY)}", UNARY
    if op == "T":
        return rf"{_latex_wrapped(node.args[0], ATOM)}^{{\top}}", ATOM
    if op == "recip":
        return rf"\frac{{1}}{{{_latex(node.args[0])[0]}}}", UNARY
    inside = ", ".join(_latex(arg)[0] for arg in node.args)
    if op in LATEX_CALLS:
        return LATEX_CALLS[op] % inside, ATOM
    name = LATEX_NAMES.get(op) or rf"\operatorname{{{op}}}"
    axis = r"_{\mathrm{rows}}" if node.axis == -2 else ""
    return rf"{name}{axis}\left({inside}\right)", ATOM


def _latex_wrapped(node: Node, needed: int) -> str:
    text, strength = _latex(node)
    return text if strength >= needed else rf"\left({text}\right)"
