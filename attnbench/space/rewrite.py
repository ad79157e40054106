"""The rewrite rules behind the canonical form: one function for each kind of operator, from canonical operands.

Every rule holds exactly, or up to the 1e-12 inside l2norm. Operators with a larger epsilon (l1norm, sumnorm,
layernorm, standardize, minmax, recip, sqrt, logabs) are therefore not treated as free of scale.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from attnbench.space.forms import (
    INPUT_FORMS,
    NONNEGATIVE,
    ONES,
    POSITIVE,
    TRANSPOSED_INPUTS,
    UNKNOWN,
    ZEROS,
    Form,
    call,
    chain,
    is_one,
    positive,
    product,
    shown,
    signed,
    stretched,
    total,
    unsigned,
)
from attnbench.space.operators import OPERATORS


def _having(*properties: str) -> frozenset[str]:
    return frozenset(name for name, op in OPERATORS.items() if op.properties.issuperset(properties))


ELEMENTWISE, EVEN, ODD = _having("elementwise"), _having("even"), _having("odd")
KEEPS_ZERO = ODD | _having("homogeneous") | _having("keeps_zero")
KEEPS_SIGN, SHIFT_INVARIANT = _having("keeps_sign"), _having("shift_invariant")
NONNEGATIVE_RANGE, POSITIVE_RANGE = _having("nonnegative"), _having("positive")
# relu and abs: f(f(x)) = f(x) with all of [0, inf) as range, so they leave what is not negative as it is.
PROJECTIONS = _having("elementwise", "idempotent", "homogeneous", "nonnegative")


@lru_cache(maxsize=1 << 14)
def rewrite(op: str, axis: int | None, *args: Form) -> Form:
    """The canonical form of `op` applied to canonical forms."""
    return _RULES[op](op, axis, *args)


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
            flipped = _chained(args[::-1])
        else:
            flipped = rewrite(body.op, None if body.axis is None else -3 - body.axis, *args)
    return signed(flipped, form.neg, form.power)


# They single out the rows, or the samples' rows, and have no axis to flip.
OPAQUE_TO_T = frozenset({"distance", "cosine", "batchnorm"})


# ---- activations


def _activation(op: str, axis: int | None, x: Form) -> Form:
    if x.op == "zeros" and op in KEEPS_ZERO:
        return x
    neg = False
    if x.neg:
        if op in EVEN:
            x = positive(x)
        elif op in ODD:
            x, neg = positive(x), True
    result = _SPECIAL[op](op, x) if op in _SPECIAL else _plain(op, None, x)
    return signed(result, neg, 0)


def _plain(op: str, axis: int | None, x: Form) -> Form:
    """No rule applies: the operator stays, with what is known of its range."""
    if op in POSITIVE_RANGE:
        known = POSITIVE
    elif op in KEEPS_SIGN and x.range:
        known = x.range
    else:
        known = NONNEGATIVE if op in NONNEGATIVE_RANGE or (op in _NONNEGATIVE_OF_NONNEGATIVE and x.range) else UNKNOWN
    return call(op, (x,), axis, x.shape, known)


_NONNEGATIVE_OF_NONNEGATIVE = frozenset({"gelu", "sumnorm"})


def _projection(op: str, x: Form) -> Form:
    """relu and abs: identity on what is not negative, homogeneous, and through odd functions that keep the sign."""
    body = unsigned(x)
    if body.range:
        return ZEROS[x.shape] if x.neg else x
    if x.power:
        return signed(_projection(op, signed(body, x.neg, 0)), False, x.power)
    if body.op == "mul":
        if op == "abs":
            return rewrite_product([rewrite(op, None, arg) for arg in body.args])
        known = [arg for arg in body.args if arg.range]
        if known:
            rest = rewrite_product([arg for arg in body.args if not arg.range])
            return rewrite_product([*known, rewrite(op, None, signed(rest, x.neg, 0))])
    elif body.op in KEEPS_SIGN and (op == "abs" or body.op in ELEMENTWISE):
        return rewrite(body.op, body.axis, rewrite(op, None, signed(body.args[0], x.neg, 0)))
    return call(op, (x,), None, x.shape, NONNEGATIVE)


def _sign(op: str, x: Form) -> Form:
    """The sign is that of a product's factors, and survives every function that keeps it."""
    x = unsigned(x)
    if x.range == POSITIVE:
        return ONES[x.shape]
    if x.op == "mul":
        return rewrite_product([rewrite("sign", None, arg) for arg in x.args])
    if x.op in KEEPS_SIGN:
        return rewrite("sign", None, x.args[0])
    bare = _unscaled(_unscaled(x, -1), -2)
    return _plain(op, None, x) if bare is x else rewrite("sign", None, bare)


