"""Time and memory of one attention alone: no projections, no network around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from attnbench.nn.operators import compile_graph
from attnbench.space.graph import Graph

SIZES = (64, 256, 1024, 4096)
# One head of a DeiT. With more of them the values of 4,096 tokens outgrow a core's cache, and what is seen then is how
# memory slows down, not how the work grows.
N_HEADS, HEAD_WIDTH = 1, 64

MIN_PASSES, MIN_SECONDS = 5, 0.02


@dataclass(frozen=True)
class Latency:
    """One graph at one number of tokens; the names are the columns of `latency`.

    latency_ms: one forward pass without gradients, the median of several. peak_bytes: the most that was allocated at
    once in one pass, the result counted, q, k and v not.
    """

    n_tokens: int
    latency_ms: float
    peak_bytes: int


def latency(graph: Graph, n_tokens: int, *, n_heads: int = N_HEADS, head_width: int = HEAD_WIDTH) -> Latency:
    """Measures a graph on drawn q, k, v of one image, in float32 on the CPU.

    Passes are timed one by one, five or as many as take 20 ms; two before them are not counted. The clock is the
    calling thread's processor time: with torch.set_num_threads(1), which it needs, that is what the pass takes on a
    quiet machine, and a busy one lengthens it by shared caches only, not by waiting. Denormal numbers are flushed to
    zero: the softmax of a sum over tokens is full of them, and a CPU takes a hundred times longer over each.
    Raises: ValueError.
    """
    if n_tokens < 1:
        raise ValueError(f"n_tokens = {n_tokens}: an attention needs at least one token.")
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, n_heads, n_tokens, head_width, generator=generator)
    attention = compile_graph(graph).eval()
    with torch.inference_mode(), denormals_flushed():
        attention(q, k, v)
        peak = peak_bytes(lambda: attention(q, k, v))
        seconds: list[float] = []
        while len(seconds) < MIN_PASSES or sum(seconds) < MIN_SECONDS:
            start = time.thread_time()
            attention(q, k, v)
            seconds.append(time.thread_time() - start)
    return Latency(n_tokens, 1e3 * median(seconds), peak)


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Inside, numbers too small for a full mantissa are zero; afterwards as torch begins, they are kept."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def peak_bytes(call: Callable[[], Tensor]) -> int:
    """The most memory that tensors made by `call` hold at once on the CPU, in bytes.

    torch's profiler reports every allocation and release of its CPU allocator with its size, those inside an operator
    included, so that the figure has no sampling error and does not depend on what else the process holds. What a
    matrix library takes for itself is not seen.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        call()
    held = peak = 0
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak
