"""Scores every graph that has a run by every proxy: `python -m builders score --backbone deit --workers 2`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from attnbench.dataset.files import MANIFEST, read_manifest, read_table
from attnbench.errors import AttnBenchError
from attnbench.space.named import named_graphs
from attnbench.space.parse import parse
from builders.engine import SetupFailed, run_units
from builders.shards import DATA, only_builder, read_shards, write_shard

UNIT_SIZE = 50
# Named graphs show how much a score owes to the luck of the weights.
SEEDS_OF_NAMED = (0, 1, 2)
SEEDS = (0,)

# What a worker process keeps between its units.
_worker: dict[str, Any] = {}


class Scoring(NamedTuple):
    """One graph on one backbone with one set of initial weights, and the proxies that it still lacks."""

    text: str
    backbone: str
    weight_seed: int
    proxies: tuple[str, ...]


def setup_worker(data: Path, protocol_name: str, dataset: Path | None, needs_images: bool) -> None:
    """Once in each worker: one thread, and the batch of training images where some proxy looks at one."""
    import torch

    from attnbench.nn.data import load_splits
    from attnbench.nn.protocol import protocol
    from attnbench.nn.proxies.score import balanced_batch

    torch.set_num_threads(1)
    batch = balanced_batch(load_splits(protocol(protocol_name), dataset).train) if needs_images else None
    _worker.update(data=data, batch=batch)


def score_unit(unit: Sequence[Scoring]) -> int:
    """Scores some graphs and writes their shard. Returns: how many rows it holds.

    Raises: RuntimeError naming the graphs whose scoring failed; the others' rows are kept.
    """
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    for scoring in unit:
        try:
            rows += score_graph(scoring)
        except Exception as error:
            failed.append(f"{scoring.text} ({type(error).__name__}: {error})")
    if rows:
        write_shard(_worker["data"], "proxies", rows)
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(unit)} could not be scored: {'; '.join(failed)}")
    return len(rows)


def score_graph(scoring: Scoring) -> list[dict[str, Any]]:
    """The rows of one graph."""
    from attnbench.nn.backbones import build_backbone
    from attnbench.nn.cost import image_shape
    from attnbench.nn.operators import compile_graph
    from attnbench.nn.proxies.score import score

    text, backbone, weight_seed, names = scoring
    model = build_backbone(backbone, compile_graph(parse(text)), weight_seed)
    scores = score(model, image_shape(backbone), batch=_worker["batch"], names=names)
    return [{"text": text, "backbone": backbone, "weight_seed": weight_seed, **asdict(found)} for found in scores]


def columns_of(data: Path, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Some columns of every row, released or fresh. Raises: DataError."""
    tables = [read_table(data, table, read_manifest(data))] if (data / MANIFEST).is_file() else []
    for rows in (*tables, read_shards(data, table)):
        yield from zip(*(rows.column(name).to_pylist() for name in columns), strict=True)


def trained(data: Path, backbone: str) -> list[str]:
    """A spelling of every graph that has a run on this backbone."""
    return [text for text, on in columns_of(data, "runs", ("text", "backbone")) if on == backbone]


def missing(texts: Iterable[str], backbone: str, data: Path) -> Iterator[Scoring]:
    """What no row answers yet, each function once, the named ones first."""
    from attnbench.nn.proxies.registry import PROXIES

    present = set(columns_of(data, "proxies", ("key", "backbone", "proxy", "weight_seed")))
    graphs: dict[str, str] = {}
    for text in texts:
        graphs.setdefault(parse(text).key, text)
    named = {graph.key for graph in named_graphs().values()}
    for key in sorted(graphs, key=lambda key: key not in named):
        for weight_seed in SEEDS_OF_NAMED if key in named else SEEDS:
            lacking = tuple(
                name
                for name, proxy in PROXIES.items()
                if any((key, backbone, column, weight_seed) not in present for column in proxy.columns)
            )
            if lacking:
                yield Scoring(graphs[key], backbone, weight_seed, lacking)


def in_units(scorings: Iterable[Scoring], size: int = UNIT_SIZE) -> list[tuple[Scoring, ...]]:
    """Units of work of so many graphs each; one shard each."""
    rest = iter(scorings)
    return list(iter(lambda: tuple(islice(rest, size)), ()))


def run(units: Sequence[tuple[Scoring, ...]], args: argparse.Namespace) -> tuple[int, int]:
    """Scores the units with a progress bar. Returns: rows written by whole units, and units that failed."""
    from rich.console import Console
    from rich.progress import Progress

    from attnbench.nn.proxies.registry import PROXIES

    needs_images = any(PROXIES[name].data != "none" for unit in units for scoring in unit for name in scoring.proxies)
    until = time.monotonic() + 60 * args.minutes if args.minutes is not None else None
    n_rows = failures = 0
    console = Console(stderr=True)
    with Progress(*Progress.get_default_columns(), console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("scoring", total=sum(map(len, units)))
        setup_args = (args.data, args.protocol, args.dataset, needs_images)
        for done in run_units(
            units, score_unit, workers=args.workers, setup=setup_worker, setup_args=setup_args, until=until
        ):
            if done.error is None:
                n_rows += done.result
            else:
                failures += 1
                console.print(f"FAILED {done.error}", highlight=False, markup=False, soft_wrap=True)
            progress.advance(bar, len(done.unit))
    return n_rows, failures


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m builders score", description=__doc__)
    parser.add_argument("--backbone", action="append", help="repeat for several; default: every frozen one")
    parser.add_argument("--protocol", default="fmnist-micro", help="whose training images are scored on")
    parser.add_argument("--graphs", type=Path, help="file with a formula a line; default: every graph with a run")
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count() or 1), help="processes; 0: in this one")
    parser.add_argument("--minutes", type=float, help="start no unit that would end later than this")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    parser.add_argument("--dataset", type=Path, help="directory of Fashion-MNIST's four files")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    from attnbench.nn.backbones import backbone_config
    from attnbench.nn.frozen import FROZEN
    from attnbench.nn.protocol import protocol

    try:
        protocol(args.protocol)
        backbones = list(dict.fromkeys(args.backbone or FROZEN.get(args.protocol, {})))
        for backbone in backbones:
            backbone_config(backbone)
        given = args.graphs and [line for line in args.graphs.read_text().splitlines() if line.strip()]
        with only_builder(args.data, "proxies"):
            todo: list[Scoring] = []
            for backbone in backbones:
                todo += missing(trained(args.data, backbone) if given is None else given, backbone, args.data)
            print(f"{len(todo)} models to score with {args.workers} workers", file=sys.stderr)
            n_rows, failures = run(in_units(todo), args)
    except (AttnBenchError, SetupFailed, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; what was finished is kept, start again to go on", file=sys.stderr)
        return 130
    print(f"{n_rows} rows written", file=sys.stderr)
    return 1 if failures else 0