def _exp(op: str, x: Form) -> Form:
    """exp undoes the logarithm of log_softmax, which is never above the 30 where exp stops growing."""
    if x.op == "log_softmax" and x.body is None:
        return rewrite("softmax", x.axis, x.args[0])
    return _plain(op, None, x)


def _sqrt(op: str, x: Form) -> Form:
    """sqrt takes the positive part itself."""
    if x.op == "relu" and not x.neg:
        x = signed(x.args[0], False, x.power)
    return _plain(op, None, x)


def _elu1(op: str, x: Form) -> Form:
    return ONES[x.shape] if x.op == "zeros" else _plain(op, None, x)


_SPECIAL: dict[str, Callable[[str, Form], Form]] = {
    "relu": _projection,
    "abs": _projection,
    "sign": _sign,
    "exp": _exp,
    "sqrt": _sqrt,
    "elu1": _elu1,
}


# ---- normalisations


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
    if x.op == "zeros" and op in KEEPS_ZERO:
        return x
    if op in SHIFT_INVARIANT:
        x = _unshifted(x, axis)
    if x.neg:
        if op in EVEN:
            return _plain(op, axis, positive(x))
        if op in ODD:
            return signed(_plain(op, axis, positive(x)), True, 0)
    return _plain(op, axis, x)


def _unshifted(x: Form, axis: int | None) -> Form:
    """Drops the terms that are constant along the axis (or everywhere), log_softmax's denominator among them."""
    if x.op == "log_softmax" and x.axis == axis:
        return signed(unsigned(x).args[0], x.neg, x.power)
    if x.op != "add":
        return x
    flat = "11" if axis is None else x.shape[0] + "1" if axis == -1 else "1" + x.shape[1]
    kept = [ZEROS[x.shape]]
    for term in unsigned(x).args:
        if term.op == "log_softmax" and term.axis == axis and term.shape == x.shape:
            term = signed(unsigned(term).args[0], term.neg, term.power)
        if term.shape not in (flat, "11"):
            kept.append(term)
    return signed(rewrite_sum(kept), x.neg, x.power)


def _l2norm(op: str, axis: int | None, x: Form) -> Form:
    """Odd, and blind to any positive scaling of its rows (columns, for axis -2)."""
    neg, x = x.neg, unsigned(x)
    if x.op == "zeros":
        return x
    if x.shape == "11":
        axis = -1
    signs: list[Form] = []
    if x.op == "mul" and x.shape[axis or -1] != "1":
        flat = x.shape[0] + "1" if axis == -1 else "1" + x.shape[1]
        rows = [arg for arg in x.args if arg.shape in (flat, "11")]
        rest = [arg for arg in x.args if arg.shape not in (flat, "11")]
        if rows and stretched([arg.shape for arg in rest]) == x.shape:
            signs = [rewrite("sign", None, arg) for arg in rows]
            x = rewrite_product(rest)
    bare = _unscaled(x, axis or -1)
    result = _plain(op, axis, x) if bare is x else rewrite(op, axis, bare)
    if signs:
        result = rewrite_product([result, *signs])
    return signed(result, neg, 0)


def _unscaled(x: Form, axis: int) -> Form:
    """Without the positive factors that are constant along the axis, wherever they can be moved out; the sign stays."""
    if x.body is not None:
        bare = _unscaled(x.body, axis)
        return x if bare is x.body and not x.power else signed(bare, x.neg, 0)
    op = x.op
    if op == "l2norm":
        return x.args[0] if x.axis == axis else x
    if op == "matmul":
        at = 0 if axis == -1 else -1
        bare = _unscaled(x.args[at], axis)
        if bare is x.args[at]:
            return x
        parts = list(x.args)
        parts[at] = bare
        return _chained(parts)
    if op == "mean":
        return _unscaled(rewrite("sum", x.axis, x.args[0]), axis)
    if op in PROJECTIONS or (op == "sum" and x.axis == axis):
        bare = _unscaled(x.args[0], axis)
        return x if bare is x.args[0] else rewrite(op, x.axis, bare)
    if op == "mul":
        return _unscaled_product(x, axis)
    return x


