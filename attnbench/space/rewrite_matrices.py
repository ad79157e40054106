"""Rewrite rules of the matrix product: flat chains, with scalings of rows and columns in one place."""

from __future__ import annotations

from attnbench.space.forms import ONES, ZEROS, Form, chain, is_one, signed, unsigned
from attnbench.space.rewrite import chained, rewrite, rule, transposed
from attnbench.space.rewrite_sums import rewrite_product, stretch, unstretched


@rule("matmul")
def _matmul(op: str, axis: int | None, a: Form, b: Form) -> Form:
    return signed(_matrix_product(unsigned(a), unsigned(b)), a.neg ^ b.neg, a.power + b.power)


def _matrix_product(a: Form, b: Form) -> Form:
    """A flat chain; scalings of its rows and columns move out, those in between into the element on their right."""
    if b.shape[0] == "1":
        return rewrite_product([a, b])
    if a.op == "zeros" or b.op == "zeros":
        return ZEROS[a.shape[0] + b.shape[1]]
    for operand in (a, b):
        if operand.op in ("add", "exp") and _bare(operand) is not operand:
            return _repeated_product(a, b)
    if a.op == "mul" or b.op == "mul":
        outer, left, middle = _split(a, 1)
        outer_b, right, middle_b = _split(b, 0)
        middle = [transposed(factor) for factor in middle] + middle_b
        weighted = _weighted(right, middle)
        if outer or outer_b:
            return rewrite_product([*outer, *outer_b, rewrite("matmul", None, left, weighted)])
        if middle and weighted.op != ("matmul" if right.op == "matmul" else "mul"):
            # The factors have cancelled, or repeat a column: another rule may apply now.
            return rewrite("matmul", None, left, weighted)
        a, b = left, weighted
    parts = (*(a.args if a.op == "matmul" else (a,)), *(unsigned(b).args if b.op == "matmul" else (unsigned(b),)))
    result = signed(chain(parts), b.neg, b.power)
    return _shorter_way(result) if result.shape == "11" else result


def _bare(x: Form) -> Form:
    """Without what only repeats it along an axis."""
    return ONES["11"] if is_one(x) else unstretched(x)


def _repeated_product(a: Form, b: Form) -> Form:
    """One row or column stands for all: repeated rows of `a` and columns of `b` wait, the others meet a sum."""
    shape = a.shape[0] + b.shape[1]
    bare_a, bare_b = _bare(a), _bare(b)
    if bare_a.shape[1] == "1":
        result = rewrite_product([bare_a, rewrite("sum", -2, b)])
    elif bare_b.shape[0] == "1":
        result = rewrite_product([rewrite("sum", -1, a), bare_b])
    else:
        a = stretch(bare_a, bare_a.shape[0] + a.shape[1])
        b = stretch(bare_b, b.shape[0] + bare_b.shape[1])
        result = rewrite("matmul", None, a, b)
    return stretch(result, shape)


def _shorter_way(x: Form) -> Form:
    """A single number may be written from either end: the smaller text of the two."""
    parts = [transposed(part) for part in reversed(unsigned(x).args)]
    other = chain(tuple([unsigned(part) for part in parts]))
    if other.text >= x.text:
        return x
    neg = x.neg ^ (sum([part.neg for part in parts]) % 2 == 1)
    return signed(other, neg, x.power + sum([part.power for part in parts]))


def _split(x: Form, inner: int) -> tuple[list[Form], Form, list[Form]]:
    """Factors of a product that only scale the outer axis, the rest, and those that only scale the `inner` axis."""
    if x.op != "mul":
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
    if first.op != "mul":
        return chained([first, *x.args[1:]])
    parts = (unsigned(first), *x.args[1:])
    return signed(chain(parts), first.neg, first.power)
