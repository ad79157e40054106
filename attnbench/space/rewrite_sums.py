"""Rewrite rules of what is flat: sums, products entry by entry, and maxima."""

from __future__ import annotations

from collections.abc import Sequence

from attnbench.space.forms import ONES, UNKNOWN, ZEROS, Form, call, is_one, product, signed, stretched, total, unsigned
from attnbench.space.rewrite import rewrite, rule


@rule("add")
def _add(op: str, axis: int | None, *terms: Form) -> Form:
    return rewrite_sum(terms)


def _term_order(form: Form) -> tuple[str, int]:
    return form.text, form.power


def rewrite_sum(terms: Sequence[Form]) -> Form:
    """Terms flattened, opposite ones cancelled, sorted; the common sign and scale outside."""
    flat: list[Form] = []
    shapes = [term.shape for term in terms]
    shape = shapes[0] if shapes.count(shapes[0]) == len(shapes) else stretched(shapes)
    for term in terms:
        if term.op == "add":
            flat += [signed(inner, term.neg, term.power) for inner in unsigned(term).args]
        elif is_one(term):
            # One shape for all constants: what they are added to, or zeros, gives the sum its own.
            flat.append(signed(ONES["11"], term.neg, term.power))
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
    if len(kept) == 1:
        if is_one(kept[0]):
            return signed(ONES[shape], kept[0].neg, kept[0].power)
        if not narrow:
            return kept[0]
    neg, power = kept[0].neg, min([term.power for term in kept])
    if neg or power:
        kept = [_divided(term, neg, power) for term in kept]
    if narrow:
        kept.append(ZEROS[shape])
    return signed(total(tuple(kept), shape), neg, power)


def _divided(term: Form, neg: bool, power: int) -> Form:
    return signed(unsigned(term), term.neg ^ neg, term.power - power)


@rule("mul")
def _mul(op: str, axis: int | None, *factors: Form) -> Form:
    return rewrite_product(factors)


def by_text(form: Form) -> str:
    return form.text


def rewrite_product(factors: Sequence[Form]) -> Form:
    """Factors flattened and sorted; signs and scales outside; zero annihilates and one is neutral."""
    shapes = [factor.shape for factor in factors]
    shape = shapes[0] if shapes.count(shapes[0]) == len(shapes) else stretched(shapes)
    neg, power = False, 0
    flat: list[Form] = []
    for factor in factors:
        if factor.body is not None:
            neg, power, factor = neg ^ factor.neg, power + factor.power, factor.body
        if factor.op == "add" and factor.args[-1].op == "zeros":
            factor = unstretched(factor)
        if factor.op == "mul":
            flat += factor.args
        elif factor.op == "zeros":
            return ZEROS[shape]
        elif not is_one(factor):
            flat.append(factor)
    if any(f.op in ("sign", "abs") for f in flat):
        flat = _pair_signs(flat)
        neg ^= sum([f.neg for f in flat]) % 2 == 1
        flat = [unsigned(f) for f in flat]
    if not flat:
        return signed(ONES[shape], neg, power)
    if len(flat) == 1:
        result = flat[0]
    else:
        flat.sort(key=by_text)
        result = product(tuple(flat), stretched([f.shape for f in flat]))
    if result.shape != shape:
        result = stretch(result, shape)
    return signed(result, neg, power)


def _pair_signs(flat: list[Form]) -> list[Form]:
    """x sign(x) = |x|, |x| sign(x) = x and |x| |x| = x x: each x has a number of sizes and a number of signs.

    An even number of signs is 1 only where something else is 0 with x.
    """
    counted = [(_base(f), f) for f in flat]
    bases = {base.text: base for base, f in counted if base is not f}
    rest = [f for base, f in counted if base.text not in bases]
    for text in sorted(bases):
        x = bases[text]
        powers = [_sizes_and_signs(base, f) for base, f in counted if base.text == text]
        sizes, signs = map(sum, zip(*powers, strict=True))
        if not sizes:
            rest.append(rewrite("sign", None, x if signs % 2 else rewrite("abs", None, x)))
        elif sizes % 2 == signs % 2:
            rest += [x] * sizes
        else:
            rest += [x] * (sizes - 1) + [rewrite("abs", None, x)]
    return rest


def _sizes_and_signs(base: Form, form: Form) -> tuple[int, int]:
    if form.op == "sign":
        return 0, 1 if base is form.args[0] else 2
    return 1, int(base is form)


def _base(form: Form) -> Form:
    """x for |x|, sign(x) and sign(|x|); others are their own."""
    if form.op == "sign" and form.args[0].op == "abs":
        return form.args[0].args[0]
    return form.args[0] if form.op in ("sign", "abs") else form


def stretch(x: Form, shape: str) -> Form:
    """`x` repeated along its axes of one: written as a sum with zeros of the shape."""
    return x if x.shape == shape else rewrite_sum([x, ZEROS[shape]])


def unstretched(x: Form) -> Form:
    """Without the zeros that only stretch it, if there are any."""
    if x.op != "add" or unsigned(x).args[-1].op != "zeros":
        return x
    return signed(rewrite_sum(unsigned(x).args[:-1]), x.neg, x.power)


@rule("maximum")
def _maximum(op: str, axis: int | None, *args: Form) -> Form:
    """Flattened, sorted, each operand once; the common scale and the positive part outside."""
    shape = stretched([arg.shape for arg in args])
    clipped = False
    operands: list[Form] = []
    for arg in args:
        if _clipped_operands(arg, operands):
            clipped = True
    flat = {(item.text, item.power, item.neg): item for item in _without_smaller(_folded(operands))}
    if not flat:
        return ZEROS[shape]
    items = [flat[name] for name in sorted(flat)]
    power = min([item.power for item in items])
    items = [_divided(item, False, power) for item in items]
    result = items[0]
    for item in items[1:]:
        ranges = result.range, item.range
        known = max(ranges) if max(ranges) > 0 or 0 not in ranges else UNKNOWN
        result = call("maximum", (result, item), None, stretched((result.shape, item.shape)), known)
    result = signed(rewrite("relu", None, result) if clipped else result, False, power)
    return stretch(result, shape)


def _folded(operands: list[Form]) -> list[Form]:
    """x beside -x becomes |x|."""
    known = {(item.text, item.power, item.neg) for item in operands}
    both = {(text, power) for text, power, neg in known if neg and (text, power, False) in known}
    if not both:
        return operands
    return [
        signed(rewrite("abs", None, unsigned(item)), False, item.power) if (item.text, item.power) in both else item
        for item in operands
    ]


def _without_smaller(items: list[Form]) -> list[Form]:
    """Without what is never above another operand: what is not positive beside what is not negative, x beside |x|."""
    if not any(item.range > 0 for item in items):
        return items
    sizes = {(item.args[0].text, item.power) for item in items if item.op == "abs" and not item.neg}
    return [item for item in items if item.range >= 0 and (item.text, item.power) not in sizes]


def _clipped_operands(form: Form, into: list[Form]) -> bool:
    """Adds a maximum's operands, its own for another form; whether zero was one of them."""
    form = unstretched(form)
    if form.op == "zeros":
        return True
    if form.neg or form.op not in ("maximum", "relu"):
        into.append(form)
        return False
    clipped = form.op == "relu"
    for arg in form.args:
        clipped |= _clipped_operands(signed(arg, False, form.power), into)
    return clipped