def _unscaled_product(x: Form, axis: int) -> Form:
    flat = x.shape[0] + "1" if axis == -1 else "1" + x.shape[1]
    kept = [
        _unscaled(arg, axis)
        for arg in x.args
        if x.shape == flat or arg.range != POSITIVE or arg.shape not in (flat, "11")
    ]
    if len(kept) == len(x.args) and all(a is b for a, b in zip(kept, x.args, strict=True)):
        return x
    return x if stretched([arg.shape for arg in kept]) != x.shape else rewrite_product(kept)


# ---- reductions


def _reduction(op: str, axis: int | None, x: Form) -> Form:
    """sum and mean: linear, so signs, scales and what is constant along the axis move out of them."""
    symbol = x.shape[axis or -1]
    if symbol == "1":
        return x
    if op == "mean" and symbol == "d":
        return signed(_reduction("sum", axis, x), False, 2)
    neg, power, x = x.neg, x.power, unsigned(x)
    return signed(_reduced(op, -1 if axis is None else axis, x), neg, power)


def _reduced(op: str, axis: int, x: Form) -> Form:
    shape = x.shape[0] + "1" if axis == -1 else "1" + x.shape[1]
    if x.op == "zeros":
        return ZEROS[shape]
    if x.op == "layernorm" and x.axis == axis:
        return ZEROS[shape]
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
            return _chained([*x.args[:-1], rewrite(op, axis, x.args[-1])])
        return _chained([rewrite(op, axis, x.args[0]), *x.args[1:]])
    if x.op in ("sum", "mean") and x.axis == -2 and axis == -1:
        inner = rewrite(op, -1, x.args[0])
        return signed(rewrite(x.op, -2, unsigned(inner)), inner.neg, inner.power)
    result = call(op, (x,), axis, shape, x.range)
    if shape == "11":
        other = _other_way(result)
        return other if other.text < result.text else result
    return result


def _other_way(total_sum: Form) -> Form:
    """The sum over all entries, written over the transpose."""
    outer, inner = total_sum, total_sum.args[0]
    if inner.op not in ("sum", "mean") or inner.axis != -1:
        return total_sum
    entries = transposed(inner.args[0])
    first = call(outer.op, (unsigned(entries),), -1, entries.shape[0] + "1", unsigned(entries).range)
    return signed(call(inner.op, (first,), -2, "11", first.range), entries.neg, entries.power)


# ---- structure and sums


def _neg(op: str, axis: int | None, x: Form) -> Form:
    return signed(x, True, 0)


def _scale(op: str, axis: int | None, x: Form) -> Form:
    return signed(x, False, 1)


def _identity(op: str, axis: int | None, x: Form) -> Form:
    return x


def _zeros(op: str, axis: int | None, x: Form) -> Form:
    return ZEROS[x.shape]


def _transpose(op: str, axis: int | None, x: Form) -> Form:
    return transposed(x)


def _add(op: str, axis: int | None, *terms: Form) -> Form:
    return rewrite_sum(terms)


def _term_order(form: Form) -> tuple[str, int]:
    return form.text, form.power


def rewrite_sum(terms: list[Form] | tuple[Form, ...]) -> Form:
    """Terms flattened, opposite ones cancelled, sorted; the common sign and scale outside."""
    flat: list[Form] = []
    shapes = [term.shape for term in terms]
    shape = shapes[0] if shapes.count(shapes[0]) == len(shapes) else stretched(shapes)
    for term in terms:
        if term.op == "add":
            flat += [signed(inner, term.neg, term.power) for inner in unsigned(term).args]
        elif term.op != "zeros":
            flat.append(term)
    flat.sort(key=_term_order)
    kept: list[Form] = []
    for term in flat:
        if term.op == "zeros":
            continue
        if kept and kept[-1].text == term.text and kept[-1].power == term.power and kept[-1].neg != term.neg:
            kept.pop()
        else:
            kept.append(term)
    if not kept:
        return ZEROS[shape]
    narrow = stretched([term.shape for term in kept]) != shape
    if len(kept) == 1 and not narrow:
        return kept[0]
    neg, power = kept[0].neg, min([term.power for term in kept])
    if neg or power:
        kept = [_divided(term, neg, power) for term in kept]
    known = max([term.range for term in kept]) if all(term.range for term in kept) else UNKNOWN
    if narrow:
        kept.append(ZEROS[shape])
    return signed(total(tuple(kept), shape, known), neg, power)


