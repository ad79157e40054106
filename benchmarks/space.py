"""Speed of the graph language, its checks and its samplers. `python benchmarks/space.py`, about a minute.

What is compared: sound graphs a second, from the released distribution, by three ways. As released: every raw draw is
tried by running it. By shape: raw draws are translated, which refuses most of them without running anything. By
construction: only promising genotypes are drawn. All three end with the same checks, cheapest first.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections.abc import Callable, Iterator

import torch

from attnbench.errors import InvalidGraph
from attnbench.nn.checks import check_dynamic
from attnbench.nn.upstream import SIZES, run_upstream
from attnbench.space.check import check
from attnbench.space.genotype import Genotype
from attnbench.space.graph import Graph
from attnbench.space.grid import cell_graph, cells
from attnbench.space.sample import draw_genotype
from attnbench.space.typed import TypedSampler


def per_second(work: Callable[[], int], seconds: float) -> float:
    """Items a second, `work` being repeated for a while; it returns how many items it did."""
    work()
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        done += work()
    return done / (time.perf_counter() - start)


def raw(rng: random.Random) -> Iterator[Genotype]:
    while True:
        yield draw_genotype(rng)


def as_released(rng: random.Random) -> Iterator[Graph | None]:
    """One outcome a raw draw, which is tried by running the released operators on a small batch."""
    x = torch.randn(3, *SIZES, generator=torch.Generator().manual_seed(0))
    for genotype in raw(rng):
        try:
            with torch.no_grad():
                out = run_upstream(genotype, *x)[-1]
            out.transpose(1, 2).reshape(SIZES[0], SIZES[2], SIZES[1] * SIZES[3])
            yield genotype.to_graph()
        except (RuntimeError, ValueError, IndexError):
            yield None


def by_shape(rng: random.Random) -> Iterator[Graph | None]:
    """One outcome a raw draw, refused by its static shapes."""
    for genotype in raw(rng):
        try:
            yield genotype.to_graph()
        except InvalidGraph:
            yield None


def by_construction(rng: random.Random) -> Iterator[Graph | None]:
    sampler = TypedSampler("promising")
    while True:
        yield sampler.draw(rng).to_graph()


def is_sound(graph: Graph) -> bool:
    return check(graph).ok and check_dynamic(graph, first_only=True).ok


def sound_rate(graphs: Iterator[Graph | None], seconds: float) -> tuple[int, int, int, float]:
    """Draws, sound graphs, distinct ones by key, and sound graphs a second, all checks included."""
    next(graphs)  # builds the sampler's tables, once
    draws, sound, keys = 0, 0, set()
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        graph = next(graphs)
        draws += 1
        if graph is not None and is_sound(graph):
            sound += 1
            keys.add(graph.key)
    return draws, sound, len(keys), sound / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10, help="for each sampler")
    seconds = parser.parse_args().seconds
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="std")  # of a single number, where upstream's normalize meets one

    grid = [cell_graph(cell) for cell in cells()]
    sampler = TypedSampler("graph")
    rng = random.Random(0)
    wild = [sampler.draw(rng) for _ in range(1000)]
    graphs = [genotype.to_graph() for genotype in wild]
    print("graph language, items a second")
    for what, work in {
        "static checks, grid": lambda: sum(check(graph) is not None for graph in grid),
        "static checks, wild": lambda: sum(check(graph) is not None for graph in graphs),
        "wild draws (conditioned)": lambda: sum(sampler.draw(rng) is not None for _ in range(500)),
        "raw draws": lambda: sum(draw_genotype(rng) is not None for _ in range(500)),
        "genotype to graph, wild": lambda: sum(genotype.to_graph() is not None for genotype in wild),
        "dynamic checks, grid": lambda: sum(check_dynamic(graph) is not None for graph in grid[:40]),
    }.items():
        print(f"  {what:<28} {per_second(work, min(2.0, seconds)):>10,.0f}")

    print("\nsound graphs of the released distribution, end to end")
    print(f"  {'sampler':<18} {'draws':>9} {'sound':>7} {'distinct':>9} {'yield':>9} {'sound/s':>9} {'ratio':>7}")
    base = None
    for what, make in {
        "as released": as_released,
        "by shape": by_shape,
        "by construction": by_construction,
    }.items():
        draws, sound, distinct, rate = sound_rate(make(random.Random(1)), seconds)
        base = base or rate
        counts = f"{draws:>9,} {sound:>7,} {distinct:>9,} {sound / draws:>9.2%}"
        print(f"  {what:<18} {counts} {rate:>9.1f} {rate / base:>7.1f}")


if __name__ == "__main__":
    main()
