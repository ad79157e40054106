"""AttnZero's released operators as they compute, to measure what its sampler yields under its own rules.

Values change their number of axes, statistics run over the whole batch, and einsum chooses by the sizes it meets; only
the in-place changes of operands are left out. `space/upstream.py` holds what we make of the same operators.
Source: the released AttnZero code, unary_ops.py, binary_ops.py and graph_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnbench.nn.checks import NOTHING
from attnbench.space.genotype import Genotype
from attnbench.space.upstream import GRAPH_TYPES

# All different, so that no two axes fit by accident: batch, heads, tokens, width.
SIZES = (3, 2, 23, 5)
LEAK = 1e-4


def normalize(x: Tensor) -> Tensor:
    return torch.nan_to_num((x - x.mean()) / x.std(), nan=0.0, posinf=torch.inf, neginf=-torch.inf)


def scale(x: Tensor) -> Tensor:
    _, _, _, width = x.shape
    return x * width**-0.5


UNARY: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda x: x,
    lambda x: x.transpose(-1, -2),
    lambda x: torch.softmax(x, -1),
    lambda x: torch.log(x + 1e-9),
    lambda x: torch.log(torch.where(x == 0, 1.0, x).abs()),
    torch.abs,
    normalize,
    functional.softsign,
    lambda x: 1 / (x + 1e-6),
    torch.sigmoid,
    lambda x: torch.log_softmax(x, -1),
    lambda x: torch.sqrt(x.clamp(min=0)),
    torch.neg,
    lambda x: (x - x.min()) / (x.max() - x.min() + 1e-9),
    torch.sign,
    scale,
    lambda x: functional.elu(x) + 1,
    lambda x: x.sum(2),
    lambda x: x.unsqueeze(-1),
    torch.relu,
    lambda x: functional.normalize(x, dim=-2),
    torch.exp,
    lambda x: x.unsqueeze(0),
    lambda x: x.sum(1),
    lambda x: 1 / (x.repeat(1, 1, 192) + 1e-8),
    lambda x: functional.normalize(x, dim=-1),
    lambda x: 1 - torch.sigmoid(x),
    lambda x: x / x.sum(-1, keepdim=True),
)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """The second operand is overwritten by the first, which leaves the number of samples."""
    rows = a.reshape(a.shape[0], -1)
    return functional.cosine_similarity(rows, rows).sum()


def einsum1(a: Tensor, b: Tensor) -> Tensor:
    (samples, heads, rows, width), (samples_b, heads_b, rows_b, width_b) = a.shape, b.shape
    if (samples, heads, rows) == (samples_b, heads_b, rows_b):
        return a.transpose(-1, -2) @ b
    if (samples, heads, width) == (samples_b, heads_b, width_b):
        return a @ b.transpose(-1, -2)
    raise ValueError(f"einsum1 contracts equal rows or equal columns, got {tuple(a.shape)} and {tuple(b.shape)}")


BINARY: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    torch.add,
    lambda a, b: torch.linalg.vector_norm(a - b + 1e-6, dim=-1),
    torch.mul,
    torch.matmul,
    cosine,
    einsum1,
    lambda a, b: einsum1(a, b).transpose(-1, -2),
    lambda a, b: torch.einsum("bnsd,bnd->bns", a, b),
    lambda a, b: torch.einsum("bti,bi->bt", a, b),
    lambda a, b: torch.cat((a, b), -1),
)


def run_upstream(genotype: Genotype, q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    """The results of the binaries under the released operators; the last is the output.

    Raises: whatever torch raises where shapes do not fit, and ValueError (einsum).
    """
    inputs = {"q": q, "k": k, "v": v}
    results: list[Tensor] = []
    for index, operands in zip(genotype.binary_ops, GRAPH_TYPES[genotype.graph_type], strict=True):
        sides = []
        for source, slots in operands:
            x = results[source] if isinstance(source, int) else inputs[source]
            for slot in slots:
                for op in genotype.unary_ops[slot]:
                    x = UNARY[op](x)
            sides.append(x)
        results.append(BINARY[index](sides[0], sides[1]))
    return results


def upstream_outcome(genotype: Genotype) -> tuple[str, str]:
    """The stage at which a genotype fails under the released operators, and why; `sound` when it does not.

    `forward` is upstream's only own check: the forward runs and its output can be reshaped to that of the inputs. The
    others are what FACTS of its sample are measured by: `shape`, `finite`, `gradients`, `batch`, `mixes`, `linear`.
    """
    x = torch.randn(3, *SIZES, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    try:
        results = run_upstream(genotype, *x)
        out = results[-1]
        out.transpose(1, 2).reshape(SIZES[0], SIZES[2], -1)
    except (RuntimeError, ValueError, IndexError) as error:
        return "forward", f"raises {type(error).__name__}"
    if out.numel() != x[0].numel():
        return "forward", "the output cannot be merged"
    if out.shape != x.shape[1:]:
        return "shape", "the output has other axes than the inputs"
    if not torch.isfinite(out).all():
        return "finite", "the output is not finite"
    if not out.requires_grad:
        return "gradients", "no input gets a gradient"
    (gradient,) = torch.autograd.grad(
        out.sum() + (out * torch.linspace(0, 1, out.shape[-1])).sum(), x, retain_graph=True
    )
    if not torch.isfinite(gradient).all():
        return "gradients", "a gradient is not finite"
    if any(g.abs().max() <= NOTHING for g in gradient):
        return "gradients", "an input's gradient is zero"
    if _leaks(genotype, x.detach(), out):
        return "batch", "a sample's output depends on the others"
    (others,) = torch.autograd.grad((out[:, :, 0] * torch.linspace(0.5, 1.5, SIZES[-1])).sum(), x)
    if others[..., 1:, :].abs().max() <= NOTHING:
        return "mixes", "no token reaches another"
    if any(result.shape[-2:] == (SIZES[2], SIZES[2]) for result in results if result.dim() > 1):
        return "linear", "a value grows with the square of the number of tokens"
    return "sound", ""


def _leaks(genotype: Genotype, x: Tensor, out: Tensor) -> bool:
    """Whether sample 0 changes when the other samples are replaced or left out."""
    others: Any = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    others[:, 0] = x[:, 0]
    largest = out[0].abs().max()
    with torch.no_grad():
        for changed in (others, x[:, :2]):
            try:
                again = run_upstream(genotype, *changed)[-1]
            except (RuntimeError, ValueError, IndexError):
                return True
            if not (again[0] - out[0]).abs().max() <= LEAK * largest:
                return True
    return False