def _divided(term: Form, neg: bool, power: int) -> Form:
    return signed(unsigned(term), term.neg ^ neg, term.power - power)


# ---- products


def _mul(op: str, axis: int | None, *factors: Form) -> Form:
    return rewrite_product(factors)


def _text(form: Form) -> str:
    return form.text


def rewrite_product(factors: list[Form] | tuple[Form, ...]) -> Form:
    """Factors flattened and sorted; signs and scales outside; zero annihilates and one is neutral."""
    shapes = [factor.shape for factor in factors]
    shape = shapes[0] if shapes.count(shapes[0]) == len(shapes) else stretched(shapes)
    neg, power = False, 0
    flat: list[Form] = []
    for factor in factors:
        if factor.body is not None:
            neg, power, factor = neg ^ factor.neg, power + factor.power, factor.body
        if factor.op == "mul":
            flat += factor.args
        elif factor.op == "zeros":
            return ZEROS[shape]
        elif not is_one(factor):
            flat.append(factor)
    if not flat:
        return signed(ONES[shape], neg, power)
    if len(flat) == 1:
        result = flat[0]
    else:
        flat.sort(key=_text)
        result = product(tuple(flat), stretched([f.shape for f in flat]), _range_of_product(flat))
    if result.shape != shape:
        result = _stretch(result, shape)
    return signed(result, neg, power)


def _stretch(x: Form, shape: str) -> Form:
    """`x` repeated along its axes of one: written as a sum with zeros of the shape."""
    terms = x.args if x.op == "add" else (x,)
    return total((*[t for t in terms if t.op != "zeros"], ZEROS[shape]), shape, x.range)


def _range_of_product(factors: list[Form]) -> int:
    """Known factors give a known product; so does a factor that occurs twice."""
    known, odd = POSITIVE, ""
    for factor in factors:
        if factor.range:
            known = min(known, factor.range)
        elif odd == factor.text:
            known, odd = NONNEGATIVE, ""
        elif odd:
            return UNKNOWN
        else:
            odd = factor.text
    return UNKNOWN if odd else known


def _matmul(op: str, axis: int | None, a: Form, b: Form) -> Form:
    return signed(_matrix_product(unsigned(a), unsigned(b)), a.neg ^ b.neg, a.power + b.power)


def _chained(parts: list[Form]) -> Form:
    result = parts[0]
    for part in parts[1:]:
        result = rewrite("matmul", None, result, part)
    return result


def _matrix_product(a: Form, b: Form) -> Form:
    """A flat chain; scalings of its rows and columns move out, those in between into the element on their right."""
    if b.shape[0] == "1":
        return rewrite_product([a, b])
    if a.op == "zeros" or b.op == "zeros":
        return ZEROS[a.shape[0] + b.shape[1]]
    if a.op == "mul" or b.op == "mul":
        outer, left, middle = _split(a, 1)
        outer_b, right, middle_b = _split(b, 0)
        middle = [transposed(factor) for factor in middle] + middle_b
        if outer or outer_b:
            return rewrite_product([*outer, *outer_b, rewrite("matmul", None, left, _weighted(right, middle))])
        a, b = left, _weighted(right, middle)
    parts = (*(a.args if a.op == "matmul" else (a,)), *(unsigned(b).args if b.op == "matmul" else (unsigned(b),)))
    result = signed(chain(parts, min([part.range for part in parts])), b.neg, b.power)
    return _shorter_way(result) if result.shape == "11" else result


def _shorter_way(x: Form) -> Form:
    """A single number may be written from either end: the smaller text of the two."""
    parts = [transposed(part) for part in reversed(unsigned(x).args)]
    other = chain(tuple([unsigned(part) for part in parts]), unsigned(x).range)
    if other.text >= x.text:
        return x
    neg = x.neg ^ (sum([part.neg for part in parts]) % 2 == 1)
    return signed(other, neg, x.power + sum([part.power for part in parts]))


