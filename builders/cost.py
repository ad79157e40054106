"""Writes what every architecture costs in every frozen backbone: `python -m builders cost`."""

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


def costs(
    architectures: Sequence[dict[str, Any]], backbones: Sequence[str], protocol_name: str, *, timed: bool, known: Known
) -> list[dict[str, Any]]:
    """Rows of `costs`: parameters and multiply-adds anew; step times measured where `timed`, else as known."""
    import torch
    from rich.progress import track

    from attnbench.nn.backbones import build_backbone
    from attnbench.nn.cost import count_params, graph_macs, step_ms
    from attnbench.nn.operators import compile_graph
    from attnbench.nn.protocol import protocol

    torch.set_num_threads(1)
    recipe = protocol(protocol_name)
    rows = []
    for backbone in backbones:
        params = count_params(build_backbone(backbone, compile_graph(parse("v")), seed=0))  # graphs have none
        for architecture in track(architectures, description=f"{backbone} costs"):
            graph = parse(architecture["text"])
            time = step_ms(graph, backbone, recipe) if timed else known.get((architecture["key"], backbone))
            macs = graph_macs(graph, backbone)
            row = {"key": architecture["key"], "backbone": backbone, "params": params, "macs": macs, "step_ms": time}
            rows.append(row)
    return rows


Known = dict[tuple[str, str], float | None]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m builders cost", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    parser.add_argument("--protocol", default="fmnist-micro")
    parser.add_argument("--time", action="store_true", help="measure step_ms anew, on a quiet machine")
    args = parser.parse_args(argv)
    from attnbench.nn.frozen import FROZEN

    try:
        with only_builder(args.data, "costs"):
            manifest = read_manifest(args.data)
            architectures = read_table(args.data, "architectures", manifest).select(["key", "text"]).to_pylist()
            before = read_table(args.data, "costs", manifest).to_pylist()
            known: Known = {(row["key"], row["backbone"]): row["step_ms"] for row in before}
            backbones = list(FROZEN.get(args.protocol, {}))
            rows = costs(architectures, backbones, args.protocol, timed=args.time, known=known)
            write_release(args.data, {"costs": rows}, manifest.data_version)
    except (AttnBenchError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"costs: {len(rows)} rows, {sum(row['step_ms'] is not None for row in rows)} with a step time")
    return 0
