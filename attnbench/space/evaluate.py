"""What every operator means, in numpy and float64: the oracle that canonical forms and torch are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from hashlib import shake_256
from typing import TYPE_CHECKING, Any

from attnbench.space.graph import Graph, Node, program

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

FUNCTIONS: dict[str, Callable[..., Any]] = {}

# Two sizes, so that no equality can rest on the numbers of tokens and features of one of them.
SIGNATURE_SIZES = ((7, 4), (5, 6))
SIGNATURE_SAMPLES = 2
SIGNATURE_TOLERANCE = 1e-8
# Signatures hold four samples, on which one number in sixteen keeps its sign; no sign survives these by luck.
FURTHER_SAMPLES = 48
FURTHER_TOLERANCE = 1e-6


def evaluate(graph: Graph | Node, q: Array, k: Array, v: Array) -> Array:
    """The output of a formula, or the value of a sub-expression, on inputs (..., N, d).

    Returns: float64, of the shape of the inputs for a Graph. Where the leading axes are (B, H), `batchnorm` takes its
    statistics over B and the rows, as in training.
    """
    import numpy as np

    inputs = {name: np.asarray(x, dtype=np.float64) for name, x in zip("qkv", (q, k, v), strict=True)}
    width = inputs["q"].shape[-1]
    values: list[Array] = []
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        for op, args, axis, _ in program(graph.root if isinstance(graph, Graph) else graph):
            if not args:
                values.append(inputs[op])
                continue
            options: dict[str, int] = {} if axis is None else {"axis": axis}
            if op == "scale":
                options["width"] = width
            values.append(FUNCTIONS[op](*[values[i] for i in args], **options))
    return values[-1]


def signature(graph: Graph) -> tuple[float, ...]:
    """16 projections of the output on fixed directions, for fixed random inputs: eight at each of two sizes."""
    import numpy as np

    numbers: list[float] = []
    for q, k, v, directions in _stored_inputs():
        out = evaluate(graph, q, k, v)
        numbers += np.tensordot(directions, out, axes=3).tolist()
    return tuple(numbers)


def same_signature(a: tuple[float, ...], b: tuple[float, ...], tolerance: float = SIGNATURE_TOLERANCE) -> bool:
    """Whether two signatures agree, relative to the largest projection at each size."""
    half = len(a) // 2
    for x, y in ((a[:half], b[:half]), (a[half:], b[half:])):
        if not all(map(math.isfinite, (*x, *y))):
            return False
        largest = max(map(abs, (*x, *y)))
        if max(abs(i - j) for i, j in zip(x, y, strict=True)) > tolerance * max(largest, 1e-9):
            return False
    return True


def same_function(a: Graph, b: Graph) -> bool:
    """Whether two formulas agree: in their signatures, then on many more samples of other sizes and means."""
    import numpy as np

    if not same_signature(signature(a), signature(b)):
        return False
    for inputs in _further_inputs():
        x, y = evaluate(a, *inputs), evaluate(b, *inputs)
        largest = np.maximum(abs(x), abs(y)).max(axis=(-2, -1))
        allowed = FURTHER_TOLERANCE * np.maximum(largest, max(1e-6 * largest.max(), 1e-9))
        if not np.all(abs(x - y).max(axis=(-2, -1)) <= allowed):
            return False
    return True


@cache
def _further_inputs() -> tuple[tuple[Array, ...], ...]:
    """Every sample of every input has a mean and a size of its own: what is mostly positive is now negative too."""
    import numpy as np

    def drawn(name: str, n: int, d: int) -> Array:
        mean, size = standard_normal(f"further {name} {n} {d}", (2, FURTHER_SAMPLES, 1, 1))
        entries = standard_normal(f"further entries {name} {n} {d}", (FURTHER_SAMPLES, n, d))
        return _away_from_zero(mean / 4 + 0.7 * np.exp(size / 4) * entries)

    return tuple(tuple(drawn(name, n, d) for name in "qkv") for n, d in SIGNATURE_SIZES)


@cache
def _stored_inputs() -> tuple[tuple[Array, Array, Array, Array], ...]:
    stored = []
    for n, d in SIGNATURE_SIZES:
        shape = (SIGNATURE_SAMPLES, n, d)
        q, k, v = (_away_from_zero(standard_normal(f"{name} {n} {d}", shape)) for name in "qkv")
        stored.append((q, k, v, standard_normal(f"directions {n} {d}", (8, *shape))))
    return tuple(stored)


def _away_from_zero(x: Array) -> Array:
    """No entry near zero, where the small constants inside l2norm and its kin would be felt."""
    import numpy as np

    return x + 0.25 * np.sign(x)


def standard_normal(label: str, shape: tuple[int, ...]) -> Array:
    """Normal numbers that depend on the label alone, whatever the version of numpy: Box-Muller on SHAKE-256 bytes."""
    import numpy as np

    count = math.prod(shape)
    words = np.frombuffer(shake_256(label.encode()).digest(16 * count), dtype="<u8")
    uniform = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    radius = np.sqrt(-2 * np.log1p(-uniform[:count]))
    return (radius * np.cos(2 * np.pi * uniform[count:])).reshape(shape)


def function(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Registers the meaning of the operator that the function, less a trailing underscore, is named after."""
    FUNCTIONS[rule.__name__.rstrip("_")] = rule
    return rule


