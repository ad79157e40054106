"""Time of a simulated search of 1,000 evaluations, beside nats-bench's `simulate_train_eval`.

Processor time, so that other programs on the machine do not count.

    python benchmarks/search.py            # nats-bench is timed where it is installed: pip install nats-bench

The searches run on the closed grid with its real cells and keys. Accuracies are those of the released table where it
covers the grid, else drawn; they steer a search, but a query costs the same. In place of nats-bench's gigabytes, its
own classes are filled with drawn records of the real form: 12 trials of 200 epochs an architecture.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable

from attnbench.errors import AttnBenchError
from attnbench.search.measurements import MeasuredRun, Measurements
from attnbench.search.replay import grid_space, replay
from attnbench.search.spaces import CategoricalSpace
from attnbench.search.trace import Trace

EVALUATIONS = 1_000
SEARCHES = 20
NATS_QUERIES = 100


def main() -> None:
    """Print one line per measurement."""
    started = time.perf_counter()
    space, measurements, origin = _grid()
    print(f"{len(space.cells):,} cells, {len(space):,} functions, accuracies {origin}; one process, median (least) of ")
    print(f"{SEARCHES} searches with different seeds; made ready in {time.perf_counter() - started:.2f} s\n")
    budget = min(EVALUATIONS, len(space))
    for name, repeat_price, what in (
        ("random", 0.0, "without replacement"),
        ("evolution", 1.0, "every query paid"),
        ("evolution", 0.0, "repeats free, until 1,000 distinct functions or 1,000 repeats in a row"),
    ):
        timed = [_search(space, measurements, name, budget, repeat_price, seed) for seed in range(SEARCHES)]
        times, traces = [ms for ms, _ in timed], [trace for _, trace in timed]
        spent = statistics.median(trace.spent for trace in traces)
        queries = statistics.median(len(trace.evaluations) for trace in traces)
        print(
            f"{name:10} {statistics.median(times):8.1f} ms ({min(times):.1f})  "
            f"{spent:,.0f} evaluations in {queries:,.0f} queries; {what}"
        )
    _nats_bench()


def _search(
    space: CategoricalSpace, measurements: Measurements, name: str, budget: int, repeat_price: float, seed: int
) -> tuple[float, Trace]:
    """Milliseconds of processor time of one search, from making the searcher to its finished trace."""
    started = time.process_time()
    trace = replay(space, measurements, name, budget=budget, search_seeds=[seed], repeat_price=repeat_price)[0]
    return 1_000 * (time.process_time() - started), trace


def _grid() -> tuple[CategoricalSpace, Measurements, str]:
    """The closed grid and measurements of all of it."""
    try:
        import attnbench

        bench = attnbench.load()
        measurements = Measurements.from_benchmark(bench)
        space = grid_space(bench, measured=measurements)
        if len(space) >= EVALUATIONS:
            return space, measurements, "from the released table"
    except (AttnBenchError, ValueError, LookupError, OSError) as error:
        print(f"released table not used: {error}", file=sys.stderr)
    from attnbench.space.grid import cell_key, cells

    space = CategoricalSpace({tuple(cell): cell_key(cell) for cell in cells()})
    rng = random.Random(0)
    # Additive over the coordinates, so that evolution has something to climb and comes back to good cells.
    share = {(axis, level): rng.gauss(0, 1) for axis in range(6) for level in sorted({c[axis] for c in space.cells})}
    quality = {space.key(cell): 78 + sum(share[at] for at in enumerate(cell)) for cell in space.cells}
    runs = [MeasuredRun(key, seed, q + rng.gauss(0, 0.4), q, 8.0) for key, q in quality.items() for seed in range(3)]
    return space, Measurements(runs), "drawn (additive landscape, seed sd 0.4)"


def _nats_bench() -> None:
    try:
        from nats_bench.api_topology import NATStopology
        from nats_bench.api_utils import ArchResults, ResultsCount
    except ImportError as error:
        print(f"\nnats-bench was not timed: {error}. pip install nats-bench to see it here.")
        return
    names = [f"|nor_conv_3x3~0|+|none~0|none~1|+|none~0|none~1|skip_connect~{i}|" for i in range(NATS_QUERIES)]
    infos = {}
    for index, name in enumerate(names):
        results = ArchResults(index, name)
        for dataset, sets in (
            ("cifar10-valid", ("x-valid", "ori-test")),
            ("cifar10", ("ori-test",)),
            ("cifar100", ("x-valid", "x-test", "ori-test")),
            ("ImageNet16-120", ("x-valid", "x-test", "ori-test")),
        ):
            for seed in (777, 888, 999):
                results.update(dataset, seed, _trial(ResultsCount, dataset, sets, name, seed))
        infos[index] = {"200": results.state_dict()}
    tables = {"meta_archs": names, "arch2infos": infos, "evaluated_indexes": list(range(len(names)))}
    api = NATStopology(tables, verbose=False)
    rng = random.Random(0)
    times = [
        _ms(lambda: api.simulate_train_eval(rng.randrange(len(names)), "cifar10", hp="200"))
        for _ in range(NATS_QUERIES)
    ]
    print(
        f"\nnats-bench {1000 * statistics.median(times):8.0f} ms ({1000 * min(times):.0f})  a thousand times "
        f"simulate_train_eval(…, hp='200'), from {NATS_QUERIES} calls on a stand-in of its records"
    )


def _trial(make: Callable[..., object], dataset: str, sets: tuple[str, ...], name: str, seed: int) -> object:
    """One training run of 200 epochs in nats-bench's own class."""
    rng = random.Random(seed)
    epochs = range(200)
    curve = {epoch: rng.uniform(10, 90) for epoch in epochs}
    config = {"channel": 16, "num_cells": 5, "arch_str": name, "class_num": 10}
    trial = make(dataset, None, curve, dict(curve), 0.3, 40.0, config, seed, 200, [0.01])
    trial.update_train_info(curve, dict(curve), dict(curve), dict.fromkeys(epochs, 9.0))
    for held_out in sets:
        flat = {f"{held_out}@{epoch}": rng.uniform(10, 90) for epoch in epochs}
        trial.update_eval(flat, dict(flat), dict.fromkeys(flat, 0.5))
    return trial


def _ms(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return 1_000 * (time.process_time() - started)


if __name__ == "__main__":
    main()
