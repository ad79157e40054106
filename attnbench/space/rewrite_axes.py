"""Rewrite rules of what looks along an axis: normalisations, reductions, distance and cosine."""

from __future__ import annotations

from attnbench.space.forms import (
    NONNEGATIVE,
    ONES,
    POSITIVE,
    UNKNOWN,
    ZEROS,
    Form,
    call,
    is_one,
    positive,
    shown,
    signed,
    stretched,
    unsigned,
)
from attnbench.space.operators import OPERATORS
from attnbench.space.rewrite import (
    EVEN,
    KEEPS_SIGN,
    KEEPS_ZERO,
    NONNEGATIVE_RANGE,
    ODD,
    POSITIVE_RANGE,
    PROJECTIONS,
    SHIFT_INVARIANT,
    chained,
    rewrite,
    rule,
    transposed,
)
from attnbench.space.rewrite_sums import by_text, rewrite_product, rewrite_sum


def plain(op: str, axis: int | None, x: Form) -> Form:
    """No rule applies: the operator stays, with what is known of its range."""
    if op in POSITIVE_RANGE:
        known = POSITIVE
    elif op in KEEPS_SIGN:
        known = x.range
    elif op in NONNEGATIVE_RANGE or (op in _NONNEGATIVE_OF_NONNEGATIVE and x.range > 0):
        known = NONNEGATIVE
    else:
        known = -NONNEGATIVE if op == "log_softmax" else UNKNOWN
    return call(op, (x,), axis, x.shape, known)


_NONNEGATIVE_OF_NONNEGATIVE = frozenset({"gelu", "sumnorm"})


@rule(*[name for name, op in OPERATORS.items() if op.kind == "normalisation" and name not in ("l2norm", "scale")])
def _normalisation(op: str, axis: int | None, x: Form) -> Form:
    """softmax, log_softmax, l1norm, sumnorm, layernorm, standardize, minmax, batchnorm."""
    shape = x.shape
    if axis is not None:
        axis = -1 if shape == "11" else axis
        if shape[axis] == "1" and op in SHIFT_INVARIANT:
            return ONES[shape] if op == "softmax" else ZEROS[shape]
    elif "1" in shape and op == "standardize":
        return _normalisation("layernorm", -2 if shape[1] == "1" else -1, x)
    elif shape == "11" and op == "minmax":
        return ZEROS[shape]
    if op in SHIFT_INVARIANT:
        x = _unshifted(x, axis)
    if x.op == "zeros" and op in KEEPS_ZERO:
        return x
    if op == "sumnorm" and x.op == "layernorm" and x.axis == axis:
        return ZEROS[shape]
    if x.neg:
        if op in EVEN:
            x = positive(x)
        elif op in ODD:
            return signed(plain(op, axis, positive(x)), True, 0)
    return plain(op, axis, x)


def _unshifted(x: Form, axis: int | None) -> Form:
    """Drops the terms that are constant along the axis (or everywhere), log_softmax's denominator among them."""
    if x.op == "log_softmax" and x.axis == axis:
        return signed(unsigned(x).args[0], x.neg, x.power)
    if is_one(x):
        return ZEROS[x.shape]
    if x.op != "add":
        return x
    flat = "11" if axis is None else x.shape[0] + "1" if axis == -1 else "1" + x.shape[1]
    kept = [ZEROS[x.shape]]
    for term in unsigned(x).args:
        if term.op == "log_softmax" and term.axis == axis and term.shape == x.shape:
            term = signed(unsigned(term).args[0], term.neg, term.power)
        if term.shape not in (flat, "11") and not is_one(term):
            kept.append(term)
    return signed(rewrite_sum(kept), x.neg, x.power)


@rule("l2norm")
def _l2norm(op: str, axis: int, x: Form) -> Form:
    """Odd, and blind to any positive scaling of its rows (columns, for axis -2)."""
    neg, x = x.neg, unsigned(x)
    if x.op == "zeros":
        return x
    if x.shape[axis] == "1":
        return signed(rewrite("sign", None, x), neg, 0)
    signs, rest = _row_signs(x, axis)
    if signs:
        return signed(rewrite_product([rewrite(op, axis, rest), *signs]), neg, 0)
    bare = unscaled(x, axis)
    return signed(plain(op, axis, x) if bare is x else rewrite(op, axis, bare), neg, 0)


def _row_signs(x: Form, axis: int) -> tuple[list[Form], Form]:
    """The signs of the factors that are constant along the axis, which is all that l2norm sees of them; the rest."""
    if x.op == "sumnorm" and x.axis == axis:
        return [rewrite("sign", None, rewrite("sum", axis, x.args[0]))], x.args[0]
    if x.op != "mul":
        return [], x
    flat = x.shape[0] + "1" if axis == -1 else "1" + x.shape[1]
    rest = [arg for arg in x.args if arg.shape not in (flat, "11")]
    if len(rest) == len(x.args) or stretched([arg.shape for arg in rest]) != x.shape:
        return [], x
    return [rewrite("sign", None, arg) for arg in x.args if arg.shape in (flat, "11")], rewrite_product(rest)