# ---- activations


@function
def relu(x: Array) -> Array:
    import numpy as np

    return np.maximum(x, 0)


@function
def gelu(x: Array) -> Array:
    import numpy as np

    # erfc keeps its digits where 1 + erf would cancel.
    tail = np.asarray(np.frompyfunc(math.erfc, 1, 1)(-x / math.sqrt(2)), dtype=np.float64)
    return 0.5 * x * tail


@function
def sigmoid(x: Array) -> Array:
    import numpy as np

    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


@function
def elu1(x: Array) -> Array:
    import numpy as np

    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


@function
def exp(x: Array) -> Array:
    import numpy as np

    return np.exp(np.minimum(x, 30))


@function
def softsign(x: Array) -> Array:
    return x / (1 + abs(x))


@function
def abs_(x: Array) -> Array:
    return abs(x)


@function
def sign(x: Array) -> Array:
    import numpy as np

    return np.sign(x)


@function
def sqrt(x: Array) -> Array:
    import numpy as np

    return np.sqrt(np.maximum(x, 0) + 1e-6)


@function
def logabs(x: Array) -> Array:
    import numpy as np

    return np.log(abs(x) + 1e-6)


@function
def recip(x: Array) -> Array:
    return x / (x * x + 1e-6)


@function
def neg(x: Array) -> Array:
    return -x


# ---- normalisations


@function
def softmax(x: Array, axis: int) -> Array:
    import numpy as np

    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


@function
def log_softmax(x: Array, axis: int) -> Array:
    import numpy as np

    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@function
def l2norm(x: Array, axis: int) -> Array:
    import numpy as np

    return x / np.sqrt((x * x).sum(axis=axis, keepdims=True) + 1e-12)


@function
def l1norm(x: Array, axis: int) -> Array:
    return x / (abs(x).sum(axis=axis, keepdims=True) + 1e-6)


@function
def sumnorm(x: Array, axis: int) -> Array:
    s = x.sum(axis=axis, keepdims=True)
    return x * s / (s * s + 1e-6)


@function
def layernorm(x: Array, axis: int) -> Array:
    return _standardized(x, (axis,), 1e-6)


@function
def standardize(x: Array) -> Array:
    return _standardized(x, (-2, -1), 1e-6)


@function
def minmax(x: Array) -> Array:
    low, high = x.min(axis=(-2, -1), keepdims=True), x.max(axis=(-2, -1), keepdims=True)
    return (x - low) / (high - low + 1e-6)


@function
def scale(x: Array, width: int) -> Array:
    return x / math.sqrt(width)


@function
def batchnorm(x: Array) -> Array:
    return _standardized(x, (0, -2) if x.ndim > 2 else (-2,), 1e-5)


def _standardized(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    import numpy as np

    centred = x - x.mean(axis=axes, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=axes, keepdims=True) + epsilon)


# ---- reductions, structure, binaries


@function
def sum_(x: Array, axis: int) -> Array:
    return x.sum(axis=axis, keepdims=True)


@function
def mean(x: Array, axis: int) -> Array:
    return x.mean(axis=axis, keepdims=True)


@function
def T(x: Array) -> Array:
    return x.swapaxes(-1, -2)


@function
def zeros(x: Array) -> Array:
    return 0 * x


@function
def identity(x: Array) -> Array:
    return x


@function
def add(a: Array, b: Array) -> Array:
    return a + b


@function
def mul(a: Array, b: Array) -> Array:
    return a * b


@function
def matmul(a: Array, b: Array) -> Array:
    return a @ b


@function
def maximum(a: Array, b: Array) -> Array:
    import numpy as np

    return np.maximum(a, b)


@function
def distance(a: Array, b: Array) -> Array:
    import numpy as np

    return np.sqrt(((a - b) ** 2).sum(axis=-1, keepdims=True) + 1e-6)


@function
def cosine(a: Array, b: Array) -> Array:
    import numpy as np

    wide_a, wide_b = np.broadcast_arrays(a, b)
    return (l2norm(wide_a, -1) * l2norm(wide_b, -1)).sum(axis=-1, keepdims=True)
