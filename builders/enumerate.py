"""Lists every candidate: the grid, the named graphs, a wild sample. `python -m builders enumerate`."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from attnbench.dataset.files import MANIFEST, read_manifest, read_table, write_release
from attnbench.errors import AttnBenchError, InvalidGraph
from attnbench.space.check import check
from attnbench.space.evaluate import same_signature, signature
from attnbench.space.genotype import Genotype
from attnbench.space.graph import Graph
from attnbench.space.grid import cell_graph, cell_key, cells
from attnbench.space.named import named_graphs
from attnbench.space.typed import TypedSampler
from builders.options import data_version
from builders.shards import DATA

TABLE_SIZE = 2000  # attention variants in all
WILD_SEED = 101

Rows = list[dict[str, Any]]


def candidates(size: int, is_sound: Callable[[Graph], bool], seed: int = WILD_SEED, kept: Sequence[str] = ()) -> Rows:
    """Rows of `architectures`: one per function, the wild sample filling up to `size`.

    `is_sound` says whether a graph that passes the static checks passes the others. `kept` are genotypes (JSON) of an
    earlier wild sample, which stay as long as they are sound: rows may have been measured for them.
    """
    rows: dict[str, dict[str, Any]] = {}
    for cell in cells():
        _add(rows, cell_graph(cell), in_grid=True)
    for name, graph in named_graphs().items():
        _add(rows, graph, is_named=True)["names"].append(name)
    signatures = [row["signature"] for row in rows.values()]
    drawn = chain(map(Genotype.read, kept), draws(random.Random(seed)))
    wild = islice(new_and_sound(drawn, set(rows), signatures, is_sound), max(0, size - len(rows)))
    for genotype in track(wild, "drawing the wild sample", total=size - len(rows), console=Console(stderr=True)):
        _add(rows, genotype.to_graph(), is_wild=True, genotype=genotype)
    return sorted(rows.values(), key=lambda row: row["key"])


def draws(rng: random.Random) -> Iterator[Genotype]:
    """The released sampler's distribution, given what is necessary for passing the checks."""
    sampler = TypedSampler("promising")
    while True:
        yield sampler.draw(rng)


def new_and_sound(
    drawn: Iterable[Genotype],
    keys: set[str],
    signatures: list[tuple[float, ...]],
    is_sound: Callable[[Graph], bool],
) -> Iterator[Genotype]:
    """Those that pass every check and are new, by key and by function.

    `keys` and `signatures` are what there is already; both grow with what is yielded.
    """
    for genotype in drawn:
        graph = genotype.to_graph()
        if graph.key in keys or not check(graph).ok or not is_sound(graph):
            continue
        mark = signature(graph)
        if not any(same_signature(mark, other) for other in signatures):
            keys.add(graph.key)
            signatures.append(mark)
            yield genotype


def _add(
    rows: dict[str, dict[str, Any]], graph: Graph, genotype: Genotype | None = None, **kind: bool
) -> dict[str, Any]:
    """The row of a graph's function, made or found, with another origin noted."""
    row = rows.get(graph.key)
    if row is None:
        row = rows[graph.key] = {
            "key": graph.key,
            "kind": "attention",
            "text": graph.text,
            "in_grid": False,
            "is_named": False,
            "is_wild": False,
            "names": [],
            "graph_type": None,
            "genotype": None,
            "complexity": graph.complexity,
            "is_sound": None,
            "failed_checks": [],
            "reasons": [],
            "signature": list(signature(graph)),
        }
    row.update(kind)
    if (len(graph.text), graph.text) < (len(row["text"]), row["text"]):
        row["text"], row["complexity"] = graph.text, graph.complexity
    if row["genotype"] is None:
        try:
            genotype = genotype or Genotype.from_graph(graph)
        except InvalidGraph:
            return row
        row["graph_type"], row["genotype"] = genotype.graph_type, genotype.to_json()
    return row


def cell_rows() -> Rows:
    """Rows of `cells`."""
    return [cell._asdict() | {"key": cell_key(cell)} for cell in cells()]


def released(data: Path) -> tuple[str, list[str]]:
    """Version of the release and the genotypes of its wild sample; 0.1.0 and none where there is no release."""
    if not (data / MANIFEST).is_file():
        return "0.1.0", []
    manifest = read_manifest(data)
    rows = read_table(data, "architectures", manifest).select(["is_wild", "genotype"]).to_pylist()
    return manifest.data_version, [row["genotype"] for row in rows if row["is_wild"]]


def listed_subnets(data: Path) -> Rows:
    """The rows of `architectures` that `builders subnets` wrote."""
    if not (data / MANIFEST).is_file():
        return []
    rows = read_table(data, "architectures", read_manifest(data)).to_pylist()
    return [row for row in rows if row["kind"] == "subnet"]


def passes_dynamic_checks(graph: Graph) -> bool:
    from attnbench.nn.checks import check_dynamic

    return check_dynamic(graph, first_only=True).ok


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m builders enumerate", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    parser.add_argument("--size", type=int, default=TABLE_SIZE, help="attention variants in all")
    parser.add_argument("--version", type=data_version, help="data version; default: that of the release, or 0.1.0")
    args = parser.parse_args(argv)
    try:
        # Fresh rows are not touched, so training may go on meanwhile.
        version, kept = released(args.data)
        rows = candidates(args.size, passes_dynamic_checks, kept=kept)
        args.data.mkdir(parents=True, exist_ok=True)
        listed = [*rows, *listed_subnets(args.data)]
        write_release(args.data, {"architectures": listed, "cells": cell_rows()}, args.version or version)
    except (AttnBenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    counts = {kind: sum(row[kind] for row in rows) for kind in ("in_grid", "is_named", "is_wild")}
    print(f"{len(rows)} architectures: {', '.join(f'{n} {kind}' for kind, n in counts.items())}")
    return 0
