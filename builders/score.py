"""Scores graphs on backbones and subnets of spaces by every proxy: `python -m builders score --backbone deit --all`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from attnbench.dataset.files import MANIFEST, read_manifest, read_table
from attnbench.errors import AttnBenchError, DataError, DiskFull
from attnbench.space.architecture import read_architecture
from attnbench.space.named import named_graphs
from attnbench.space.subnet import Subnet
from attnbench.space.subnet_named import PUBLISHED_SUBNETS, SPACES
from builders.engine import SetupFailed, run_units
from builders.options import minutes, names, seeds, whole
from builders.shards import DATA, only_builder, stored_columns, write_shard
from builders.texts import belongs, read_texts

# How many models a kill may lose at most: the micro ones take a second or two, those at 224 pixels a minute.
UNIT_SIZE = 20
UNIT_SIZE_FULL = 10
UNIT_SIZE_FULL_WITH_IMAGES = 1
FULL_SIDE = 224
# Named architectures show how much a score owes to the luck of the weights; at 224 pixels one draw must do.
SEEDS_OF_NAMED = (0, 1, 2)
SEEDS = (0,)

# What a worker process keeps between its units.
_worker: dict[str, Any] = {}


class Scoring(NamedTuple):
    """One architecture on one backbone, or in one space, with one set of initial weights, and what it still lacks."""

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
    """Scores some models and writes their shard. Returns: how many rows it holds.

    Raises: RuntimeError naming the architectures whose scoring failed; the others' rows are kept.
    """
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    for scoring in unit:
        try:
            rows += score_one(scoring)
        except Exception as error:
            failed.append(f"{scoring.text} ({type(error).__name__}: {error})")
    if rows:
        write_shard(_worker["data"], "proxies", rows)
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(unit)} could not be scored: {'; '.join(failed)}")
    return len(rows)


def score_one(scoring: Scoring) -> list[dict[str, Any]]:
    """The rows of one model; in float64, at 224 pixels in float32."""
    import torch

    from attnbench.nn.backbones import build_backbone
    from attnbench.nn.operators import compile_graph
    from attnbench.nn.proxies.fit import fitted
    from attnbench.nn.proxies.score import score
    from attnbench.nn.subnet import build_subnet

    text, backbone, weight_seed, names = scoring
    architecture = read_architecture(text)
    if isinstance(architecture, Subnet):
        model = build_subnet(architecture, SPACES[backbone].frame, weight_seed)
    else:
        model = build_backbone(backbone, compile_graph(architecture), weight_seed)
    shape, batch = shape_of(backbone), _worker["batch"]
    dtype = torch.float32 if is_full(backbone) else torch.float64
    scores = score(model, shape, batch=batch and fitted(batch, shape), names=names, dtype=dtype)
    return [{"text": text, "backbone": backbone, "weight_seed": weight_seed, **asdict(found)} for found in scores]


def shape_of(backbone: str) -> tuple[int, int, int]:
    """Channels, rows and columns of a backbone's or a space's images. Raises: ValueError (an unknown name)."""
    from attnbench.nn.backbones import backbone_config

    if backbone in SPACES:
        frame = SPACES[backbone].frame
        return frame.n_channels, frame.image_size, frame.image_size
    config = backbone_config(backbone)
    return (config.n_channels, *config.image_size)


def is_full(backbone: str) -> bool:
    return shape_of(backbone)[1] >= FULL_SIDE


def selected(args: argparse.Namespace, backbone: str) -> list[str]:
    """A spelling of every architecture that is asked for on a backbone or in a space.

    Raises: ValueError for a line of a file that does not belong there, and where there are no tables to take all of.
    """
    space = SPACES.get(backbone)
    if args.named:
        if space is None:
            return [graph.text for graph in named_graphs().values()]
        return [row.subnet.text for row in PUBLISHED_SUBNETS.values() if row.subnet in space]
    if args.all:
        if not (args.data / MANIFEST).is_file():
            raise ValueError(f"{args.data} holds no table of architectures; run `python -m builders check` first.")
        texts = read_table(args.data, "architectures", read_manifest(args.data)).column("text").to_pylist()
        return [text for text in texts if belongs(read_architecture(text), backbone)]
    if args.graphs:
        return read_texts(args.graphs, backbone)
    return [text for text, on in stored_columns(args.data, "runs", "text", "backbone") if on == backbone]


def missing(
    texts: Iterable[str],
    backbone: str,
    present: set[tuple[Any, ...]],
    *,
    proxies: Sequence[str] | None = None,
    limit: int | None = None,
    seeds: Sequence[int] | None = None,
) -> Iterator[Scoring]:
    """What no row answers yet, each function once: the named ones first, all in the order of their keys.

    present: key, backbone, proxy and weight seed of every row. limit: of architectures, answered or not. The order
    depends on nothing else, and any beginning of it is a fair sample of the whole.
    """
    from attnbench.nn.proxies.registry import PROXIES

    spellings: dict[str, str] = {}
    for text in texts:
        spellings.setdefault(read_architecture(text).key, text)
    named = {graph.key for graph in named_graphs().values()} | {row.subnet.key for row in PUBLISHED_SUBNETS.values()}
    for key in sorted(spellings, key=lambda key: (key not in named, key))[:limit]:
        for weight_seed in seeds or (SEEDS_OF_NAMED if key in named and not is_full(backbone) else SEEDS):
            lacking = tuple(
                name
                for name in proxies or PROXIES
                if any((key, backbone, column, weight_seed) not in present for column in PROXIES[name].columns)
            )
            if lacking:
                yield Scoring(spellings[key], backbone, weight_seed, lacking)


def in_units(scorings: Iterable[Scoring], size: int | None = None) -> list[tuple[Scoring, ...]]:
    """Units of work, each of one backbone, and one shard each; the slower its models, the fewer."""
    units: list[tuple[Scoring, ...]] = []
    for backbone, group in groupby(scorings, lambda scoring: scoring.backbone):
        rest = list(group)
        n = size or unit_size(backbone, needs_images(rest))
        units += [tuple(rest[i : i + n]) for i in range(0, len(rest), n)]
    return units


def unit_size(backbone: str, with_images: bool) -> int:
    if not is_full(backbone):
        return UNIT_SIZE
    return UNIT_SIZE_FULL_WITH_IMAGES if with_images else UNIT_SIZE_FULL


def needs_images(scorings: Iterable[Scoring]) -> bool:
    from attnbench.nn.proxies.registry import PROXIES

    return any(PROXIES[name].data != "none" for scoring in scorings for name in scoring.proxies)


def run(units: Sequence[tuple[Scoring, ...]], args: argparse.Namespace) -> tuple[int, int]:
    """Scores the units with a progress bar. Returns: rows written by whole units, and units that failed.

    Raises: SetupFailed, DiskFull.
    """
    from rich.console import Console
    from rich.progress import Progress

    until = time.monotonic() + 60 * args.minutes if args.minutes is not None else None
    n_rows = failures = 0
    console = Console(stderr=True)
    with Progress(*Progress.get_default_columns(), console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("scoring", total=sum(map(len, units)))
        setup_args = (args.data, args.protocol, args.dataset, any(map(needs_images, units)))
        for done in run_units(
            units, score_unit, workers=args.workers, setup=setup_worker, setup_args=setup_args, until=until
        ):
            if isinstance(done.error, DiskFull):
                raise done.error  # no other unit could be written either
            if done.error is None:
                n_rows += done.result
            else:
                failures += 1
                console.print(f"FAILED {done.error}", highlight=False, markup=False, soft_wrap=True)
            progress.advance(bar, len(done.unit))
    return n_rows, failures


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m builders score", description=__doc__)
    parser.add_argument("--backbone", action="append", default=[], help="micro or full; repeat for several")
    parser.add_argument("--space", action="append", default=[], help="of subnets, such as autoformer-micro; repeat")
    parser.add_argument("--protocol", default="fmnist-micro", help="whose training images are scored on")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--all", action="store_true", help="every architecture; default: those with a run")
    what.add_argument("--named", action="store_true", help="named graphs, published subnets")
    what.add_argument("--graphs", type=Path, help="file with a formula or a subnet a line")
    parser.add_argument("--proxies", type=names, help="names, with commas between them; default: all")
    parser.add_argument("--limit", type=whole, help="only the first so many architectures")
    parser.add_argument(
        "--seeds",
        type=seeds,
        help="of the weights, with commas; default: 0, and 0,1,2 for what is named and not at 224 pixels",
    )
    parser.add_argument("--workers", type=whole, default=max(1, os.cpu_count() or 1), help="processes; 0: in this one")
    parser.add_argument("--minutes", type=minutes, help="start no unit that would end later than this")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    parser.add_argument("--dataset", type=Path, help="directory of Fashion-MNIST's four files")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    from attnbench.nn.backbones import BACKBONES, backbone_config
    from attnbench.nn.frozen import FROZEN
    from attnbench.nn.protocol import protocol
    from attnbench.nn.proxies.registry import proxy

    try:
        protocol(args.protocol)
        for name in args.proxies or ():
            proxy(name)
        for name in args.backbone:
            backbone_config(name)
        for name in args.space:
            if name not in SPACES:
                raise ValueError(f"unknown space {name!r}; known: {', '.join(SPACES)}.")
        frozen = [name for name in FROZEN.get(args.protocol, {}) if name in BACKBONES]
        backbones = list(dict.fromkeys([*args.backbone, *args.space] or frozen))
        if args.graphs is None and not args.data.is_dir():
            raise DataError(f"{args.data} is no directory of tables: give --data one that holds runs or a release.")
        with only_builder(args.data, "proxies"):
            present = set(stored_columns(args.data, "proxies", "key", "backbone", "proxy", "weight_seed"))
            todo: list[Scoring] = []
            for backbone in backbones:
                texts = selected(args, backbone)
                todo += missing(texts, backbone, present, proxies=args.proxies, limit=args.limit, seeds=args.seeds)
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
