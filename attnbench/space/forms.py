"""Canonical sub-expressions: a `Form` is a sign, a power of 1/sqrt(d), and a body whose text identifies it."""

from __future__ import annotations

from collections.abc import Iterable

from attnbench.space.operators import INPUT_SHAPE, INPUTS, Shape, broadcast

# How tightly a text binds, as in Python.
SUM, PRODUCT, ATOM = 1, 2, 3
# What is known of every entry; the negatives say the same of -x.
UNKNOWN, NONNEGATIVE, POSITIVE = 0, 1, 2


class Form:
    """(-1)^neg d^(-power/2) op(args). A signed form shares its body's text; `body` is None where there is no sign."""

    __slots__ = ("args", "axis", "binds", "body", "neg", "op", "power", "range", "shape", "text")

    def __init__(
        self,
        op: str,
        args: tuple[Form, ...],
        axis: int | None,
        shape: Shape,
        text: str,
        binds: int = ATOM,
        range_: int = UNKNOWN,
        neg: bool = False,
        power: int = 0,
        body: Form | None = None,
    ):
        self.op, self.args, self.axis, self.shape, self.text, self.binds = op, args, axis, shape, text, binds
        self.range, self.neg, self.power, self.body = range_, neg, power, body


def signed(form: Form, neg: bool, power: int) -> Form:
    """The form with its sign flipped if `neg` and divided by sqrt(d) `power` more times."""
    if (not neg and not power) or form.op == "zeros":
        return form
    body = form.body or form
    return _with(body, form.neg ^ neg, form.power + power)


def unsigned(form: Form) -> Form:
    """The form's body."""
    return form.body or form


def positive(form: Form) -> Form:
    """The form without its sign, its power kept."""
    return _with(form.body or form, False, form.power) if form.neg else form


def _with(body: Form, neg: bool, power: int) -> Form:
    if not neg and not power:
        return body
    range_ = -body.range if neg else body.range
    return Form(body.op, body.args, body.axis, body.shape, body.text, body.binds, range_, neg, power, body)


def shown(form: Form) -> str:
    """The form as text that parses back to it."""
    if form.body is None:
        return form.text
    text = form.text
    if form.power:
        text = "scale(" * form.power + text + ")" * form.power
    elif form.binds < ATOM:
        text = f"({text})"
    return "-" + text if form.neg else text if form.power else form.text


def call(op: str, args: tuple[Form, ...], axis: int | None, shape: Shape, range_: int = UNKNOWN) -> Form:
    """A body that is written as a call."""
    inside = shown(args[0]) if len(args) == 1 else ", ".join([shown(a) for a in args])
    return Form(op, args, axis, shape, f"{op}({inside}, axis=-2)" if axis == -2 else f"{op}({inside})", ATOM, range_)


def product(args: tuple[Form, ...], shape: Shape) -> Form:
    """Bodies multiplied entry by entry."""
    text = " * ".join([_tight(a) for a in args])
    return Form("mul", args, None, shape, text, PRODUCT, range_of_product(args))


def chain(args: tuple[Form, ...]) -> Form:
    """Bodies multiplied as matrices."""
    text = " @ ".join([_tight(a) for a in args])
    known = range_of_product(args, squares=False)
    return Form("matmul", args, None, args[0].shape[0] + args[-1].shape[1], text, PRODUCT, known)


def total(args: tuple[Form, ...], shape: Shape) -> Form:
    """Signed forms added; the first has no sign."""
    text = shown(args[0])
    for arg in args[1:]:
        if not arg.neg:
            text += " + " + shown(arg)
        else:
            text += " - " + (arg.text if not arg.power else shown(positive(arg)))
    return Form("add", args, None, shape, text, SUM, range_of_sum(args))


def range_of_sum(terms: Iterable[Form]) -> int:
    """Terms on one side of zero have a sum on that side."""
    ranges = [term.range for term in terms]
    low, high = min(ranges), max(ranges)
    return high if low > 0 else low if high < 0 else UNKNOWN


def range_of_product(factors: Iterable[Form], squares: bool = True) -> int:
    """Known factors give a known product; so does a factor that occurs twice, where order does not matter."""
    known, single = POSITIVE, ""
    for factor in factors:
        sign = factor.range
        if sign:
            known = known * sign // 2 if known in (POSITIVE, -POSITIVE) else (known if sign > 0 else -known)
        elif not squares:
            return UNKNOWN
        elif single == factor.text:
            known, single = (NONNEGATIVE if known > 0 else -NONNEGATIVE), ""
        elif single:
            return UNKNOWN
        else:
            single = factor.text
    return UNKNOWN if single else known


def _tight(form: Form) -> str:
    return form.text if form.binds == ATOM else f"({form.text})"


INPUT_FORMS = {name: Form(name, (), None, INPUT_SHAPE, name) for name in INPUTS}
TRANSPOSED_INPUTS = {
    name: Form("T", (form,), None, INPUT_SHAPE[::-1], f"{name}.T") for name, form in INPUT_FORMS.items()
}

# An expression of each shape, so that a constant of that shape can be written down.
_OF_SHAPE = {
    "Nd": "q",
    "dN": "q.T",
    "dd": "q.T @ q",
    "NN": "q @ q.T",
    "N1": "sum(q)",
    "1N": "sum(q).T",
    "1d": "sum(q, axis=-2)",
    "d1": "sum(q, axis=-2).T",
    "11": "sum(sum(q), axis=-2)",
}
ZEROS = {
    shape: Form("zeros", (), None, shape, f"zeros({text})", ATOM, NONNEGATIVE) for shape, text in _OF_SHAPE.items()
}
ONES = {
    shape: Form("exp", (zeros,), None, shape, f"exp({zeros.text})", ATOM, POSITIVE) for shape, zeros in ZEROS.items()
}


def is_one(form: Form) -> bool:
    """Whether a body is 1 everywhere."""
    return form.op == "exp" and form.args[0].op == "zeros"


def stretched(shapes: Iterable[Shape]) -> Shape:
    """Shape of forms combined entry by entry; they are known to broadcast."""
    shape = "11"
    for other in shapes:
        if other != shape:
            shape = broadcast(shape, other)
    return shape
