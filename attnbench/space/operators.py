"""The operators of the graph language: one registry that every evaluator, test, page and check follows.

A value is (B, H, rows, cols). A static shape is two letters, rows then columns, out of `N` (tokens), `d` (head
width) and `1`; `N` and `d` are never equal. Axis -1 is a row's features, axis -2 the rows. Operators have no weights
and, `batchnorm` apart, reduce within one sample and head.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

Shape = str
INPUTS = ("q", "k", "v")
INPUT_SHAPE: Shape = "Nd"


class ShapeMismatch(ValueError):
    """Operands that an operator does not take; the caller adds the sub-expression."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: what it is called, means, takes and satisfies.

    Properties hold to rounding on well-conditioned input and are what the canonical form may use:
    `elementwise` acts on each entry alone · `linear` f(ax+by) = af(x)+bf(y) · `odd` f(-x) = -f(x) · `even` f(-x) = f(x)
    · `idempotent` f(f(x)) = f(x) · `homogeneous` f(cx) = cf(x) for c > 0 · `scale_invariant` f(cx) = f(x) for c > 0 per
    row along its axis · `shift_invariant` f(x + c) = f(x) for c constant along its
    axis, or over both where it has none · `commutative` f(a, b) = f(b, a) · `nonnegative` and `positive` its range ·
    `keeps_zero` f(0) = 0 · `keeps_sign` f(x) has x's sign, entry by entry · `zero_gradient` everywhere · `mixes_batch`
    reduces over samples.
    """

    name: str
    kind: str
    formula: str
    arity: int
    has_axis: bool
    shape: Callable[..., Shape]
    example: str
    upstream: tuple[int, ...] = ()
    source: str = ""
    properties: frozenset[str] = frozenset()


OPERATORS: dict[str, Operator] = {}


def operator(
    name: str,
    kind: str,
    formula: str,
    *properties: str,
    example: str = "",
    upstream: tuple[int, ...] = (),
    source: str = "",
) -> Callable[[Callable[..., Shape]], Callable[..., Shape]]:
    """Registers a shape rule as an operator; arity and axis are read off its signature."""

    def register(rule: Callable[..., Shape]) -> Callable[..., Shape]:
        parameters = list(inspect.signature(rule).parameters)
        has_axis = "axis" in parameters
        OPERATORS[name] = Operator(
            name=name,
            kind=kind,
            formula=formula,
            arity=len(parameters) - has_axis,
            has_axis=has_axis,
            shape=rule,
            example=example or f"{name}(q)",
            upstream=upstream,
            source=source,
            properties=frozenset(properties),
        )
        return rule

    return register


def broadcast(a: Shape, b: Shape) -> Shape:
    """Shape of an elementwise binary: equal sizes, or `1` stretched. Raises: ShapeMismatch."""
    shape = ""
    for x, y in zip(a, b, strict=True):
        if x != y and x != "1" and y != "1":
            raise ShapeMismatch(f"({a[0]}, {a[1]}) and ({b[0]}, {b[1]}) do not broadcast: only 1 stretches")
        shape += y if x == "1" else x
    return shape


def same(x: Shape) -> Shape:
    return x


def along(x: Shape, axis: int) -> Shape:
    return x


def kept_as_one(x: Shape, axis: int) -> Shape:
    return x[0] + "1" if axis == -1 else "1" + x[1]


# ---- activations: elementwise
operator("relu", "activation", "max(x, 0)", "elementwise", "idempotent", "homogeneous", "nonnegative", upstream=(19,))(
    same
)
operator("gelu", "activation", "x Phi(x), by erf", "elementwise", "keeps_zero", source="Hendrycks & Gimpel 2016")(same)
operator("sigmoid", "activation", "1 / (1 + exp(-x))", "elementwise", "nonnegative", "positive", upstream=(9,))(same)
operator(
    "elu1",
    "activation",
    "elu(x) + 1",
    "elementwise",
    "nonnegative",
    "positive",
    upstream=(16,),
    source="Katharopoulos et al. 2020, eq. 7",
)(same)
operator("exp", "activation", "exp(min(x, 30))", "elementwise", "nonnegative", "positive", upstream=(21,))(same)
operator("softsign", "activation", "x / (1 + |x|)", "elementwise", "odd", "keeps_sign", upstream=(7,))(same)
operator("abs", "activation", "|x|", "elementwise", "even", "idempotent", "homogeneous", "nonnegative", upstream=(5,))(
    same
)
operator(
    "sign",
    "activation",
    "-1, 0 or 1",
    "elementwise",
    "odd",
    "idempotent",
    "keeps_sign",
    "zero_gradient",
    upstream=(14,),
)(same)
operator("sqrt", "activation", "sqrt(max(x, 0) + 1e-6)", "elementwise", "nonnegative", "positive", upstream=(11,))(same)
operator("logabs", "activation", "ln(|x| + 1e-6)", "elementwise", "even", upstream=(3, 4))(same)
operator("recip", "activation", "x / (x^2 + 1e-6)", "elementwise", "odd", "keeps_sign", upstream=(8,))(same)
operator("neg", "activation", "-x", "elementwise", "odd", "linear", example="-q", upstream=(12,))(same)

# ---- normalisations: along an axis of one sample's head
operator(
    "softmax", "normalisation", "exp(x) / sum exp(x)", "nonnegative", "positive", "shift_invariant", upstream=(2,)
)(along)
operator("log_softmax", "normalisation", "x - ln sum exp(x)", "idempotent", "shift_invariant", upstream=(10,))(along)
operator(
    "l2norm",
    "normalisation",
    "x rsqrt(sum x^2 + 1e-12)",
    "odd",
    "idempotent",
    "scale_invariant",
    "keeps_sign",
    upstream=(25, 20),
    source="XCiT, El-Nouby et al. 2021, section 3.2",
)(along)
operator("l1norm", "normalisation", "x / (sum |x| + 1e-6)", "odd", "keeps_sign")(along)
operator("sumnorm", "normalisation", "x s / (s^2 + 1e-6), s = sum x", "even", "keeps_zero", upstream=(27,))(along)
operator("layernorm", "normalisation", "(x - mean) / sqrt(var + 1e-6), no affine", "odd", "shift_invariant")(along)
# over both axes of one sample's head
operator(
    "standardize", "normalisation", "(x - mean) / sqrt(var + 1e-6), both axes", "odd", "shift_invariant", upstream=(6,)
)(same)
operator(
    "minmax",
    "normalisation",
    "(x - min) / (max - min + 1e-6), both axes",
    "nonnegative",
    "keeps_zero",
    "shift_invariant",
    upstream=(13,),
)(same)
operator("scale", "normalisation", "x / sqrt(d), d the head width", "elementwise", "odd", "linear", upstream=(15,))(
    same
)
operator(
    "batchnorm",
    "normalisation",
    "(x - mean) / sqrt(var + 1e-5) over samples and rows, per head and column, no affine; running statistics in "
    "evaluation",
    "odd",
    "mixes_batch",
    source="Ioffe & Szegedy 2015",
)(same)

# ---- reductions: the axis is kept as 1
operator("sum", "reduction", "sum x", "odd", "linear", "homogeneous", example="q * sum(k, axis=-2)", upstream=(17,))(
    kept_as_one
)
operator("mean", "reduction", "mean x", "odd", "linear", "homogeneous", example="q * mean(k, axis=-2)")(kept_as_one)


# ---- structure
@operator(
    "T",
    "structure",
    "rows and columns exchanged",
    "linear",
    "odd",
    "homogeneous",
    example="q @ (q.T @ v)",
    upstream=(1,),
)
def transpose(x: Shape) -> Shape:
    return x[::-1]


operator(
    "zeros", "structure", "0 everywhere, in x's shape", "elementwise", "linear", "odd", "idempotent", "zero_gradient"
)(same)
operator("identity", "structure", "x", "elementwise", "linear", "odd", "idempotent", "homogeneous", upstream=(0,))(same)

# ---- binaries
operator("add", "binary", "a + b", "elementwise", "commutative", example="q + k", upstream=(0,))(broadcast)
operator("mul", "binary", "a b, entry by entry", "elementwise", "commutative", example="q * k", upstream=(2,))(
    broadcast
)
operator("maximum", "binary", "max(a, b)", "elementwise", "commutative", "idempotent", example="maximum(q, k)")(
    broadcast
)


@operator("matmul", "binary", "a @ b", example="q @ (k.T @ v)", upstream=(3, 5, 6))
def matmul(a: Shape, b: Shape) -> Shape:
    if a[1] != b[0]:
        raise ShapeMismatch(
            f"({a[0]}, {a[1]}) @ ({b[0]}, {b[1]}) does not contract: {a[1]} columns meet {b[0]} rows; "
            "transpose one with .T"
        )
    return a[0] + b[1]


@operator(
    "distance",
    "binary",
    "sqrt(sum (a - b)^2 + 1e-6) over axis -1",
    "commutative",
    "nonnegative",
    "positive",
    example="v * distance(q, k)",
    upstream=(1,),
)
def distance(a: Shape, b: Shape) -> Shape:
    return broadcast(a, b)[0] + "1"


@operator(
    "cosine", "binary", "cosine of the angle between rows", "commutative", example="v * cosine(q, k)", upstream=(4,)
)
def cosine(a: Shape, b: Shape) -> Shape:
    return broadcast(a, b)[0] + "1"
