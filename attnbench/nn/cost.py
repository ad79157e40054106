"""What a graph costs in a backbone: parameters, multiply-adds by formula and by counting, time of a training step."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from statistics import median
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attnbench.nn.attention import FrameAttention
from attnbench.nn.backbones import backbone_config, build_backbone
from attnbench.nn.operators import compile_graph
from attnbench.nn.protocol import Protocol
from attnbench.nn.proxies.passes import standalone
from attnbench.nn.train import FlatAdamW
from attnbench.space.graph import Graph, V


def count_params(model: nn.Module) -> int:
    """Parameters of a model, frozen ones too."""
    return sum(parameter.numel() for parameter in model.parameters())


def count_macs(model: nn.Module, image_shape: tuple[int, ...]) -> int:
    """Multiply-adds of one image (channels, rows, cols) through a model, counted as torch runs its products.

    Products of matrices, einsums, convolutions and fused attentions count, sums and norms do not. The model stays as
    it was.
    """
    like = next(model.parameters())
    copy = standalone(model, like.dtype).requires_grad_(False)
    with FlopCounterMode(display=False, custom_mapping=UNCOUNTED) as counter, torch.inference_mode():
        copy(torch.zeros(1, *image_shape, dtype=like.dtype, device=like.device))
    return counter.get_total_flops() // 2


def attention_flops(q: Sequence[int], k: Sequence[int], v: Sequence[int], *_: object, **__: object) -> int:
    """Floating-point operations of a fused softmax(q @ k.T) @ v, from the shapes (B, H, N, d), (B, H, M, d)."""
    return 2 * math.prod(q[:3]) * k[2] * (q[3] + v[3])


def vector_flops(a: Sequence[int], *_: object, **__: object) -> int:
    """Floating-point operations of the product of a vector or matrix of this shape with a vector."""
    return 2 * math.prod(a)


# What torch's counter passes over.
UNCOUNTED = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flops,
    torch.ops.aten.mv: vector_flops,
    torch.ops.aten.dot: vector_flops,
}


def graph_macs(graph: Graph, backbone: str) -> int:
    """Multiply-adds of one image through a backbone with this attention.

    The layers around the graph are counted once; the graph's own products follow from its cost polynomial at every
    attention's number of tokens and head width.
    """
    frame = _frame(backbone)
    return frame.macs + sum(heads * graph.cost.macs(tokens, width) for heads, tokens, width in frame.sizes)


def backbone_params(backbone: str) -> int:
    """Parameters of a backbone, micro or full; graphs have none."""
    return _frame(backbone).params


class _Frame(NamedTuple):
    """A backbone around its graphs: parameters, multiply-adds of one image, and the sizes of its attentions."""

    params: int
    macs: int
    sizes: tuple[tuple[int, int, int], ...]


@lru_cache
def _frame(backbone: str) -> _Frame:
    model = without_weights(backbone, Graph(V))
    return _Frame(count_params(model), count_macs(model, image_shape(backbone)), tuple(attentions(model)))


def without_weights(backbone: str, graph: Graph) -> nn.Module:
    """A backbone on the device "meta": its shapes without values, so that the full sizes are counted in a second."""
    with torch.device("meta"):
        return backbone_config(backbone).build(compile_graph(graph))


def attentions(model: nn.Module) -> Iterator[tuple[int, int, int]]:
    """Heads, tokens and head width of every searched attention of a model; heads of all windows together."""
    for module in model.modules():
        if isinstance(module, FrameAttention):
            yield from module.graph_sizes()


def image_shape(backbone: str) -> tuple[int, int, int]:
    """Channels, rows and columns of a backbone's images."""
    config = backbone_config(backbone)
    return (config.n_channels, *config.image_size)


def step_ms(graph: Graph, backbone: str, recipe: Protocol, *, n_steps: int = 7, n_warmup: int = 2) -> float:
    """Milliseconds of one training step of the protocol, the median of `n_steps` on drawn images.

    Only meaningful on a quiet machine with one thread: torch.set_num_threads(1).
    """
    model = build_backbone(backbone, compile_graph(graph), seed=0)
    optimiser = FlatAdamW(model, recipe)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(recipe.batch_size, *image_shape(backbone), generator=generator)
    labels = torch.randint(10, (recipe.batch_size,), generator=generator)
    times = []
    for _ in range(n_warmup + n_steps):
        start = time.perf_counter()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.item()
        loss.backward()
        optimiser.step(recipe.learning_rate)
        times.append(time.perf_counter() - start)
    return 1e3 * median(times[n_warmup:])
