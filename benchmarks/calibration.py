"""Is a backbone fit to be frozen? 24 graphs x 3 seeds on it: range, seed noise, signal to noise, controls.

    python benchmarks/calibration.py --backbone deit --workers 2 --out data/calibration-deit.md
    python benchmarks/calibration.py --backbone swin --data build/swin --probe --seeds 0 1

Runs that lie in the data directory are used, the others are trained there. A backbone that is not frozen wants a
directory of its own, another one after every change of its frame. It is fit when SNR >= 2 and the controls lie at
least 5 seed sd under softmax, at 25 core-seconds a run or less. A probe of six graphs tells a frame that is far off
at a tenth of the price.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from attnbench.dataset.files import MANIFEST, read_manifest, read_table
from attnbench.nn.data import load_splits
from attnbench.nn.frozen import run_hash
from attnbench.nn.protocol import protocol
from attnbench.nn.train import evaluate
from attnbench.space.parse import parse
from benchmarks.train import core_seconds, our_trainer
from builders.campaign import TrainingRun, missing, rows_present
from builders.shards import DATA, only_builder, read_shards
from builders.train import arguments, run_campaign

PROTOCOL = "fmnist-micro"
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
    "i3n302 a": "l2norm(q) + l2norm(v @ softmax(relu(k).T @ v))",
    "i3n302 b": "elu1(q) + l2norm(v @ l2norm(l2norm(k, axis=-2).T @ v))",
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
# The best, the middle and the worst of deit's mixing variants.
PROBE = (*CONTROLS, "softmax", "linear, elu1", "i3n2 a", "i3n303 a")


Row = dict[str, Any]


def stored_rows(data: Path, backbone: str, graphs: dict[str, str], seeds: list[int]) -> dict[str, list[Row]]:
    """Rows of each graph by name, by seed, out of the release and the fresh shards."""
    rows = read_shards(data, "runs").to_pylist()
    if (data / MANIFEST).is_file():
        rows += read_table(data, "runs", read_manifest(data)).to_pylist()
    protocol_hash = run_hash(PROTOCOL, backbone)
    found = {
        (row["key"], row["seed"]): row
        for row in rows
        if row["backbone"] == backbone and row["protocol_hash"] == protocol_hash
    }
    return {name: [found[parse(text).key, seed] for seed in seeds] for name, text in graphs.items()}


def value(row: Row) -> float:
    """Validation top-1 in percent, a diverged run as chance."""
    return 10.0 if row["val_top1_percent"] is None else row["val_top1_percent"]


def summary(rows: dict[str, list[Row]], seeds: list[int]) -> str:
    """Markdown: the verdict, then one row a graph."""
    finished = [name for name in rows if name in MIXERS and all(row["status"] == "ok" for row in rows[name])]
    means = {name: mean(map(value, rows[name])) for name in rows}
    seed_sd = mean(stdev(map(value, rows[name])) for name in finished)
    between = stdev(means[name] for name in finished)
    lines = [
        f"- {len(rows)} graphs, seeds {', '.join(map(str, seeds))}; {len(finished)} mixing variants with all runs ok",
        f"- range of mixing variants: {min(means[n] for n in finished):.2f} to {max(means[n] for n in finished):.2f} %",
        f"- mean seed sd: {seed_sd:.3f}; sd between variants: {between:.3f}; **SNR {between / seed_sd:.2f}**",
    ]
    for name in CONTROLS:
        distance = (means["softmax"] - means[name]) / seed_sd
        lines.append(f"- control `{CONTROLS[name]}`: {means[name]:.2f} %, {distance:.1f} seed sd under softmax")
    lines += [
        "",
        "| graph | formula | val top-1 % | sd | val loss | test top-1 % | status |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for name in sorted(rows, key=lambda name: -means[name]):
        lines.append(
            f"| {name} | `{GRAPHS[name]}` | {means[name]:.2f} | {stdev(map(value, rows[name])):.2f} "
            f"| {_mean_of(rows[name], 'val_loss', 4)} | {_mean_of(rows[name], 'test_top1_percent', 2)} "
            f"| {', '.join(sorted({row['status'] for row in rows[name]}))} |"
        )
    return "\n".join(lines) + "\n"


def _mean_of(rows: list[Row], column: str, digits: int) -> str:
    values = [row[column] for row in rows if row[column] is not None]
    return f"{mean(values):.{digits}f}" if values else ""


def core_seconds_of_a_run(backbone: str, n_steps: int = 30) -> float:
    """Processor time of one run with softmax, evaluation included, from some of its steps."""
    recipe, graph = protocol(PROTOCOL), parse(MIXERS["softmax"])
    data = load_splits(recipe)
    train, model = our_trainer(backbone, graph, recipe, data)
    train(5)
    step = core_seconds(lambda: train(n_steps)) / n_steps
    image = core_seconds(lambda: evaluate(model, data.val)) / len(data.val)
    n_evaluated = recipe.epochs * len(data.val) + len(data.test)
    return step * recipe.epochs * len(data.train) / recipe.batch_size + image * n_evaluated


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backbone", default="deit")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--data", type=Path, default=DATA, help="where rows are looked up and written")
    parser.add_argument("--probe", action="store_true", help=f"only {', '.join(PROBE)}")
    parser.add_argument("--out", type=Path, help="write the table here, too")
    args = parser.parse_args()
    if len(args.seeds) < 2:
        sys.exit("seed noise needs at least two seeds")
    torch.set_num_threads(1)
    graphs = {name: GRAPHS[name] for name in (PROBE if args.probe else GRAPHS)}
    wanted = [TrainingRun(text, args.backbone, PROTOCOL, seed) for seed in args.seeds for text in graphs.values()]
    with only_builder(args.data, "runs"):
        todo = list(missing(wanted, rows_present(args.data), {args.backbone: run_hash(PROTOCOL, args.backbone)}))
        if run_campaign(todo, arguments(["--workers", str(args.workers), "--data", str(args.data)])):
            sys.exit("some runs failed; see above")
    rows = stored_rows(args.data, args.backbone, graphs, args.seeds)
    text = (
        f"# Calibration of {args.backbone}\n\n"
        f"- {PROTOCOL} as {run_hash(PROTOCOL, args.backbone)}; about {core_seconds_of_a_run(args.backbone):.0f} "
        f"core-seconds a run with softmax\n{summary(rows, args.seeds)}"
    )
    print(text)
    if args.out:
        args.out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
