"""One battery over the registry: every operator is complete, and has the properties that it declares."""

import math

import numpy as np
import pytest

from attnbench.space.evaluate import FUNCTIONS, evaluate
from attnbench.space.graph import K, Q, V, build, program
from attnbench.space.operators import OPERATORS, ShapeMismatch, broadcast
from attnbench.space.parse import parse

N, D = 6, 4
UNARY = [name for name, op in OPERATORS.items() if op.arity == 1]
KINDS = ("activation", "normalisation", "reduction", "structure", "binary")


def apply(name: str, *xs: np.ndarray, axis: int = -1) -> np.ndarray:
    options = {"axis": axis} if OPERATORS[name].has_axis else {}
    if name == "scale":
        options["width"] = D
    return FUNCTIONS[name](*xs, **options)


def declaring(prop: str) -> list[str]:
    return [name for name, op in OPERATORS.items() if prop in op.properties]


def every_axis(name: str) -> tuple[int, ...]:
    return (-1, -2) if OPERATORS[name].has_axis else (-1,)


@pytest.fixture
def x() -> np.ndarray:
    """Two samples of two heads, no entry near zero."""
    values = np.random.default_rng(5).standard_normal((2, 2, N, D))
    return values + 0.3 * np.sign(values)


@pytest.fixture
def y() -> np.ndarray:
    values = np.random.default_rng(6).standard_normal((2, 2, N, D))
    return values + 0.3 * np.sign(values)


def same(a, b, tolerance=1e-9):
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1e-300, np.abs(a).max(), np.abs(b).max()))


