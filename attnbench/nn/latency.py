"""Time and memory of one attention alone: no projections, no network around it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
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

# Other work slows a machine for tens of milliseconds at a time: rounds lie further apart than the passes of one.
N_ROUNDS = 5
MIN_PASSES, MIN_SECONDS = 3, 0.004


# Of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@dataclass(frozen=True)
class Latency:
    """One graph at one number of tokens; the names are the columns of `latency`.

    latency_ms: one forward pass without gradients: the median of a round's, of the fastest round. peak_bytes: the most
    that was allocated at once in one pass, the result counted, q, k and v not.
    """

    n_tokens: int
    latency_ms: float
    peak_bytes: int


def latencies(
    graph: Graph, sizes: Sequence[int] = SIZES, *, n_heads: int = N_HEADS, head_width: int = HEAD_WIDTH
) -> list[Latency]:
    """Measures a graph at some numbers of tokens, on drawn q, k, v of one image, in float32 on the CPU.

    Five rounds go over all sizes, and in each, passes are timed one by one, three or as many as take 4 ms. The clock
    is the calling thread's processor time: in a process with one thread (torch.set_num_threads) that keeps its memory
    (`keep_freed_memory`), that is what the pass takes on a quiet machine, and a busy one lengthens it by shared caches
    only, not by waiting. Denormal numbers are flushed to zero: the softmax of a sum over tokens is full of them, and a
    CPU takes a hundred times longer over each.
    Raises: ValueError.
    """
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes = {list(sizes)}: an attention needs at least one token; pass sizes such as 64, 256.")
    passes = [_one_pass(graph, n_tokens, n_heads, head_width) for n_tokens in sizes]
    with torch.inference_mode(), denormals_flushed():
        peaks = [peak_bytes(one_pass) for one_pass in passes]
        rounds = [[median_ms(one_pass) for one_pass in passes] for _ in range(N_ROUNDS)]
    fastest = map(min, zip(*rounds, strict=True))
    return [Latency(*found) for found in zip(sizes, fastest, peaks, strict=True)]


def median_ms(call: Callable[[], Tensor]) -> float:
    """What a call takes of this thread's processor time, in milliseconds: the median of one round."""
    seconds: list[float] = []
    while len(seconds) < MIN_PASSES or sum(seconds) < MIN_SECONDS:
        start = time.thread_time()
        call()
        seconds.append(time.thread_time() - start)
    return 1e3 * median(seconds)


def _one_pass(graph: Graph, n_tokens: int, n_heads: int, head_width: int) -> Callable[[], Tensor]:
    # Compiled for each size anew: what a `batchnorm` has seen fits one size only.
    attention = compile_graph(graph).eval()
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, n_heads, n_tokens, head_width, generator=generator)
    return lambda: attention(q, k, v)


def keep_freed_memory() -> bool:
    """From now on this process keeps the memory that it frees, where its C library is glibc; elsewhere as before.

    Else every pass over values of a megabyte gets fresh pages from the kernel, which fills them with zeros: that can
    take as long as the pass, and is no property of the attention. Returns: whether the C library agreed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # 32 MiB is the most that glibc takes.
    return mallopt(_M_MMAP_THRESHOLD, 32 * 2**20) == 1 and mallopt(_M_TRIM_THRESHOLD, 2**30) == 1


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
