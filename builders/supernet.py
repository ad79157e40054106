"""Trains a supernet and stores what its subnets inherit: `python -m builders supernet --sharing entangled --seed 0`."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attnbench.errors import AttnBenchError
from attnbench.space.subnet import AutoFormerSubnet
from attnbench.space.subnet_named import SPACES
from attnbench.space.subnet_spaces import AutoFormerSpace
from builders.campaign import TrainingRun, missing, rows_present
from builders.options import device, whole
from builders.shards import DATA, finished_at, only_builder, write_shard
from builders.subnets import MICRO, SAMPLES, drawn
from builders.train import code_version

if TYPE_CHECKING:
    from attnbench.nn.supernet_train import Epoch, TrainedSupernet

CHECKPOINTS = DATA.parent / "build" / "supernets"
SHARINGS = ("entangled", "classical")


def inherited_rows(
    trained: TrainedSupernet, runs: Sequence[TrainingRun], subnets: Sequence[AutoFormerSubnet], val: Any, hash_: str
) -> list[dict[str, Any]]:
    """Rows of `runs`: validation of each subnet with the supernet's weights; nothing looks at the test images.

    The one value of each validation curve is that of the trained supernet; the training losses and seconds are its.
    """
    import torch

    from attnbench.nn.supernet_inherit import inherited
    from attnbench.nn.train import device_name

    rows = []
    for run, (top1, loss) in zip(runs, inherited(trained.supernet, subnets, val), strict=True):
        finite = math.isfinite(loss)
        rows.append(
            {
                **run._asdict(),
                "protocol_hash": hash_,
                "status": "ok" if finite else "diverged",
                "val_curve": [top1],
                "val_loss_curve": [loss],
                "train_loss_curve": [epoch.train_loss for epoch in trained.log],
                "val_top1_percent": top1 if finite else None,
                "val_loss": loss if finite else None,
                "test_top1_percent": None,
                "test_loss": None,
                "train_seconds": trained.train_seconds,
                "device": device_name(str(val.images.device)),
                "torch_version": torch.__version__,
                "code_version": code_version(),
                "finished_at": finished_at(),
            }
        )
    return rows


def report(epoch: Epoch) -> None:
    """A line of the log."""
    watched = ", ".join(f"{name} {top1:.1f} %" for name, (top1, _) in epoch.watched.items())
    print(f"epoch {epoch.number}: training loss {epoch.train_loss:.3f}; {watched}", file=sys.stderr)


def build(args: argparse.Namespace) -> int:
    """Trains, or goes on from the checkpoint, and writes the rows that are missing. Returns: how many.

    Raises: AttnBenchError, FloatingPointError.
    """
    import torch

    from attnbench.nn.data import load_splits
    from attnbench.nn.frozen import run_hash
    from attnbench.nn.protocol import SupernetProtocol, protocol
    from attnbench.nn.supernet_train import train_supernet
    from attnbench.nn.train import require_device, to_device

    require_device(args.device)
    torch.set_num_threads(1)
    name = f"micro-{args.sharing}"
    recipe, space = cast(SupernetProtocol, protocol(name)), cast(AutoFormerSpace, SPACES[MICRO])
    hash_ = run_hash(name, MICRO)
    subnets = cast("list[AutoFormerSubnet]", drawn(MICRO, SAMPLES[MICRO] if args.limit is None else args.limit))
    wanted = [TrainingRun(subnet.text, MICRO, name, args.seed) for subnet in subnets]
    todo = list(missing(wanted, rows_present(args.data), {MICRO: hash_}))
    if not todo:
        return 0
    splits = load_splits(recipe, args.dataset)
    trained = train_supernet(
        space,
        recipe,
        args.seed,
        splits.train,
        splits.val,
        device=args.device,
        checkpoint=args.checkpoints / f"{MICRO}-{args.sharing}-seed{args.seed}.pt",
        on_epoch=report,
    )
    print(f"validating {len(todo)} subnets", file=sys.stderr)
    by_text = {subnet.text: subnet for subnet in subnets}
    chosen = [by_text[run.text] for run in todo]
    write_shard(args.data, "runs", inherited_rows(trained, todo, chosen, to_device(splits.val, args.device), hash_))
    return len(todo)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m builders supernet", description=__doc__)
    parser.add_argument("--sharing", choices=SHARINGS, default="entangled", help="how subnets share weights")
    parser.add_argument("--seed", type=whole, default=0, help="of the weights, the order and the sampled subnets")
    parser.add_argument("--device", type=device, default="cpu", help="cpu, cuda or cuda:1")
    parser.add_argument("--limit", type=int, help="only so many subnets of the sample")
    parser.add_argument("--checkpoints", type=Path, default=CHECKPOINTS, help="directory of the supernets")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    parser.add_argument("--dataset", type=Path, help="directory of Fashion-MNIST's four files")
    args = parser.parse_args(argv)
    try:
        if args.limit is not None and not 0 <= args.limit <= SAMPLES[MICRO]:
            raise ValueError(f"--limit is 0 to {SAMPLES[MICRO]}, as many as the table lists; it was {args.limit}.")
        # A lock of its own: it writes one new shard, so that training may go on meanwhile.
        with only_builder(args.data, f"supernet-{args.sharing}-{args.seed}"):
            n_rows = build(args)
    except (AttnBenchError, FloatingPointError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; every finished epoch is kept, start again to go on", file=sys.stderr)
        return 130
    print(f"{n_rows} rows written", file=sys.stderr)
    return 0
