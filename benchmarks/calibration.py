"""Is a backbone fit to be frozen? 24 graphs x 3 seeds on it: range, seed noise, signal to noise, controls.

    python benchmarks/calibration.py --backbone deit --workers 2 --out calibration-deit.md

A backbone is fit when SNR >= 2 and the controls lie at least 5 seed sd under softmax.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev

from rich.progress import track

CONTROLS = {"identity": "v", "convolution only": "zeros(v)"}

# Token-mixing variants: published forms, then cells of the closed grid, three or four a family.
MIXERS = {
    "softmax": "softmax(q @ k.T / sqrt(d)) @ v",
    "uniform": "zeros(q) + mean(v, axis=-2)",
    "linear, elu1": "elu1(q) @ (elu1(k).T @ v)",
    "efficient attention": "softmax(q) @ (softmax(k, axis=-2).T @ v)",
    "XCA": "v @ softmax(l2norm(q, axis=-2).T @ l2norm(k, axis=-2)).T",
    "Hydra": "l2norm(q) * sum(l2norm(k) * v, axis=-2)",
    "Trial 105": "q * l2norm(l2norm(q) @ standardize(minmax(v).T @ elu1(k)))",
    "Trial 140": "l2norm(q, axis=-2) + l2norm(abs(v) @ sigmoid(elu1(k).T @ v / sqrt(d)).T)",
    "i3n2 a": "v @ softmax(relu(q).T @ l2norm(k)).T",
    "i3n2 b": "v @ (l2norm(elu1(q)).T @ l2norm(elu1(k))).T",
    "i3n301": "(v @ softmax(l2norm(q).T @ elu1(k)).T) @ l2norm(l2norm(q).T @ elu1(k))",
    "i3n302 a": "l2norm(q) + l2norm(v @ softmax(relu(k).T @ v).T)",
    "i3n302 b": "elu1(q) + l2norm(v @ l2norm(l2norm(k, axis=-2).T @ v).T)",
    "i3n303 a": "q * l2norm(elu1(q) @ softmax(k.T @ v))",
    "i3n303 b": "q * l2norm(q @ (l2norm(relu(k), axis=-2).T @ v))",
    "i3n303 c": "q * l2norm(l2norm(elu1(q)) @ (l2norm(elu1(k)).T @ v))",
    "i3n304 a": "v * l2norm(relu(q) @ softmax(l2norm(k).T @ v))",
    "i3n304 b": "v * l2norm(elu1(q) @ (l2norm(elu1(k), axis=-2).T @ v))",
    "i3n305 a": "(q * v) @ (l2norm(k).T @ v)",
    "i3n305 b": "(elu1(q) * v) @ softmax(relu(k).T @ v)",
    "linear a": "l2norm(q) @ l2norm(k.T @ v)",
    "linear b": "l2norm(relu(q)) @ (l2norm(relu(k), axis=-2).T @ v)",
}
GRAPHS = CONTROLS | MIXERS


def one_run(job: tuple[str, int, str]):
    """(name, seed, backbone) to the run's outcome, on one thread."""
    name, seed, backbone = job
    import torch

    from attnbench.nn.data import load_splits
    from attnbench.nn.operators import compile_graph
    from attnbench.nn.protocol import protocol
    from attnbench.nn.train import train_run
    from attnbench.space.parse import parse

    torch.set_num_threads(1)
    recipe = protocol("fmnist-micro")
    start = time.process_time()
    run = train_run(compile_graph(parse(GRAPHS[name])), backbone, recipe, seed, load_splits(recipe))
    return name, seed, run, time.process_time() - start


def value(run) -> float:
    """Validation top-1, a diverged run as chance."""
    return 10.0 if run.val_top1_percent is None else run.val_top1_percent


def summary(results: list, seeds: list[int]) -> str:
    """Markdown: the verdict, then one row a graph. `results` are the tuples of `one_run`."""
    runs = {name: [run for n, _, run, _ in sorted(results, key=lambda r: r[1]) if n == name] for name in GRAPHS}
    finished = [name for name in MIXERS if all(run.status == "ok" for run in runs[name])]
    means = {name: mean(map(value, runs[name])) for name in GRAPHS}
    seed_sd = mean(stdev(map(value, runs[name])) for name in finished)
    between = stdev(means[name] for name in finished)
    cpu = sorted(seconds for _, _, run, seconds in results if run.status == "ok")
    lines = [
        f"- {len(GRAPHS)} graphs, seeds {', '.join(map(str, seeds))}; {len(finished)} mixing variants with all runs ok",
        f"- range of mixing variants: {min(means[n] for n in finished):.2f} to {max(means[n] for n in finished):.2f} %",
        f"- mean seed sd: {seed_sd:.3f}; sd between variants: {between:.3f}; **SNR {between / seed_sd:.2f}**",
        f"- core-seconds a finished run: median {cpu[len(cpu) // 2]:.1f}, largest {cpu[-1]:.1f}",
    ]
    for name in CONTROLS:
        distance = (means["softmax"] - means[name]) / seed_sd
        lines.append(f"- control `{CONTROLS[name]}`: {means[name]:.2f} %, {distance:.1f} seed sd under softmax")
    lines += [
        "",
        "| graph | formula | val top-1 % | sd | val loss | test top-1 % | status |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in sorted(GRAPHS, key=means.get, reverse=True):
        losses, tests = ([x for x in column if x is not None] for column in columns(runs[name]))
        lines.append(
            f"| {name} | `{GRAPHS[name]}` | {means[name]:.2f} | {stdev(map(value, runs[name])):.2f} "
            f"| {mean(losses) if losses else float('nan'):.4f} | {mean(tests) if tests else float('nan'):.2f} "
            f"| {', '.join(sorted({run.status for run in runs[name]}))} |"
        )
    return "\n".join(lines) + "\n"


def columns(runs: list) -> tuple[list, list]:
    return [run.val_loss for run in runs], [run.test_top1_percent for run in runs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backbone", default="deit")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the table here, too")
    args = parser.parse_args()
    if len(args.seeds) < 2:
        sys.exit("seed noise needs at least two seeds")
    os.environ["OMP_NUM_THREADS"] = "1"
    jobs = [(name, seed, args.backbone) for seed in args.seeds for name in GRAPHS]
    with ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
        results = list(track(pool.map(one_run, jobs), f"{args.backbone}: runs", total=len(jobs)))
    text = f"# Calibration of {args.backbone}\n\n" + summary(results, args.seeds)
    print(text)
    if args.out:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
