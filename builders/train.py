"""Trains the most wanted missing rows: `python -m builders train --backbone deit --workers 2 --minutes 150`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnbench import __version__
from attnbench.errors import AttnBenchError, DataError
from attnbench.space.architecture import read_architecture
from attnbench.space.subnet import Subnet
from builders.campaign import (
    TrainingRun,
    campaign_backbones,
    candidates,
    missing,
    most_wanted,
    refuse_other_recipes,
    rows_present,
    stacks,
)
from builders.engine import ENGINES, Cluster, Done, SetupFailed, run_units
from builders.options import device, minutes, seeds
from builders.shards import DATA, finished_at, only_builder, write_shard
from builders.texts import read_texts

# What a worker process keeps between its units.
_worker: dict[str, Any] = {}
# The unit of work: seeds of one graph on one backbone, trained together.
Stack = tuple[TrainingRun, ...]


def setup_worker(protocol_name: str, dataset: Path | None, device: str, cuda_graphs: bool, code_version: str) -> None:
    """Once in each worker: one thread, fp32 that is no TF32, the recipe, all images on the device."""
    import torch

    from attnbench.nn.data import Splits, load_splits
    from attnbench.nn.protocol import protocol
    from attnbench.nn.train import to_device

    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    recipe = protocol(protocol_name)
    splits = load_splits(recipe, dataset)
    splits = Splits(*(to_device(split, device) for split in (splits.train, splits.val, splits.test)))
    _worker.update(recipe=recipe, splits=splits, device=device, cuda_graphs=cuda_graphs, code_version=code_version)


def train_unit(unit: Stack) -> list[dict[str, Any]]:
    """Trains the runs of one stack. Returns: their rows; whoever asked for them writes them."""
    from attnbench.nn.frozen import run_hash
    from attnbench.nn.operators import compile_graph
    from attnbench.nn.train import train_run

    architecture = read_architecture(unit[0].text)
    recipe, splits, device = _worker["recipe"], _worker["splits"], _worker["device"]
    backbone, seeds = unit[0].backbone, [run.seed for run in unit]
    if isinstance(architecture, Subnet):
        from attnbench.nn.subnet_train import train_subnet

        outcomes = [train_subnet(architecture, backbone, recipe, seed, splits, device=device) for seed in seeds]
    elif len(seeds) == 1 and not _worker["cuda_graphs"]:
        graph = compile_graph(architecture)
        outcomes = [train_run(graph, backbone, recipe, seeds[0], splits, device=device)]
    else:
        from attnbench.nn.stacked import train_stacked

        graph = compile_graph(architecture)
        outcomes = train_stacked(
            graph, backbone, recipe, seeds, splits, device=device, cuda_graphs=_worker["cuda_graphs"]
        )
    ended = finished_at()
    return [
        {
            **run._asdict(),
            **asdict(outcome),
            "protocol_hash": run_hash(run.protocol, run.backbone),
            "code_version": _worker["code_version"],
            "finished_at": ended,
        }
        for run, outcome in zip(unit, outcomes, strict=True)
    ]


def code_version() -> str:
    """Version of attnbench and the commit it was run from, where there is one."""
    try:
        commit = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True
        )
    except FileNotFoundError:  # a machine without git
        return __version__
    return f"{__version__}+g{commit.stdout.strip()}" if commit.returncode == 0 else __version__


def wanted_runs(args: argparse.Namespace) -> Iterator[TrainingRun]:
    """The runs that are asked for, measured or not. Raises: DataError; ValueError for what a backbone cannot train."""
    if args.graphs is None:
        return most_wanted(candidates(args.data), args.backbone, args.protocol, args.seeds)
    texts = {backbone: read_texts(args.graphs, backbone) for backbone in args.backbone}
    seeds = args.seeds or (0,)
    return (TrainingRun(text, b, args.protocol, s) for b in args.backbone for s in seeds for text in texts[b])


def run_campaign(todo: Sequence[TrainingRun], args: argparse.Namespace) -> int:
    """Trains the runs with a progress bar, and writes a shard for each unit as it ends.

    Whichever the engine, the rows come back and are written here, so that workers need not share this disk.
    Returns: how many runs failed for another reason than their own outcome.
    """
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
        done: Done[Stack]
        count = 0
        for done in run_units(
            stacks(todo, args.stack),
            train_unit,
            workers=args.workers,
            setup=setup_worker,
            setup_args=(args.protocol, args.dataset, args.device, args.cuda_graphs, code_version()),
            until=until,
            engine=args.engine,
            cluster=cluster_of(args),
        ):
            if done.error is None:
                write_shard(args.data, "runs", done.result)
            else:
                failures += len(done.unit)
            for line in _report(done):
                count += 1
                progress.update(bar, advance=1, description=line)
                if done.error is not None or not console.is_terminal:
                    console.print(f"{count}/{len(todo)} {line}", highlight=False, markup=False, soft_wrap=True)
    return failures


def _report(done: Done[Stack]) -> Iterator[str]:
    """A line for each run of the unit."""
    for i, run in enumerate(done.unit):
        what = f"{run.backbone} seed {run.seed} {run.text}"
        if done.error is not None:
            yield f"FAILED {type(done.error).__name__}: {done.error} in {what}"
            continue
        row = done.result[i]
        value = row["val_top1_percent"]
        shown = "" if value is None else f" {value:.2f} %"
        yield f"{row['status']}{shown} {row['train_seconds']:.1f} s {what}"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m builders train", description=__doc__)
    parser.add_argument("--backbone", action="append", help="repeat for several; default: every frozen one")
    parser.add_argument("--protocol", default="fmnist-micro")
    parser.add_argument("--graphs", type=Path, help="file with a formula a line; default: the campaign's order")
    parser.add_argument("--seeds", type=seeds, help="e.g. 0,1,2")
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count() or 1), help="processes; 0: in this one")
    parser.add_argument("--engine", choices=ENGINES, default="processes", help="where the runs are trained")
    parser.add_argument("--address", help="with --engine ray: a cluster to join; default: one is started here")
    parser.add_argument("--cpus-per-unit", type=float, default=1.0, help="with --engine ray")
    parser.add_argument("--gpus-per-unit", type=float, default=0.0, help="with --engine ray; 0.1: ten runs on a GPU")
    parser.add_argument("--device", type=device, default="cpu", help="cpu, cuda or cuda:1")
    parser.add_argument("--stack", type=int, default=1, help="seeds of one graph in one pass; pays on a GPU only")
    parser.add_argument("--cuda-graphs", action="store_true", help="replay the training step as a CUDA graph")
    parser.add_argument(
        "--minutes", type=minutes, help="start no run that, with the time of the longest, would end later"
    )
    parser.add_argument("--limit", type=int, help="at most this many runs")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    parser.add_argument("--dataset", type=Path, help="directory of the data set; default: Fashion-MNIST where it lies")
    parser.add_argument("--images-at-once", type=int, help="full backbones: so much of a batch that memory holds it")
    return parser.parse_args(argv)


def check_numbers(args: argparse.Namespace) -> None:
    """Raises: ValueError for numbers of processes or runs that cannot be."""
    if args.workers < 0:
        raise ValueError(f"--workers is a number of processes, or 0 for none beside this one; it was {args.workers}.")
    if args.limit is not None and args.limit < 0:
        raise ValueError(f"--limit is a number of runs; it was {args.limit}.")


def cluster_of(args: argparse.Namespace) -> Cluster:
    """Raises: ValueError for a share of CPUs or GPUs that no unit can have."""
    return Cluster(args.address, args.cpus_per_unit, args.gpus_per_unit)


def check_arguments(args: argparse.Namespace) -> None:
    """Raises: ValueError for arguments that do not go together, or with this machine."""
    from attnbench.nn.train import require_device

    cluster = cluster_of(args)
    if args.engine != "ray" and cluster != Cluster():
        raise ValueError("--address, --cpus-per-unit and --gpus-per-unit are for Ray; pass --engine ray with them.")
    if args.engine != "ray":  # whose workers may have GPUs that this machine lacks
        require_device(args.device)
    on_gpu = args.device.startswith("cuda")
    if args.engine == "ray" and on_gpu and not args.gpus_per_unit:
        raise ValueError("Ray hides the GPUs from a unit that asks for none; pass --gpus-per-unit, such as 0.1.")
    if args.images_at_once is not None:
        raise ValueError(f"--images-at-once is for full backbones; {args.protocol} trains whole batches.")
    if args.cuda_graphs and not on_gpu:
        raise ValueError(f"--cuda-graphs needs --device cuda; it was {args.device}.")
    if args.stack < 1:
        raise ValueError(f"--stack is the number of seeds in one pass, 1 or more; it was {args.stack}.")


def hashes_of_backbones(args: argparse.Namespace) -> dict[str, str]:
    """The protocol hash of each backbone to train; without a choice, of the campaign's frozen ones, in its order.

    Raises: ValueError (unknown names, nothing frozen, a space of other images), DataError (a backbone whose rows must
    not join the table).
    """
    from attnbench.nn.frozen import FROZEN, run_hash
    from attnbench.nn.protocol import SupernetProtocol, protocol
    from attnbench.nn.subnet_train import require_small_images

    if isinstance(protocol(args.protocol), SupernetProtocol):
        raise ValueError(f"{args.protocol} trains a supernet: python -m builders supernet.")
    frozen = FROZEN.get(args.protocol, {})
    if args.backbone is None:
        args.backbone, left_out = campaign_backbones(frozen, args.protocol)
        if not args.backbone:
            raise ValueError(f"no backbone is frozen for {args.protocol}; name one with --backbone.")
        if left_out:
            print(f"not frozen, left out: {', '.join(left_out)}", file=sys.stderr)
    hashes = {backbone: run_hash(args.protocol, backbone) for backbone in args.backbone}
    for backbone in hashes:
        require_small_images(backbone)
    loose = [backbone for backbone in hashes if backbone not in frozen]
    if loose and args.data.resolve() == DATA:
        raise DataError(
            f"{', '.join(loose)} is not frozen for {args.protocol}, so its rows must not join the table's. Freeze it "
            "in attnbench/nn/frozen.py after its calibration, or train into a directory of its own with --data."
        )
    return hashes


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    from attnbench.nn.recipes import RECIPES

    try:
        check_numbers(args)
        if args.protocol in RECIPES:
            from builders.train_full import train_missing

            train_missing(args)
            return 0
        check_arguments(args)
        hashes = hashes_of_backbones(args)
        with only_builder(args.data, "runs"):
            refuse_other_recipes(args.data, args.protocol, hashes)
            todo = list(missing(wanted_runs(args), rows_present(args.data), hashes))[: args.limit]
            print(f"{len(todo)} runs to train with {args.workers} workers", file=sys.stderr)
            failures = run_campaign(todo, args)
    except (AttnBenchError, SetupFailed, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; what was finished is kept, start again to go on", file=sys.stderr)
        return 130
    return 1 if failures else 0