def _split(x: Form, inner: int) -> tuple[list[Form], Form, list[Form]]:
    """Factors of a product that only scale the outer axis, the rest, and those that only scale the `inner` axis."""
    if x.op != "mul" or x.shape[1 - inner] == "1":
        return [], x, []
    across = [f for f in x.args if f.shape[inner] == "1"]
    along = [f for f in x.args if f.shape[1 - inner] == "1" and f.shape[inner] != "1"]
    full = [f for f in x.args if "1" not in f.shape]
    if not full:
        full, along = along, []
    return across, rewrite_product(full), along


def _weighted(x: Form, rows: list[Form]) -> Form:
    """The body with its rows scaled, in its first element if it is a chain."""
    if not rows:
        return x
    if x.op != "matmul":
        return rewrite_product([*rows, x])
    first = rewrite_product([*rows, x.args[0]])
    parts = (unsigned(first), *x.args[1:])
    return signed(chain(parts, min([part.range for part in parts])), first.neg, first.power)


def _maximum(op: str, axis: int | None, *args: Form) -> Form:
    """Flattened, sorted, each operand once; the common scale and the positive part outside."""
    shape = stretched([arg.shape for arg in args])
    clipped = False
    operands: list[Form] = []
    for arg in args:
        if _clipped_operands(arg, operands):
            clipped = True
    flat = {(item.text, item.power, item.neg): item for item in operands}
    if not flat:
        return ZEROS[shape]
    items = [flat[name] for name in sorted(flat)]
    power = min([item.power for item in items])
    items = [_divided(item, False, power) for item in items]
    if stretched([item.shape for item in items]) != shape:
        items.append(ZEROS[shape])
    if len(items) == 1:
        result = items[0]
    elif len(items) == 2 and items[0].text == items[1].text and items[0].power == items[1].power:
        result = rewrite("abs", None, unsigned(items[0]))
    else:
        result = call("maximum", (items[0], items[1]), None, stretched((items[0].shape, items[1].shape)))
        for item in items[2:]:
            result = call("maximum", (result, item), None, stretched((result.shape, item.shape)))
        result.range = max([item.range for item in items])
    return signed(rewrite("relu", None, result) if clipped else result, False, power)


def _clipped_operands(form: Form, into: list[Form]) -> bool:
    """Adds a maximum's operands, its own for another form; whether zero was one of them."""
    if form.op == "zeros":
        return True
    if form.neg or form.op not in ("maximum", "relu"):
        into.append(form)
        return False
    clipped = form.op == "relu"
    for arg in form.args:
        clipped |= _clipped_operands(signed(arg, False, form.power), into)
    return clipped


def _distance(op: str, axis: int | None, a: Form, b: Form) -> Form:
    """A function of a - b, and even in it: written as the distance of the difference from zero."""
    difference = positive(rewrite("add", None, a, signed(b, True, 0)))
    shape = difference.shape
    text = f"distance({shown(difference)}, {ZEROS[shape].text})"
    return Form("distance", (difference,), None, shape[0] + "1", text, range_=POSITIVE)


def _cosine(op: str, axis: int | None, a: Form, b: Form) -> Form:
    """The sum of products of l2-normalised rows, where both rows have the same width."""
    if a.shape[1] == b.shape[1]:
        normalised = [rewrite("l2norm", -1, a), rewrite("l2norm", -1, b)]
        return rewrite("sum", -1, rewrite_product(normalised))
    bodies = sorted([unsigned(a), unsigned(b)], key=_text)
    shape = stretched((a.shape, b.shape))[0] + "1"
    return signed(call("cosine", tuple(bodies), None, shape), a.neg ^ b.neg, 0)


_RULES: dict[str, Callable[..., Form]] = {
    **{name: _activation for name, op in OPERATORS.items() if op.kind == "activation"},
    **{name: _normalisation for name, op in OPERATORS.items() if op.kind == "normalisation"},
    **{name: _reduction for name, op in OPERATORS.items() if op.kind == "reduction"},
    "neg": _neg,
    "scale": _scale,
    "l2norm": _l2norm,
    "identity": _identity,
    "zeros": _zeros,
    "T": _transpose,
    "add": _add,
    "mul": _mul,
    "maximum": _maximum,
    "matmul": _matmul,
    "distance": _distance,
    "cosine": _cosine,
}
