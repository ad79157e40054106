"""The command that trains: measure. It alone needs torch."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from attnbench.cli.extras import needs_torch
from attnbench.cli.show import percent, show, show_json
from attnbench.dataset.defaults import default_backbone, default_protocol
from attnbench.space.architecture import read_architecture
from attnbench.space.graph import Graph
from attnbench.space.subnet import Subnet

if TYPE_CHECKING:
    from attnbench.nn.train import RunOutcome


def measure(args: argparse.Namespace) -> int:
    """Trains one formula or subnet on the spot with the table's protocol, and prints the row that it would have."""
    arch = read_architecture(args.formula)
    args.backbone = default_backbone(arch) if args.backbone is None else args.backbone
    args.protocol = default_protocol(arch) if args.protocol is None else args.protocol
    outcome = _train(arch, args)
    if args.json:
        row = {"key": arch.key, "text": arch.text, "backbone": args.backbone, "protocol": args.protocol}
        return show_json({**row, "seed": args.seed, **asdict(outcome)})
    curve = " ".join(f"{value:.2f}" for value in outcome.val_curve) or "none"
    show(
        arch.text,
        arch.key,
        "",
        f"{args.backbone}, {args.protocol}, seed {args.seed}: status {outcome.status}",
        f"validation top-1 after each epoch, %: {curve}",
        f"test top-1 {percent(outcome.test_top1_percent)} %; {outcome.train_seconds:.1f} s of training",
    )
    return 0


def _train(arch: Graph | Subnet, args: argparse.Namespace) -> RunOutcome:
    with needs_torch("measuring"):
        from attnbench.nn.measure import measure

    def train() -> RunOutcome:
        return measure(
            arch,
            backbone=args.backbone,
            protocol=args.protocol,
            seed=args.seed,
            dataset=args.dataset,
            device=args.device,
        )

    if args.json:
        return train()
    from rich.console import Console

    with Console(stderr=True).status(f"training {arch.text}"):
        return train()
