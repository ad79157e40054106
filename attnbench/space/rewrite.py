"""How canonical forms are made: a registry of rewrite rules, one for each operator, and the transpose.

Every rule holds exactly, or up to the 1e-12 inside l2norm. Operators with a larger epsilon (l1norm, sumnorm,
layernorm, standardize, minmax, recip, sqrt, logabs) are therefore not treated as free of scale.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from attnbench.space.forms import INPUT_FORMS, TRANSPOSED_INPUTS, ZEROS, Form, signed, unsigned
from attnbench.space.operators import OPERATORS

Rule = Callable[..., Form]
RULES: dict[str, Rule] = {}


def having(*properties: str) -> frozenset[str]:
    """The operators that declare all of the properties."""
    return frozenset(name for name, op in OPERATORS.items() if op.properties.issuperset(properties))


ELEMENTWISE, EVEN, ODD = having("elementwise"), having("even"), having("odd")
KEEPS_ZERO = ODD | having("homogeneous") | having("keeps_zero")
KEEPS_SIGN, SHIFT_INVARIANT = having("keeps_sign"), having("shift_invariant")
NONNEGATIVE_RANGE, POSITIVE_RANGE = having("nonnegative"), having("positive")
# relu and abs: f(f(x)) = f(x) with all of [0, inf) as range, so they leave what is not negative as it is.
PROJECTIONS = having("elementwise", "idempotent", "homogeneous", "nonnegative")
# They single out the rows, or the samples' rows, and have no axis to flip.
OPAQUE_TO_T = frozenset({"distance", "cosine", "batchnorm"})


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers `rule(op, axis, *forms) -> form` for the operators named."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


@lru_cache(maxsize=1 << 14)
def rewrite(op: str, axis: int | None, *args: Form) -> Form:
    """The canonical form of `op` applied to canonical forms."""
    return RULES[op](op, axis, *args)


def chained(parts: list[Form]) -> Form:
    """The matrix product of forms, left to right."""
    result = parts[0]
    for part in parts[1:]:
        result = rewrite("matmul", None, result, part)
    return result


@lru_cache(maxsize=1 << 12)
def transposed(form: Form) -> Form:
    """The canonical form with rows and columns exchanged: T moves to the leaves and axes flip."""
    body, shape = unsigned(form), form.shape[::-1]
    if shape == "11":
        return form
    if body.op in INPUT_FORMS:
        flipped = TRANSPOSED_INPUTS[body.op]
    elif body.op == "zeros":
        return ZEROS[shape]
    elif body.op == "T":
        flipped = body.args[0]
    elif body.op in OPAQUE_TO_T:
        flipped = Form("T", (body,), None, shape, f"{body.text}.T", range_=body.range)
    else:
        args = [transposed(arg) for arg in body.args]
        if body.op == "matmul":
            flipped = chained(args[::-1])
        else:
            flipped = rewrite(body.op, None if body.axis is None else -3 - body.axis, *args)
    return signed(flipped, form.neg, form.power)


@rule("T")
def _transpose(op: str, axis: int | None, x: Form) -> Form:
    return transposed(x)


@rule("neg")
def _neg(op: str, axis: int | None, x: Form) -> Form:
    return signed(x, True, 0)


@rule("scale")
def _scale(op: str, axis: int | None, x: Form) -> Form:
    return signed(x, False, 1)


@rule("identity")
def _identity(op: str, axis: int | None, x: Form) -> Form:
    return x


@rule("zeros")
def _zeros(op: str, axis: int | None, x: Form) -> Form:
    return ZEROS[x.shape]
