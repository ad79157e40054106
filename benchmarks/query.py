"""How fast is a look-up? attnbench beside NATS-Bench, NAS-Bench-Graph and a plain dict, in one run on one machine.

    pip install --no-deps --target build/peers nats-bench nas-bench-graph
    PYTHONPATH=build/peers python benchmarks/query.py

A peer that is not installed is named and left out. NATS-Bench's data is a download of its own, so its query path runs
on 200 made-up architectures in its own format, 200 epochs and three seeds each as in the original; the numbers in
them mean nothing, the time to look them up does. NAS-Bench-Graph brings its data. Our rows are the released tables.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from itertools import product
from typing import Any

import attnbench

N_FRESH = 1_000
TARGETS = {
    "query by key, warm": (2.0, "µs"),
    "query by Graph, warm": (5.0, "µs"),
    f"query by {N_FRESH:,} formulas never seen, each": (150.0, "µs"),
    "cold process to the first answer": (0.5, "s"),
    "memory of that process": (150.0, "MB"),
}
COLD = """
import attnbench
result = attnbench.load({data!r}).query({text!r}, backbone={backbone!r})
# VmHWM, not getrusage: ru_maxrss also counts the parent, as it was when it forked.
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024)
"""


def each_us(call: Callable[[Any], object], arguments: list[Any], repeats: int = 5) -> float:
    """Microseconds of one call: the best of some passes over the arguments."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        for argument in arguments:
            call(argument)
        best = min(best, time.perf_counter() - start)
    return best / len(arguments) * 1e6


def respelled(text: str, rng: random.Random) -> str:
    """Another spelling of the same function: no-ops, double transposes and double negations at the inputs."""
    forms = ("identity({})", "{}.T.T", "(-(-{}))", "{}", "({})")
    return re.sub(r"\b[qkv]\b", lambda match: rng.choice(forms).format(match[0]), text) + " " * rng.randrange(50)


def ours(data: str | None, backbone: str) -> dict[str, float]:
    """Our five targets."""
    bench = attnbench.load(data)
    measured = [r for r in bench.query_many(bench, backbone=backbone, missing="none") if r is not None]
    texts = [result.text for result in measured]
    keys = [result.key for result in measured]
    graphs = [attnbench.parse(text) for text in texts]
    for graph in graphs:
        bench.query(graph, backbone=backbone)
    times = {
        "query by key, warm": each_us(lambda key: bench.query(key, backbone=backbone), keys, 20),
        "query by Graph, warm": each_us(lambda graph: bench.query(graph, backbone=backbone), graphs, 20),
    }
    fresh = []
    for repeat in range(3):
        rng = random.Random(repeat)
        spelled = list({respelled(rng.choice(texts), rng) for _ in range(3 * N_FRESH)})[:N_FRESH]
        bench = attnbench.load(data)
        bench.query(keys[0], backbone=backbone)  # the tables are read once; that is the cold start below
        fresh.append(each_us(lambda text, b=bench: b.query(text, backbone=backbone), spelled, 1))
    times[f"query by {len(spelled):,} formulas never seen, each"] = min(fresh)
    code = COLD.format(data=data, text=texts[0], backbone=backbone)
    seconds, megabytes = [], []
    for _ in range(5):
        start = time.perf_counter()
        out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        seconds.append(time.perf_counter() - start)
        megabytes.append(float(out))
    times["cold process to the first answer"] = statistics.median(seconds)
    times["memory of that process"] = statistics.median(megabytes)
    return times


def plain_dict() -> float:
    """A bare dictionary of 2,000 keys like ours: the floor."""
    table = {f"ag1-{number:032x}": number for number in range(2_000)}
    return each_us(table.__getitem__, list(table), 20)


def nats_bench() -> dict[str, float]:
    """NATS-Bench's topology API on made-up rows of its own format."""
    from nats_bench.api_topology import NATStopology
    from nats_bench.api_utils import ArchResults, ResultsCount

    operators = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
    cells = list(product(operators, repeat=6))[:: 5**6 // 200][:200]
    names = ["|{}~0|+|{}~0|{}~1|+|{}~0|{}~1|{}~2|".format(*cell) for cell in cells]
    epochs, infos = range(200), {}
    for index, name in enumerate(names):
        results = ArchResults(index, name)
        for seed in (777, 888, 999):
            curve = {epoch: 50.0 + epoch / 10 for epoch in epochs}
            config = {"channel": 16, "num_cells": 5, "arch_str": name, "class_num": 10}
            run = ResultsCount("cifar10-valid", None, curve, dict(curve), 1.0, 100.0, config, seed, 200, [0.01])
            run.train_times = OrderedDict.fromkeys(epochs, 10.0)
            for split in ("x-valid", "ori-test"):
                at = {f"{split}@{epoch}": value for epoch, value in curve.items()}
                run.update_eval(at, at, dict.fromkeys(at, 1.0))
            results.update("cifar10-valid", seed, run)
        infos[index] = {"200": results.state_dict()}
    api = NATStopology(
        {"meta_archs": names, "arch2infos": infos, "evaluated_indexes": list(range(len(names)))}, verbose=False
    )

    def mean_of_seeds(arch: str) -> object:
        return api.get_more_info(arch, "cifar10-valid", hp="200", is_random=False)

    return {"nats-bench get_more_info, mean of 3 seeds (made-up rows)": each_us(mean_of_seeds, names, 3)}


def nas_bench_graph() -> dict[str, float]:
    """NAS-Bench-Graph: hash an architecture, look it up."""
    import nas_bench_graph as peer

    start = time.perf_counter()
    bench = peer.light_read("cora")
    read_s = time.perf_counter() - start
    rng = random.Random(0)
    archs = []
    while len(archs) < 500:
        arch = peer.Arch(rng.choice(peer.architecture.link_list), rng.choices(peer.architecture.gnn_list, k=4))
        if arch.valid_hash() in bench:
            archs.append(arch)
    return {
        "nas-bench-graph valid_hash and look-up": each_us(lambda arch: bench[arch.valid_hash()], archs, 5),
        "nas-bench-graph light_read of one data set, s": read_s,
    }


def main() -> int:
    """Prints one line per measurement; exits with 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--data", help="another data release than the checkout's")
    parser.add_argument("--backbone", default="deit")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()

    floor = plain_dict()
    mine = ours(args.data, args.backbone)
    peers: dict[str, float | str] = {"plain dict of 2,000 keys": floor}
    for name, measure in (("nas-bench-graph", nas_bench_graph), ("nats-bench", nats_bench)):
        try:
            peers |= measure()
        except ImportError as error:
            peers[name] = f"skipped: {error}"
    missed = [name for name, (limit, _) in TARGETS.items() if mine[name] > limit]
    if args.json:
        print(json.dumps({"attnbench": mine, "peers": peers, "missed": missed}))
        return bool(missed)
    by_key = mine["query by key, warm"]
    for name, value in mine.items():
        limit, unit = TARGETS[name]
        times_dict = f", {value / floor:,.0f} × a dict" if unit == "µs" else ""
        print(f"{name:<62}{value:>10.2f} {unit:<3} target {limit:g}{times_dict}{'  MISSED' * (name in missed)}")
    for name, found in peers.items():
        if isinstance(found, str) or name.endswith(", s"):
            print(f"{name:<62}{found if isinstance(found, str) else format(found, '10.2f')}")
        else:
            print(f"{name:<62}{found:>10.2f} µs  {found / by_key:,.1f} × our query by key")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
