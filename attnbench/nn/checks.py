"""Dynamic program checks: what only numbers can tell of a graph. Each reason names the sub-expression at fault.

Everything runs on small random inputs in float64, except where the check is about float32, bfloat16 or many tokens.
One token is all zeros, as padding is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import takewhile

import torch
from torch import Tensor

from attnbench.nn.operators import BOTH_AXES, FUNCTIONS
from attnbench.space.check import CheckReport, Reason
from attnbench.space.cost import best_order
from attnbench.space.graph import Graph, Node, Step, program
from attnbench.space.operators import INPUTS
from attnbench.space.printing import to_text

BATCH, HEADS, TOKENS, WIDTH = 3, 2, 13, 6
SCALES = (1e-2, 1.0, 1e2)
MANY_TOKENS = 3136  # 56 × 56, the first stage of a pyramid at 224 px
# Below this share of what a value's size leads to expect, a float64 number is rounding.
NOTHING = 1e-9

Functions = Mapping[str, Callable[..., Tensor]]


def batch_norm(x: Tensor) -> Tensor:
    """`batchnorm` as in training."""
    mean = x.mean((0, 2), keepdim=True)
    return (x - mean) * torch.rsqrt(((x - mean) ** 2).mean((0, 2), keepdim=True) + 1e-5)


OPERATORS: Functions = FUNCTIONS | {"batchnorm": batch_norm}


def check_dynamic(graph: Graph, functions: Functions = OPERATORS, *, first_only: bool = False) -> CheckReport:
    """Runs every dynamic check, cheapest first: `varies`, `gradients`, `mixes`, `batch`, `finite`, `bf16`, `tokens`.

    `functions` are the operators' meanings; tests swap some to prove that a check can fail. With `first_only` the
    first reason ends it.
    """
    steps = program(best_order(graph.root))
    x = random_inputs(3).clone().requires_grad_()
    values = run(steps, functions, *x)
    reasons: list[Reason] = []
    for check in (
        lambda: _varies(steps, values),
        lambda: _gradients(steps, functions, x, values),
        lambda: _mixes(steps, functions, x, values),
        lambda: _batch(steps, functions, values),
        lambda: _finite(steps, functions),
        lambda: _bf16(steps, functions),
        lambda: _many_tokens(steps, functions),
    ):
        reasons += check()
        if reasons and first_only:
            return CheckReport(tuple(reasons[:1]))
    return CheckReport(tuple(reasons))


def run(steps: Sequence[Step], functions: Functions, q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    """The value of every step."""
    inputs = dict(zip(INPUTS, (q, k, v), strict=True))
    values: list[Tensor] = []
    for op, args, axis, _ in steps:
        if not args:
            values.append(inputs[op])
        elif op == "scale":
            values.append(values[args[0]] * q.shape[-1] ** -0.5)
        elif axis is None:
            values.append(functions[op](*[values[a] for a in args]))
        else:
            values.append(functions[op](values[args[0]], axis))
    return values


@cache
def random_inputs(
    seed: int, batch: int = BATCH, heads: int = HEADS, tokens: int = TOKENS, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Stacked q, k, v of standard normal entries, token 1 all zeros. Drawn once; not to be changed."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, batch, heads, tokens, WIDTH, generator=generator, dtype=torch.float64)
    x[..., 1, :] = 0
    return x.to(dtype)


@cache
def _scaled_inputs() -> Tensor:
    """Inputs in float32 of which every sample has another scale."""
    return random_inputs(9, len(SCALES), dtype=torch.float32) * torch.tensor(SCALES).view(-1, 1, 1, 1)


@cache
def _other_batch() -> Tensor:
    """Two samples: the first as in the inputs that the checks begin with, the second another."""
    return torch.cat((random_inputs(3)[:, :1], random_inputs(8)[:, 1:2]), 1)


@cache
def _weights() -> Tensor:
    """Weights of the outputs, so that no gradient cancels by symmetry."""
    return random_inputs(5)[0] + random_inputs(4)[1].abs()


def expression(steps: Sequence[Step], number: int) -> str:
    """A step as text."""

    def node(at: int) -> Node:
        op, args, axis, shape = steps[at]
        return Node(op, tuple(node(a) for a in args), axis, shape, 0)

    return to_text(node(number))


def _varies(steps: Sequence[Step], values: Sequence[Tensor]) -> list[Reason]:
    """The output follows the inputs: two samples give two outputs."""
    if not _differ(values[-1][0], values[-1][1]) <= NOTHING:
        return []
    constant = next(i for i, value in enumerate(values) if _differ(value[0], value[1]) <= NOTHING)
    return [Reason("varies", "the value is the same whatever q, k and v are", expression(steps, constant))]


def _gradients(steps: Sequence[Step], functions: Functions, x: Tensor, values: Sequence[Tensor]) -> list[Reason]:
    """q, k and v each get a finite gradient that is not zero."""
    end = len(steps) - 1
    unusable = _first_non_finite(steps, values, "finite", "not finite at inputs of scale 1")
    if unusable:
        return unusable
    if not values[-1].requires_grad:
        return [Reason("gradients", "no input gets a gradient", expression(steps, end))]
    weights = _weights()
    (gradient,) = torch.autograd.grad((values[-1] * weights).sum(), x, retain_graph=True)
    enough = NOTHING * _size(values[-1])
    if all(math.isfinite(size) and size > enough for size in gradient.abs().amax((1, 2, 3, 4)).tolist()):
        return []
    # Something is wrong: once more, with the gradient of every step.
    values = run(steps, functions, *x)
    kept = [value for value in values if value.requires_grad]
    for value in kept:
        value.retain_grad()
    (values[-1] * weights).sum().backward(inputs=kept)
    sizes = [_size(value.grad) for value in values]
    broken = [i for i, size in enumerate(sizes) if not math.isfinite(size)]
    if broken:
        return [Reason("gradients", "the gradient is not finite", expression(steps, broken[-1]))]
    reasons = []
    for name in INPUTS:
        number = next((i for i, step in enumerate(steps) if step.op == name), None)
        if number is None:
            reasons.append(Reason("gradients", f"{name} gets no gradient: it is not used", expression(steps, end)))
        elif sizes[number] <= enough:
            cut = _where_cut(steps, number, sizes, enough)
            reasons.append(Reason("gradients", f"the gradient of {name} is zero", expression(steps, cut)))
    return reasons


def _where_cut(steps: Sequence[Step], number: int, sizes: Sequence[float], enough: float) -> int:
    """The first step that depends on step `number`, gets a gradient and passes none on to it."""
    depends = {number}
    for i, step in enumerate(steps):
        if depends.intersection(step.args):
            depends.add(i)
    alive = [i for i in sorted(depends) if sizes[i] > enough]
    return alive[0] if alive else number


def _mixes(steps: Sequence[Step], functions: Functions, x: Tensor, values: Sequence[Tensor]) -> list[Reason]:
    """A token's output depends on another token's k or v otherwise than through statistics and denominators."""
    out = values[-1]
    if any(_normalises_tokens(step, steps) for step in steps):
        out = run(steps, {**functions, **DETACHED}, *x)[-1]
    if out.requires_grad:
        (gradient,) = torch.autograd.grad((out * _weights())[..., 0, :].sum(), x)
        others = gradient[1:, ..., 2:, :]
        if _size(others) > NOTHING * max(_size(out), _size(gradient)):
            return []
    return [Reason("mixes", "no other token's k or v reaches a token", expression(steps, len(steps) - 1))]


def _normalises_tokens(step: Step, steps: Sequence[Step]) -> bool:
    """Whether a step takes a statistic or a denominator over tokens."""
    if step.op not in DETACHED:
        return False
    shape = steps[step.args[0]].shape
    return "N" in (shape if step.axis is None else shape[step.axis])


def _batch(steps: Sequence[Step], functions: Functions, values: Sequence[Tensor]) -> list[Reason]:
    """A sample's output is the same whatever the other samples are, and without them."""
    with torch.no_grad():
        both = run(steps, functions, *_other_batch())
        if _differ(values[-1][:1], both[-1][:1]) <= NOTHING:
            return []
        replaced = run(steps, functions, *torch.cat((random_inputs(3)[:, :1], random_inputs(8)[:, 1:]), 1))
    number = next(i for i, value in enumerate(values) if not _differ(value[:1], both[i][:1]) <= NOTHING)
    content = not _differ(values[number][:1], replaced[number][:1]) <= NOTHING
    what = "when the other samples change" if content else "with the number of samples"
    return [Reason("batch", f"a sample's value changes {what}", expression(steps, number))]


