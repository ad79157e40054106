"""The command that trains: measure. It alone needs torch."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from attnbench.cli.show import percent, show, show_json
from attnbench.errors import AttnBenchError
from attnbench.space.architecture import read_architecture
from attnbench.space.graph import Graph
from attnbench.space.subnet import Subnet

if TYPE_CHECKING:
    from attnbench.nn.train import RunOutcome


def measure(args: argparse.Namespace) -> int:
    """Trains one formula on the spot with the table's protocol, and prints the row that it would have."""
    graph = read_architecture(args.formula)
    if isinstance(graph, Subnet):
        raise AttnBenchError(
            f"{graph.text!r:.60} is a subnet; this command trains formulas over q, k and v. attnbench.nn.subnet."
            "build_subnet gives the subnet's network; its stored runs: attnbench query."
        )
    outcome = _train(graph, args)
    if args.json:
        row = {"key": graph.key, "text": graph.text, "backbone": args.backbone, "protocol": args.protocol}
        return show_json({**row, "seed": args.seed, **_finite(asdict(outcome))})
    curve = " ".join(f"{value:.2f}" for value in outcome.val_curve) or "none"
    show(
        graph.text,
        graph.key,
        "",
        f"{args.backbone}, {args.protocol}, seed {args.seed}: status {outcome.status}",
        f"validation top-1 after each epoch, %: {curve}",
        f"test top-1 {percent(outcome.test_top1_percent)} %; {outcome.train_seconds:.1f} s of training",
    )
    return 0


def _train(graph: Graph, args: argparse.Namespace) -> RunOutcome:
    try:
        from attnbench.nn.measure import measure
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("attnbench"):
            raise
        raise AttnBenchError(
            f"measuring needs torch and timm, which the base install leaves out ({error}): pip install 'attnbench[nn]'"
        ) from None

    def train() -> RunOutcome:
        return measure(
            graph,
            backbone=args.backbone,
            protocol=args.protocol,
            seed=args.seed,
            dataset=args.dataset,
            device=args.device,
        )

    if args.json:
        return train()
    from rich.console import Console

    with Console(stderr=True).status(f"training {graph.text}"):
        return train()


def _finite(value: Any) -> Any:
    """JSON has no NaN: what is not finite is null."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
