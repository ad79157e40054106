"""Trains the most wanted missing rows: `python -m builders train --backbone deit --workers 2 --minutes 150`."""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnbench import __version__
from attnbench.errors import AttnBenchError
from attnbench.space.parse import parse
from builders.campaign import TrainingRun, candidates, missing, most_wanted, rows_present
from builders.engine import Done, SetupFailed, run_units
from builders.shards import DATA, only_builder, write_shard

# What a worker process keeps between its units.
_worker: dict[str, Any] = {}


def setup_worker(data: Path, protocol_name: str, dataset: Path | None, code_version: str) -> None:
    """Once in each worker: one thread, the images in memory."""
    import torch

    from attnbench.nn.data import load_splits
    from attnbench.nn.protocol import protocol

    torch.set_num_threads(1)
    recipe = protocol(protocol_name)
    _worker.update(data=data, recipe=recipe, splits=load_splits(recipe, dataset), code_version=code_version)


def train_unit(run: TrainingRun) -> dict[str, Any]:
    """Trains one run and writes its shard. Returns: the row."""
    from attnbench.nn.frozen import run_hash
    from attnbench.nn.operators import compile_graph
    from attnbench.nn.train import train_run

    graph = compile_graph(parse(run.text))
    outcome = train_run(graph, run.backbone, _worker["recipe"], run.seed, _worker["splits"])
    row = {
        **run._asdict(),
        **asdict(outcome),
        "protocol_hash": run_hash(run.protocol, run.backbone),
        "code_version": _worker["code_version"],
        "finished_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }
    write_shard(_worker["data"], "runs", [row])
    return row


def code_version() -> str:
    """Version of attnbench and the commit it was run from, where there is one."""
    commit = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True
    )
    return f"{__version__}+g{commit.stdout.strip()}" if commit.returncode == 0 else __version__


def wanted_runs(args: argparse.Namespace) -> Iterator[TrainingRun]:
    if args.graphs is None:
        return most_wanted(candidates(args.data), args.backbone, args.protocol, args.seeds)
    texts = [line.strip() for line in args.graphs.read_text().splitlines() if line.strip()]
    seeds = args.seeds or (0,)
    return (TrainingRun(text, b, args.protocol, s) for b in args.backbone for s in seeds for text in texts)


def run_campaign(todo: Sequence[TrainingRun], args: argparse.Namespace) -> int:
    """Trains the runs with a progress bar. Returns: how many failed for another reason than their own outcome."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    until = None if args.minutes is None else time.monotonic() + 60 * args.minutes
    failures = 0
    console = Console(stderr=True)
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, speed_estimate_period=600) as progress:
        bar = progress.add_task("", total=len(todo))
        done: Done[TrainingRun]
        for count, done in enumerate(
            run_units(
                todo,
                train_unit,
                workers=args.workers,
                setup=setup_worker,
                setup_args=(args.data, args.protocol, args.dataset, code_version()),
                until=until,
            ),
            start=1,
        ):
            failures += done.error is not None
            line = _report(done)
            progress.update(bar, advance=1, description=line)
            if done.error is not None or not console.is_terminal:
                console.print(f"{count}/{len(todo)} {line}", highlight=False, markup=False, soft_wrap=True)
    return failures


def _report(done: Done[TrainingRun]) -> str:
    what = f"{done.unit.backbone} seed {done.unit.seed} {done.unit.text}"
    if done.error is not None:
        return f"FAILED {type(done.error).__name__}: {done.error} in {what}"
    value = done.result["val_top1_percent"]
    shown = "" if value is None else f" {value:.2f} %"
    return f"{done.result['status']}{shown} {done.result['train_seconds']:.1f} s {what}"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m builders train", description=__doc__)
    parser.add_argument("--backbone", action="append", help="repeat for several; default: every frozen one")
    parser.add_argument("--protocol", default="fmnist-micro")
    parser.add_argument("--graphs", type=Path, help="file with a formula a line; default: the campaign's order")
    parser.add_argument("--seeds", type=lambda s: tuple(map(int, s.split(","))), help="e.g. 0,1,2")
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count() or 1), help="processes; 0: in this one")
    parser.add_argument("--minutes", type=float, help="start no run that would end later than this")
    parser.add_argument("--limit", type=int, help="at most this many runs")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    parser.add_argument("--dataset", type=Path, help="directory of Fashion-MNIST's four files")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    from attnbench.nn.frozen import FROZEN, run_hash

    args.backbone = args.backbone or list(FROZEN.get(args.protocol, {}))
    try:
        hashes = {backbone: run_hash(args.protocol, backbone) for backbone in args.backbone}
        with only_builder(args.data, "runs"):
            todo = list(missing(wanted_runs(args), rows_present(args.data), hashes))[: args.limit]
            print(f"{len(todo)} runs to train with {args.workers} workers", file=sys.stderr)
            failures = run_campaign(todo, args)
    except (AttnBenchError, SetupFailed, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; what was finished is kept, start again to go on", file=sys.stderr)
        return 130
    return 1 if failures else 0
