"""Rewrite rules of the activations: signs, ranges, and what survives an elementwise function."""

from __future__ import annotations

from collections.abc import Callable

from attnbench.space.forms import NONNEGATIVE, ONES, POSITIVE, ZEROS, Form, call, positive, signed, unsigned
from attnbench.space.operators import OPERATORS
from attnbench.space.rewrite import (
    ELEMENTWISE,
    EVEN,
    KEEPS_SIGN,
    KEEPS_ZERO,
    ODD,
    rewrite,
    rule,
)
from attnbench.space.rewrite_axes import plain, unscaled
from attnbench.space.rewrite_sums import rewrite_product, rewrite_sum, stretch, unstretched


@rule(*[name for name, op in OPERATORS.items() if op.kind == "activation" and name != "neg"])
def activation(op: str, axis: int | None, x: Form) -> Form:
    """Odd functions let a sign out, even ones lose it; the special rules see the rest."""
    if x.op == "zeros":
        if op in KEEPS_ZERO:
            return x
        if op not in ("exp", "elu1"):
            return stretch(plain(op, None, ZEROS["11"]), x.shape)
    if x.neg:
        if op in EVEN:
            x = positive(x)
        elif op in ODD:
            return signed(activation(op, axis, positive(x)), True, 0)
    if x.op == "add":
        bare = unstretched(x)
        if bare is not x:
            return stretch(rewrite(op, None, bare), x.shape)
    special = _SPECIAL.get(op)
    return plain(op, None, x) if special is None else special(op, x)


def _projection(op: str, x: Form) -> Form:
    """relu and abs: identity on what is not negative, homogeneous, and through odd functions that keep the sign."""
    if x.range > 0:
        return x
    if x.range < 0:
        return ZEROS[x.shape] if op == "relu" else signed(x, True, 0)
    body = unsigned(x)
    if x.power:
        return signed(rewrite(op, None, signed(body, x.neg, 0)), False, x.power)
    if body.op == "mul":
        if op == "abs":
            return rewrite_product([rewrite(op, None, arg) for arg in body.args])
        known = [arg for arg in body.args if arg.range]
        if known:
            outer = rewrite_product(known)
            inner = rewrite_product([arg for arg in body.args if not arg.range])
            neg = x.neg ^ (outer.range < 0)
            return rewrite_product([rewrite("abs", None, outer), rewrite(op, None, signed(inner, neg, 0))])
    elif body.op in KEEPS_SIGN and (op == "abs" or body.op in ELEMENTWISE):
        return rewrite(body.op, body.axis, rewrite(op, None, signed(body.args[0], x.neg, 0)))
    return call(op, (x,), None, x.shape, NONNEGATIVE)


def _sign(op: str, x: Form) -> Form:
    """The sign is that of a product's factors, and survives every function that keeps it."""
    if x.range in (POSITIVE, -POSITIVE):
        return signed(ONES[x.shape], x.range < 0, 0)
    x = unsigned(x)
    if x.op == "mul":
        return rewrite_product([rewrite(op, None, arg) for arg in x.args])
    if x.op in KEEPS_SIGN:
        return rewrite(op, None, x.args[0])
    if x.op == "sumnorm":
        return rewrite_product([rewrite(op, None, x.args[0]), rewrite(op, None, rewrite("sum", x.axis, x.args[0]))])
    bare = unscaled(unscaled(x, -1), -2)
    return plain(op, None, x) if bare is x else rewrite(op, None, bare)


def _exp(op: str, x: Form) -> Form:
    """exp undoes the logarithm of log_softmax, which is never above the 30 where exp stops growing."""
    if x.op == "log_softmax" and x.body is None:
        return rewrite("softmax", x.axis, x.args[0])
    return plain(op, None, x)


def _sqrt(op: str, x: Form) -> Form:
    """sqrt takes the positive part itself."""
    if x.range < 0:
        return rewrite(op, None, ZEROS[x.shape])
    if x.op == "relu":
        x = signed(x.args[0], False, x.power)
    return plain(op, None, x)


def _softsign(op: str, x: Form) -> Form:
    """e^x / (1 + e^x) is the sigmoid, to 1e-13 where exp stops growing."""
    return rewrite("sigmoid", None, x.args[0]) if x.op == "exp" and x.body is None else plain(op, None, x)


def _elu1(op: str, x: Form) -> Form:
    """x + 1 above zero, exp(x) below."""
    if x.range > 0:
        return rewrite_sum([x, ONES[x.shape]])
    return rewrite("exp", None, x) if x.range < 0 else plain(op, None, x)


_SPECIAL: dict[str, Callable[[str, Form], Form]] = {
    "relu": _projection,
    "abs": _projection,
    "sign": _sign,
    "exp": _exp,
    "sqrt": _sqrt,
    "softsign": _softsign,
    "elu1": _elu1,
}
