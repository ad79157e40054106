"""The operators of the graph language in torch, and graphs as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from attnbench.space.cost import best_order
from attnbench.space.graph import Graph, program

# Raises whenever a function below changes what it computes: it is part of every protocol's hash.
SEMANTICS_VERSION = 1

BOTH_AXES = (-2, -1)


def l2norm(x: Tensor, axis: int) -> Tensor:
    return x * torch.rsqrt((x * x).sum(axis, keepdim=True) + 1e-12)


def l1norm(x: Tensor, axis: int) -> Tensor:
    return x / (x.abs().sum(axis, keepdim=True) + 1e-6)


def sumnorm(x: Tensor, axis: int) -> Tensor:
    s = x.sum(axis, keepdim=True)
    return x * (s / (s * s + 1e-6))


def over_rows(softmax: Callable[[Tensor, int], Tensor]) -> Callable[[Tensor, int], Tensor]:
    """The same softmax, on narrow rows computed down the columns of the transpose.

    torch's kernel for the last axis is scalar on rows shorter than a vector register: 4 times slower at width 8.
    """

    def apply(x: Tensor, axis: int) -> Tensor:
        if axis == -1 and x.shape[-1] < 16 and x.device.type == "cpu":
            return softmax(x.transpose(-2, -1).contiguous(), -2).transpose(-2, -1)
        return softmax(x, axis)

    return apply


def layernorm(x: Tensor, axis: int) -> Tensor:
    if axis == -2:
        return layernorm(x.transpose(-2, -1), -1).transpose(-2, -1)
    return functional.layer_norm(x, x.shape[-1:], eps=1e-6)


def minmax(x: Tensor) -> Tensor:
    low, high = x.amin(BOTH_AXES, keepdim=True), x.amax(BOTH_AXES, keepdim=True)
    return (x - low) / (high - low + 1e-6)


def distance(a: Tensor, b: Tensor) -> Tensor:
    difference = a - b
    return torch.sqrt((difference * difference).sum(-1, keepdim=True) + 1e-6)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    a, b = torch.broadcast_tensors(a, b)
    return (l2norm(a, -1) * l2norm(b, -1)).sum(-1, keepdim=True)


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "relu": torch.relu,
    "gelu": functional.gelu,
    "sigmoid": torch.sigmoid,
    "elu1": lambda x: functional.elu(x) + 1,
    "exp": lambda x: torch.exp(x.clamp(max=30)),
    "softsign": lambda x: x / (1 + x.abs()),
    "abs": torch.abs,
    "sign": torch.sign,
    "sqrt": lambda x: torch.sqrt(torch.relu(x) + 1e-6),
    "logabs": lambda x: torch.log(x.abs() + 1e-6),
    "recip": lambda x: x / (x * x + 1e-6),
    "neg": torch.neg,
    "softmax": over_rows(torch.softmax),
    "log_softmax": over_rows(torch.log_softmax),
    "l2norm": l2norm,
    "l1norm": l1norm,
    "sumnorm": sumnorm,
    "layernorm": layernorm,
    "standardize": lambda x: functional.layer_norm(x, x.shape[-2:], eps=1e-6),
    "minmax": minmax,
    "sum": lambda x, axis: x.sum(axis, keepdim=True),
    "mean": lambda x, axis: x.mean(axis, keepdim=True),
    "T": lambda x: x.transpose(-2, -1),
    "zeros": torch.zeros_like,
    "identity": lambda x: x,
    "add": torch.add,
    "mul": torch.mul,
    "matmul": torch.matmul,
    "maximum": torch.maximum,
    "distance": distance,
    "cosine": cosine,
}
# `scale` needs the head width, and `batchnorm` keeps running statistics: the module below supplies both.
BY_CONTEXT = ("scale", "batchnorm")


class BatchNorm(nn.Module):
    """`batchnorm`: over samples and rows, per head and column, without affine parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LazyBatchNorm1d(affine=False)

    def forward(self, x: Tensor) -> Tensor:
        channels = x.transpose(-2, -1).flatten(1, 2)  # (B, H·cols, rows)
        return self.norm(channels).unflatten(1, (x.shape[1], x.shape[3])).transpose(-2, -1)


class GraphModule(nn.Module):
    """A graph that runs: (q, k, v), each (B, H, N, d), to (B, H, N, d). No parameters.

    Products are associated in their cheapest order, equal sub-expressions are computed once, and a value is let go
    after its last use.
    """

    def __init__(self, graph: Graph):
        super().__init__()
        self.graph = graph
        self.steps = program(best_order(graph.root))
        last_use = {arg: i for i, step in enumerate(self.steps) for arg in step.args}
        self.spent = [[arg for arg, last in last_use.items() if last == i] for i in range(len(self.steps))]
        self.batchnorms = nn.ModuleDict(
            {str(i): BatchNorm() for i, step in enumerate(self.steps) if step.op == "batchnorm"}
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        inputs = {"q": q, "k": k, "v": v}
        values: list[Any] = []
        for i, (op, args, axis, _) in enumerate(self.steps):
            if op in inputs:
                value = inputs[op]
            elif op == "scale":
                value = values[args[0]] * q.shape[-1] ** -0.5
            elif op == "batchnorm":
                value = self.batchnorms[str(i)](values[args[0]])
            elif axis is None:
                value = FUNCTIONS[op](*[values[a] for a in args])
            else:
                value = FUNCTIONS[op](values[args[0]], axis)
            values.append(value)
            for spent in self.spent[i]:
                values[spent] = None
        return values[-1]

    def extra_repr(self) -> str:
        return self.graph.text


def compile_graph(graph: Graph) -> GraphModule:
    """The graph as a torch module."""
    return GraphModule(graph)
