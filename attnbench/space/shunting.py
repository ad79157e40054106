"""Plain formulas read by a shunting yard, several times faster than by Python's parser.

It takes the spelling that formulas are printed in, and gives up on everything else, valid or not: `parse` then reads
the formula with `ast`, which knows all of the syntax and where an error is. A test holds the two equal.
"""

from __future__ import annotations

import re

from attnbench.errors import InvalidGraph
from attnbench.space.graph import Node, build

# Anything that is not a space is a token, so nothing is passed over.
_TOKENS = re.compile(r"axis=-[12](?![\w.])|[A-Za-z_]\w*\(?|/ ?sqrt\(d\)|\.T(?!\w)|[^ ]", re.ASCII).findall
_BINARY = {"+": (1, "add"), "-": (1, "sub"), "*": (2, "mul"), "@": (2, "matmul"), "/": (2, "div")}
_NEG = (3, "neg")
_AXES = {"axis=-1": -1, "axis=-2": -2}
# More open parentheses and pending operators than any valid formula needs.
_MAX_PENDING = 40


def read_plain(text: str, inputs: dict[str, Node], calls: frozenset[str]) -> Node | None:
    """The expression, or None where only the full parser can tell; `calls` are the operators' names with a `(`."""
    values: list[Node] = []
    pending: list[tuple[int, str]] = []
    opened: list[int] = []
    operand, closed = False, False
    axis = None
    try:
        for token in _TOKENS(text):
            if axis is not None and token != ")":
                return None
            if not operand:
                if token in inputs:
                    values.append(inputs[token])
                    operand = True
                elif token in calls or token == "(":
                    if len(pending) > _MAX_PENDING:
                        return None
                    pending.append((0, token))
                    opened.append(len(values))
                elif token == "-":
                    pending.append(_NEG)
                elif token in _AXES and opened and len(values) > opened[-1] and pending[-1][0] == 0:
                    axis = _AXES[token]
                    operand = True
                else:
                    return None
            elif token in _BINARY:
                strength, _ = entry = _BINARY[token]
                while pending and pending[-1][0] >= strength:
                    _apply(values, pending.pop()[1])
                pending.append(entry)
                operand = closed = False
            elif token == ".T" and not closed:
                values[-1] = build("T", values[-1])
            elif token == ")" or token == ",":
                while pending and pending[-1][0]:
                    _apply(values, pending.pop()[1])
                if not pending:
                    return None
                closed = False
                name = pending[-1][1]
                if token == ",":
                    if name == "(":
                        return None
                    operand = False
                    continue
                pending.pop()
                start = opened.pop()
                if name != "(":
                    values[start:] = [build(name[:-1], *values[start:], axis=axis)]
                    axis = None
            elif token[0] == "/":
                while pending and pending[-1][0] >= 2:
                    _apply(values, pending.pop()[1])
                values[-1] = build("scale", values[-1])
                closed = True
            else:
                return None
        if opened or not operand:
            return None
        while pending:
            _apply(values, pending.pop()[1])
    except InvalidGraph:
        return None
    return values[0]


def _apply(values: list[Node], op: str) -> None:
    last = values.pop()
    if op == "neg":
        values.append(build("neg", last))
    elif op == "sub":
        values[-1] = build("add", values[-1], build("neg", last))
    elif op == "div":
        values[-1] = build("mul", values[-1], build("recip", last))
    else:
        values[-1] = build(op, values[-1], last)