def test_the_oracle_knows_exactly_the_registered_operators():
    assert set(FUNCTIONS) == set(OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_entries_are_complete(name):
    op = OPERATORS[name]
    assert op.name == name
    assert op.kind in KINDS
    assert op.formula
    assert op.arity in (1, 2)
    assert name in {step.op for step in program(parse_piece(op.example))}


def parse_piece(text: str):
    """The root of an example, which may be the operator on its own."""
    return parse(text).root


@pytest.mark.parametrize("name", OPERATORS)
def test_shapes_are_those_of_the_values(name, x, y):
    """Static shapes, with N and d of different sizes, agree with numpy's for every axis and operand that fits."""
    sizes = {"N": N, "d": D, "1": 1}
    operands = [Q, build("T", K), build("sum", V), build("sum", K, axis=-2), build("matmul", build("T", Q), K)]
    pairs = [(a,) for a in operands] if OPERATORS[name].arity == 1 else [(a, b) for a in operands for b in operands]
    fitting = 0
    for args in pairs:
        for axis in every_axis(name):
            try:
                node = build(name, *args, axis=axis if OPERATORS[name].has_axis else None)
            except ValueError:
                continue
            fitting += 1
            assert evaluate(node, x, y, x).shape[-2:] == (sizes[node.shape[0]], sizes[node.shape[1]])
    assert fitting >= 3


@pytest.mark.parametrize("name", OPERATORS)
def test_values_stay_finite_and_within_one_sample(name):
    rng = np.random.default_rng(7)
    xs = [1e3 * rng.uniform(-1, 1, (3, 2, N, D)) for _ in range(OPERATORS[name].arity)]
    if name == "matmul":
        xs[1] = xs[1].swapaxes(-1, -2)
    zeros = [np.zeros_like(x) for x in xs]
    for axis in every_axis(name):
        out = apply(name, *xs, axis=axis)
        assert np.isfinite(out).all()
        assert np.isfinite(apply(name, *zeros, axis=axis)).all()
        alone = apply(name, *[x[:1] for x in xs], axis=axis)
        mixes = "mixes_batch" in OPERATORS[name].properties
        assert mixes == (not np.allclose(out[:1], alone, rtol=1e-9))


@pytest.mark.parametrize("name", declaring("elementwise"))
def test_elementwise(name, x, y):
    xs, order = (x, y)[: OPERATORS[name].arity], np.random.default_rng(8).permutation(N)
    same(apply(name, *xs)[:, :, order], apply(name, *[x[:, :, order] for x in xs]))
    changed = [x.copy() for x in xs]
    changed[0][..., 0, 0] += 1
    assert (apply(name, *changed)[..., 1:, 1:] == apply(name, *xs)[..., 1:, 1:]).all()


@pytest.mark.parametrize("name", declaring("odd"))
def test_odd(name, x):
    for axis in every_axis(name):
        same(apply(name, -x, axis=axis), -apply(name, x, axis=axis))


@pytest.mark.parametrize("name", declaring("even"))
def test_even(name, x):
    for axis in every_axis(name):
        same(apply(name, -x, axis=axis), apply(name, x, axis=axis))


@pytest.mark.parametrize("name", declaring("linear"))
def test_linear(name, x, y):
    for axis in every_axis(name):
        same(apply(name, 2 * x - 3 * y, axis=axis), 2 * apply(name, x, axis=axis) - 3 * apply(name, y, axis=axis))


@pytest.mark.parametrize("name", declaring("idempotent"))
def test_idempotent(name, x):
    for axis in every_axis(name):
        once = apply(name, x, x) if name == "maximum" else apply(name, x, axis=axis)
        again = apply(name, once, x) if name == "maximum" else apply(name, once, axis=axis)
        same(again, once)


@pytest.mark.parametrize("name", declaring("homogeneous"))
def test_homogeneous(name, x):
    for axis in every_axis(name):
        same(apply(name, 2.5 * x, axis=axis), 2.5 * apply(name, x, axis=axis))


@pytest.mark.parametrize("name", declaring("scale_invariant"))
def test_scale_invariant(name, x):
    for axis in every_axis(name):
        factors = np.exp(x.mean(axis=axis, keepdims=True))
        same(apply(name, factors * x, axis=axis), apply(name, x, axis=axis))


@pytest.mark.parametrize("name", declaring("shift_invariant"))
def test_shift_invariant(name, x):
    for axis in every_axis(name):
        shifts = x.mean(axis=axis if OPERATORS[name].has_axis else (-2, -1), keepdims=True)
        same(apply(name, x + shifts, axis=axis), apply(name, x, axis=axis))


@pytest.mark.parametrize("name", declaring("commutative"))
def test_commutative(name, x, y):
    same(apply(name, x, y), apply(name, y, x))


@pytest.mark.parametrize("name", declaring("nonnegative"))
def test_nonnegative(name, x, y):
    operands = (x, y)[: OPERATORS[name].arity]
    least = min(apply(name, *operands).min(), apply(name, *[0 * x for x in operands]).min())
    assert least >= 0
    assert ("positive" in OPERATORS[name].properties) == (least > 0)


@pytest.mark.parametrize("name", declaring("keeps_zero"))
def test_keeps_zero(name, x):
    for axis in every_axis(name):
        assert not apply(name, 0 * x, axis=axis).any()


@pytest.mark.parametrize("name", declaring("keeps_sign"))
def test_keeps_sign(name, x):
    x = x.copy()
    x[0, 0, 0] = 0
    for axis in every_axis(name):
        assert (np.sign(apply(name, x, axis=axis)) == np.sign(x)).all()


def test_undeclared_properties_do_not_hold(x):
    """The declarations are complete where completeness can be seen: signs, and zero."""
    for name in UNARY:
        out, flipped = apply(name, x), apply(name, -x)
        assert ("odd" in OPERATORS[name].properties) == np.allclose(flipped, -out), name
        if name != "zeros":
            assert ("even" in OPERATORS[name].properties) == np.allclose(flipped, out), name


@pytest.mark.parametrize(("a", "b", "shape"), [("Nd", "N1", "Nd"), ("11", "dd", "dd"), ("1d", "N1", "Nd")])
def test_only_one_stretches(a, b, shape):
    assert broadcast(a, b) == broadcast(b, a) == shape


def test_tokens_and_features_never_broadcast():
    with pytest.raises(ShapeMismatch, match=r"\(N, d\) and \(d, N\) do not broadcast: only 1 stretches"):
        broadcast("Nd", "dN")
    with pytest.raises(ShapeMismatch, match=r"\(N, d\) @ \(N, d\) does not contract: d columns meet N rows"):
        OPERATORS["matmul"].shape("Nd", "Nd")


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("gelu", 1.0, 0.8413447460685429),
        ("sigmoid", 2.0, 1 / (1 + math.exp(-2))),
        ("elu1", -1.0, math.exp(-1)),
        ("elu1", 2.0, 3.0),
        ("exp", 50.0, math.exp(30)),
        ("softsign", -3.0, -0.75),
        ("sqrt", -4.0, 1e-3),
        ("logabs", 0.0, math.log(1e-6)),
        ("recip", 0.5, 0.5 / (0.25 + 1e-6)),
        ("scale", 3.0, 1.5),
    ],
)
def test_values_of_activations(name, at, value):
    assert apply(name, np.full((2, 2), at))[0, 0] == pytest.approx(value, rel=1e-14)


def test_values_of_normalisations():
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    same(apply("l2norm", x), [[0.6, 0.8], [0, 0]])
    same(apply("l1norm", x), [[3 / 7.000001, 4 / 7.000001], [0, 0]])
    same(apply("sumnorm", -x), [[21 / 49.000001, 28 / 49.000001], [0, 0]])
    same(apply("softmax", x, axis=-2)[:, 0], [math.exp(3) / (1 + math.exp(3)), 1 / (1 + math.exp(3))])
    same(apply("layernorm", x)[0], np.array([-0.5, 0.5]) / math.sqrt(0.25 + 1e-6))
    same(apply("standardize", x)[0, 0], (3 - 1.75) / math.sqrt(3.1875 + 1e-6))
    same(apply("minmax", x)[0], [3 / 4.000001, 4 / 4.000001])
    same(apply("batchnorm", x)[:, 0], np.array([1.5, -1.5]) / math.sqrt(2.25 + 1e-5))
    same(apply("distance", x, 0 * x)[0, 0], math.sqrt(25 + 1e-6))
    same(apply("cosine", x, x[:, ::-1])[:, 0], [24 / 25, 0])