def _finite(steps: Sequence[Step], functions: Functions) -> list[Reason]:
    """Output and gradients are finite in float32 at several scales of the inputs, one a sample."""
    x = _scaled_inputs().clone().requires_grad_()
    values = run(steps, functions, *x)
    if not torch.isfinite(values[-1]).all():
        message = f"not finite at inputs of scale {_first_scale(values[-1])}"
        return _first_non_finite(steps, values, "finite", message)
    if values[-1].requires_grad:
        (gradient,) = torch.autograd.grad(values[-1].sum(), x)
        if not torch.isfinite(gradient).all():
            message = f"the gradient is not finite at inputs of scale {_first_scale(gradient.transpose(0, 1))}"
            return [Reason("finite", message, expression(steps, len(steps) - 1))]
    return []


def _first_scale(samples: Tensor) -> str:
    return next(f"{s:g}" for s, x in zip(SCALES, samples, strict=True) if not torch.isfinite(x).all())


def _bf16(steps: Sequence[Step], functions: Functions) -> list[Reason]:
    """The output is finite in bfloat16."""
    with torch.no_grad():
        values = run(steps, functions, *random_inputs(10, batch=1, heads=1, dtype=torch.bfloat16))
    return _first_non_finite(steps, values, "bf16", "not finite in bfloat16")


