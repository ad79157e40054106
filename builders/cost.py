"""Writes what every attention costs in every backbone: `python -m builders cost`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnbench.dataset.files import read_manifest, read_table, write_release
from attnbench.errors import AttnBenchError
from attnbench.space.parse import parse
from builders.shards import DATA, only_builder

# The micro backbones, and one full model of each family at 224 pixels.
COUNTED = ("deit", "pvt", "swin", "cswin", "deit-tiny", "pvt-tiny", "pvt2-b0", "swin-tiny", "cswin-tiny")

Known = dict[tuple[str, str], float | None]


def costs(
    architectures: Sequence[dict[str, Any]], backbones: Sequence[str], protocol_name: str, *, timed: bool, known: Known
) -> list[dict[str, Any]]:
    """Rows of `costs`: parameters and multiply-adds anew; step times measured where `timed`, else as known."""
    import torch
    from rich.progress import track

    from attnbench.nn.cost import backbone_params, graph_macs, step_ms
    from attnbench.nn.protocol import protocol

    torch.set_num_threads(1)
    recipe = protocol(protocol_name)
    graphs = [(row["key"], parse(row["text"])) for row in architectures]
    rows = []
    for backbone in backbones:
        params = backbone_params(backbone)
        for key, graph in track(graphs, description=f"{backbone} costs"):
            time = step_ms(graph, backbone, recipe) if timed else known.get((key, backbone))
            row = {"key": key, "backbone": backbone, "params": params, "macs": graph_macs(graph, backbone)}
            rows.append({**row, "step_ms": time})
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m builders cost", description=__doc__)
    parser.add_argument("--backbone", action="append", help=f"repeat for several; default: {', '.join(COUNTED)}")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    parser.add_argument("--protocol", default="fmnist-micro")
    parser.add_argument(
        "--time",
        action="store_true",
        help="measure step_ms anew, on a quiet machine; for the protocol's frozen backbones unless others are given",
    )
    args = parser.parse_args(argv)
    from attnbench.nn.frozen import FROZEN

    try:
        with only_builder(args.data, "costs"):
            manifest = read_manifest(args.data)
            table = read_table(args.data, "architectures", manifest).select(["key", "kind", "text"]).to_pylist()
            architectures = [row for row in table if row["kind"] == "attention"]
            before = read_table(args.data, "costs", manifest).to_pylist()
            known: Known = {(row["key"], row["backbone"]): row["step_ms"] for row in before}
            backbones = args.backbone or (list(FROZEN.get(args.protocol, {})) if args.time else COUNTED)
            rows = costs(architectures, backbones, args.protocol, timed=args.time, known=known)
            written = {(row["key"], row["backbone"]) for row in rows}
            rows += [row for row in before if (row["key"], row["backbone"]) not in written]
            write_release(args.data, {"costs": rows})
    except (AttnBenchError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"costs: {len(rows)} rows, {sum(row['step_ms'] is not None for row in rows)} with a step time")
    return 0
