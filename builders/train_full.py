"""Full backbones: `train` with one of their protocols, in one process or under torchrun in several.

Runs go one after another, each on all processes, and go on from their last epoch when they were interrupted:
`torchrun --nproc-per-node 8 -m builders train --protocol imagenet-300e --backbone deit-tiny --device cuda …`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnbench.errors import DataError
from attnbench.space.parse import parse
from builders.campaign import TrainingRun, missing, refuse_other_recipes, rows_present
from builders.engine import Cluster
from builders.shards import finished_at, only_builder, write_shard
from builders.train import cluster_of, code_version, wanted_runs

if TYPE_CHECKING:
    from attnbench.nn.datasets import Splits
    from attnbench.nn.full_train import Place
    from attnbench.nn.train import Progress

# What torchrun tells each process of itself, and what holds without it.
TORCHRUN = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}


def train_missing(args: argparse.Namespace) -> None:
    """Trains the runs that have no row yet and writes a shard for each. Every process must see the same `args.data`.

    Raises: ValueError (arguments that do not go together), DataError (data set, checkpoint, tables), DiskFull.
    """
    import torch

    from attnbench.nn.datasets import load_splits
    from attnbench.nn.frozen import run_hash
    from attnbench.nn.recipes import RECIPES

    check_arguments(args)
    hashes = {backbone: run_hash(args.protocol, backbone) for backbone in args.backbone}
    with processes(args) as place, only_builder(args.data, "runs") if place.rank == 0 else nullcontext():
        refuse_other_recipes(args.data, args.protocol, hashes)
        todo = list(missing(wanted_runs(args), rows_present(args.data), hashes))[: args.limit]
        if place.world > 1:
            torch.distributed.barrier()  # all have read what there is before the first writes more
        if place.rank == 0:
            print(f"{len(todo)} runs to train on {place.world} x {args.device}", file=sys.stderr)
        if not todo:
            return
        recipe = RECIPES[args.protocol]
        data = load_splits(recipe.dataset, args.dataset, recipe.n_val_per_class, recipe.split_seed)
        version = code_version()
        for run in todo:
            row = train_one(run, data, place, checkpoint_of(run, args.data, hashes[run.backbone]))
            if place.rank == 0:
                write_shard(args.data, "runs", [row | {"code_version": version}])
                checkpoint_of(run, args.data, hashes[run.backbone]).unlink(missing_ok=True)


def train_one(run: TrainingRun, data: Splits, place: Place, checkpoint: Path) -> dict[str, Any]:
    """Trains one run. Returns: its row, but for the version of the code.

    Raises: ValueError (memory is too short), DataError (an image that cannot be read, a checkpoint of another run).
    """
    import torch

    from attnbench.nn.frozen import run_hash
    from attnbench.nn.full_train import train_full
    from attnbench.nn.operators import compile_graph
    from attnbench.nn.recipes import full_recipe

    recipe, config = full_recipe(run.protocol, run.backbone)
    identity = {**run._asdict(), "protocol_hash": run_hash(run.protocol, run.backbone)}
    what = f"{run.backbone} seed {run.seed} {run.text}"

    def report(progress: Progress) -> None:
        if place.rank == 0:
            print(
                f"{what}: epoch {len(progress.val_top1)}/{recipe.n_epochs}, loss {progress.train_losses[-1]:.3f}, "
                f"validation {progress.val_top1[-1]:.2f} %, {progress.seconds:.0f} s",
                file=sys.stderr,
            )

    graph = compile_graph(parse(run.text))
    try:
        outcome = train_full(
            graph, config, recipe, run.seed, data, place, checkpoint=checkpoint, identity=identity, report=report
        )
    except DataError as error:
        # Out of a process that reads images, torch hands it on with that process's traceback in front.
        raise DataError(str(error).strip().splitlines()[-1].removeprefix("attnbench.errors.DataError: ")) from error
    except torch.OutOfMemoryError as error:
        raise ValueError(
            f"memory is too short for {what}: {str(error).splitlines()[0]} Pass --images-at-once with a part of the "
            f"{recipe.batch_size // place.world} images that a process takes in a step; what is finished is kept."
        ) from error
    if place.rank == 0:
        test = "" if outcome.test_top1_percent is None else f", test {outcome.test_top1_percent:.2f} %"
        print(f"{what}: {outcome.status}{test}, {outcome.train_seconds:.0f} s", file=sys.stderr)
    return {**identity, **asdict(outcome), "finished_at": finished_at()}


def checkpoint_of(run: TrainingRun, data: Path, protocol_hash: str) -> Path:
    """The file that a run goes on from; it lies beside the tables, where one builder at a time writes."""
    return data / "checkpoints" / f"{parse(run.text).key}-{run.backbone}-{protocol_hash}-{run.seed}.pt"


def check_arguments(args: argparse.Namespace) -> None:
    """Raises: ValueError for arguments that full backbones lack or have no use for."""
    lacking = [name for name in ("backbone", "graphs", "dataset") if getattr(args, name) is None]
    if lacking:
        raise ValueError(f"{args.protocol} needs {' and '.join(f'--{name}' for name in lacking)}.")
    if (
        args.minutes is not None
        or args.engine != "processes"
        or cluster_of(args) != Cluster()
        or args.stack != 1
        or args.cuda_graphs
    ):
        raise ValueError(
            "--minutes, --engine with its options, --stack and --cuda-graphs are for micro backbones. Start "
            f"{args.protocol} under torchrun for several GPUs, and stop it whenever you like: it goes on from there."
        )
    if args.images_at_once is not None and args.images_at_once < 1:
        raise ValueError(f"--images-at-once is a number of images, 1 or more; it was {args.images_at_once}.")
    if args.device not in ("cpu", "cuda"):
        raise ValueError(
            f"{args.protocol} trains on --device cpu or cuda, not {args.device}; choose GPUs by CUDA_VISIBLE_DEVICES."
        )


@contextmanager
def processes(args: argparse.Namespace) -> Iterator[Place]:
    """This process's place among those that torchrun started, which can talk to each other while the block runs.

    Raises: ValueError (no GPU for this process).
    """
    import torch
    from torch import distributed

    from attnbench.nn.full_train import Place

    rank, local, world, here = (int(os.environ.get(name, default)) for name, default in TORCHRUN.items())
    device = args.device
    if device == "cuda":
        if torch.cuda.device_count() <= local:
            raise ValueError(
                f"--device cuda: process {local} of this machine needs a GPU of its own, and there are "
                f"{torch.cuda.device_count()}. Start fewer processes, or use --device cpu."
            )
        device = f"cuda:{local}"
        torch.cuda.set_device(local)
    place = Place(device, rank, world, readers=args.workers // here, images_at_once=args.images_at_once)
    if world == 1:
        yield place
        return
    distributed.init_process_group("nccl" if place.gpus else "gloo")
    try:
        yield place
    finally:
        distributed.destroy_process_group()