def _many_tokens(steps: Sequence[Step], functions: Functions) -> list[Reason]:
    """The output is finite with 3,136 tokens."""
    x = random_inputs(11, batch=1, heads=1, tokens=MANY_TOKENS, dtype=torch.float32)
    with torch.no_grad():
        values = run(steps, functions, *x)
    return _first_non_finite(steps, values, "tokens", f"not finite with {MANY_TOKENS} tokens")


def _first_non_finite(steps: Sequence[Step], values: Sequence[Tensor], check: str, message: str) -> list[Reason]:
    if torch.isfinite(values[-1]).all():
        return []
    number = len(list(takewhile(lambda value: bool(torch.isfinite(value).all()), values)))
    return [Reason(check, message, expression(steps, number))]


def _size(x: Tensor | None) -> float:
    return 0.0 if x is None else float(x.detach().abs().max())


def _differ(a: Tensor, b: Tensor) -> float:
    """Largest difference, relative to the largest value; 0 where both are zero everywhere."""
    largest = max(_size(a), _size(b))
    return _size(a - b) / largest if largest != 0 else 0.0


def _centred(x: Tensor, axes: int | tuple[int, ...]) -> Tensor:
    mean = x.mean(axes, keepdim=True).detach()
    return (x - mean) * torch.rsqrt(((x - mean) ** 2).mean(axes, keepdim=True) + 1e-6).detach()


def _l2norm(x: Tensor, axis: int) -> Tensor:
    return x * torch.rsqrt((x * x).sum(axis, keepdim=True) + 1e-12).detach()


def _softmax(x: Tensor, axis: int) -> Tensor:
    weights = torch.exp(x - x.amax(axis, keepdim=True).detach())
    return weights / weights.sum(axis, keepdim=True).detach()


def _sumnorm(x: Tensor, axis: int) -> Tensor:
    s = x.sum(axis, keepdim=True).detach()
    return x * (s / (s * s + 1e-6))


def _minmax(x: Tensor) -> Tensor:
    low, high = x.amin(BOTH_AXES, keepdim=True).detach(), x.amax(BOTH_AXES, keepdim=True).detach()
    return (x - low) / (high - low + 1e-6)


# The normalisations with their statistics and denominators held: mixing through these alone does not count.
DETACHED: Functions = {
    "softmax": _softmax,
    "log_softmax": lambda x, axis: x - x.logsumexp(axis, keepdim=True).detach(),
    "l2norm": _l2norm,
    "l1norm": lambda x, axis: x / (x.abs().sum(axis, keepdim=True).detach() + 1e-6),
    "sumnorm": _sumnorm,
    "layernorm": _centred,
    "standardize": lambda x: _centred(x, BOTH_AXES),
    "minmax": _minmax,
    "batchnorm": lambda x: _centred(x, (0, 2)),
    "cosine": lambda a, b: (_l2norm(a, -1) * _l2norm(b, -1)).sum(-1, keepdim=True),
}
