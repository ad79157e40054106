"""The stages of a backbone: their tokens, and which of their blocks carry the searched attention."""

from __future__ import annotations

import re

from attnbench.nn.attention import GraphFunction, Grid
from attnbench.nn.operators import GraphModule, compile_graph
from attnbench.nn.padding import Size, patch_grid


def searched_blocks(letters: str, depths: tuple[int, ...]) -> tuple[tuple[bool, ...], ...]:
    """For every stage, whether each of its blocks is searched.

    A: all of them; B: none, they keep the original softmax attention; M2: the first two. So "AAM2B" has four stages.
    Raises: ValueError. Source: the stage strings of AttnZero's configs (there "AAMB" and a 2 beside it).
    """
    stages = re.findall(r"A|B|M\d+", letters)
    if "".join(stages) != letters or len(stages) != len(depths):
        raise ValueError(
            f"{letters!r} does not say which blocks of {len(depths)} stages are searched; write for each stage A (all "
            "of its blocks), B (none) or M and a number (so many first blocks), such as 'AAM2B' for four."
        )
    numbers = {"A": depths, "B": (0,) * len(depths)}
    counts = [numbers[stage][i] if stage in numbers else int(stage[1:]) for i, stage in enumerate(stages)]
    for stage, count, depth in zip(stages, counts, depths, strict=True):
        if count > depth:
            raise ValueError(f"{stage} in {letters!r} searches {count} blocks of a stage that has {depth}; use A.")
    return tuple(tuple(i < count for i in range(depth)) for count, depth in zip(counts, depths, strict=True))


def pyramid_grids(size: Size, patch_size: Size, n_stages: int, prefix: int = 0) -> tuple[Grid, ...]:
    """The tokens of each stage, each with half the rows and columns of the one before; `prefix` more in the last.

    Raises: ValueError where patches would leave pixels out, or a stage cannot be halved.
    """
    sizes = [patch_grid(size, patch_size)]
    for _ in range(n_stages - 1):
        sizes.append(patch_grid(sizes[-1], (2, 2)))
    return tuple(Grid(*side, prefix=prefix if i == n_stages - 1 else 0) for i, side in enumerate(sizes))


def need_one_each(n_stages: int, **values: tuple[object, ...]) -> None:
    """Raises: ValueError where a setting does not have one value for each stage."""
    for name, given in values.items():
        if len(given) != n_stages:
            raise ValueError(f"{name} = {given} has {len(given)} values for {n_stages} stages; give one for each.")


def for_one_attention(graph: GraphFunction) -> GraphFunction:
    """The graph for one attention of many: what a `batchnorm` in it has seen fits this attention's size only."""
    return compile_graph(graph.graph) if isinstance(graph, GraphModule) else graph