def unscaled(x: Form, axis: int) -> Form:
    """Without the positive factors that are constant along the axis, wherever they can be moved out; the sign stays."""
    if x.body is not None:
        bare = unscaled(x.body, axis)
        return x if bare is x.body and not x.power else signed(bare, x.neg, 0)
    op = x.op
    if op in ("l2norm", "l1norm"):
        return x.args[0] if x.axis == axis else x
    if op == "sumnorm" and x.axis == axis and x.args[0].range > 0:
        return x.args[0]
    if op == "matmul":
        at = 0 if axis == -1 else -1
        bare = unscaled(x.args[at], axis)
        if bare is x.args[at]:
            return x
        parts = list(x.args)
        parts[at] = bare
        return chained(parts)
    if op == "mean":
        return unscaled(rewrite("sum", x.axis, x.args[0]), axis)
    if op in PROJECTIONS or (op in ("sum", "layernorm") and x.axis == axis):
        bare = unscaled(x.args[0], axis)
        return x if bare is x.args[0] else rewrite(op, x.axis, bare)
    if op in ("standardize", "minmax") and x.args[0].power:
        bare = x.args[0]
        return rewrite(op, None, signed(unsigned(bare), bare.neg, 0))
    if op == "mul":
        return _unscaled_product(x, axis)
    return x


def _unscaled_product(x: Form, axis: int) -> Form:
    flat = x.shape[0] + "1" if axis == -1 else "1" + x.shape[1]
    kept = [
        unscaled(arg, axis)
        for arg in x.args
        if x.shape == flat or arg.range != POSITIVE or arg.shape not in (flat, "11")
    ]
    if len(kept) == len(x.args) and all(a is b for a, b in zip(kept, x.args, strict=True)):
        return x
    return x if stretched([arg.shape for arg in kept]) != x.shape else rewrite_product(kept)


@rule("sum", "mean")
def _reduction(op: str, axis: int, x: Form) -> Form:
    """sum and mean: linear, so signs, scales and what is constant along the axis move out of them."""
    symbol = x.shape[axis]
    if symbol == "1":
        return x
    if op == "mean" and symbol == "d":
        return signed(_reduction("sum", axis, x), False, 2)
    neg, power, x = x.neg, x.power, unsigned(x)
    return signed(_reduced(op, axis, x), neg, power)


def _reduced(op: str, axis: int, x: Form) -> Form:
    shape = x.shape[0] + "1" if axis == -1 else "1" + x.shape[1]
    if x.op == "zeros":
        return ZEROS[shape]
    if x.axis == axis and x.op == "layernorm":
        return ZEROS[shape]
    if x.axis == axis and x.op == "softmax" and op == "sum":
        return ONES[shape]
    if x.op == "add":
        full = all(term.shape[axis] != "1" for term in x.args)
        if full or op == "mean":
            return rewrite_sum([rewrite(op, axis, term) for term in x.args])
    if x.op == "mul":
        outer = [arg for arg in x.args if arg.shape[axis] == "1"]
        if outer:
            inner = rewrite_product([arg for arg in x.args if arg.shape[axis] != "1"])
            return rewrite_product([*outer, rewrite(op, axis, inner)])
        if op == "sum":
            across = [arg for arg in x.args if arg.shape[-3 - axis] == "1"]
            if across and len(across) < len(x.args):
                weights = transposed(rewrite_product(across))
                rest = rewrite_product([arg for arg in x.args if arg.shape[-3 - axis] != "1"])
                return rewrite("matmul", None, *((rest, weights) if axis == -1 else (weights, rest)))
    if x.op == "matmul":
        if axis == -1:
            return chained([*x.args[:-1], rewrite(op, axis, x.args[-1])])
        return chained([rewrite(op, axis, x.args[0]), *x.args[1:]])
    if x.op in ("sum", "mean") and x.axis == -2 and axis == -1:
        inner = rewrite(op, -1, x.args[0])
        return signed(rewrite(x.op, -2, unsigned(inner)), inner.neg, inner.power)
    result = call(op, (x,), axis, shape, x.range)
    return _shorter_way(result) if shape == "11" and x.op in ("sum", "mean") else result


def _shorter_way(outer: Form) -> Form:
    """The sum over all entries may be written over the transpose: whatever is simpler, or has the smaller text."""
    inner = outer.args[0]
    entries = transposed(inner.args[0])
    first = rewrite(outer.op, -1, entries)
    if first.op != outer.op or first.args[0].text != entries.text:
        return rewrite(inner.op, -2, first)
    other = call(inner.op, (unsigned(first),), -2, "11", first.range)
    return signed(other, first.neg, first.power) if other.text < outer.text else outer


@rule("distance")
def _distance(op: str, axis: int | None, a: Form, b: Form) -> Form:
    """A function of a - b, and even in it: written as the distance of the difference from zero."""
    difference = positive(rewrite("add", None, a, signed(b, True, 0)))
    shape = difference.shape
    text = f"distance({shown(difference)}, {ZEROS[shape].text})"
    return Form("distance", (difference,), None, shape[0] + "1", text, range_=POSITIVE)


@rule("cosine")
def _cosine(op: str, axis: int | None, a: Form, b: Form) -> Form:
    """The sum of products of l2-normalised rows, where both rows have the same width."""
    if a.shape[1] == b.shape[1]:
        normalised = [rewrite("l2norm", -1, a), rewrite("l2norm", -1, b)]
        return rewrite("sum", -1, rewrite_product(normalised))
    if "zeros" in (a.op, b.op):
        return ZEROS[stretched((a.shape, b.shape))[0] + "1"]
    bodies = sorted([unsigned(a), unsigned(b)], key=by_text)
    shape = stretched((a.shape, b.shape))[0] + "1"
    return signed(call("cosine", tuple(bodies), None, shape), a.neg ^ b.neg, 0)
