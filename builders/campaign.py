"""What the table still lacks, in the order in which it is wanted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from attnbench.dataset.files import read_manifest, read_table
from attnbench.errors import DataError
from attnbench.space.architecture import read_architecture
from builders.shards import stored_columns
from builders.subnets import from_scratch


class Row(NamedTuple):
    """What identifies a row of `runs`."""

    key: str
    backbone: str
    protocol_hash: str
    seed: int


class TrainingRun(NamedTuple):
    """One unit of work: one graph, one backbone, one seed."""

    text: str
    backbone: str
    protocol: str
    seed: int


@dataclass(frozen=True)
class Wanted:
    """A class of architectures that the campaign wants on one backbone with some seeds."""

    kind: str  # in_grid, is_named or is_wild: a column of `architectures`; or from_scratch, see builders/subnets.py
    backbone: str
    seeds: tuple[int, ...]


# Named graphs first, then the grid once on the first two backbones, then more seeds, the wild sample and the rest.
ORDER = (
    Wanted("is_named", "deit", (0, 1, 2)),
    Wanted("is_named", "pvt", (0, 1, 2)),
    Wanted("is_named", "swin", (0, 1, 2)),
    Wanted("is_named", "cswin", (0, 1, 2)),
    Wanted("in_grid", "deit", (0,)),
    Wanted("in_grid", "pvt", (0,)),
    Wanted("in_grid", "deit", (1,)),
    Wanted("in_grid", "deit", (2,)),
    Wanted("is_wild", "deit", (0,)),
    Wanted("in_grid", "swin", (0,)),
    Wanted("in_grid", "pvt", (1,)),
    Wanted("in_grid", "pvt", (2,)),
    Wanted("is_wild", "pvt", (0,)),
    Wanted("is_wild", "swin", (0,)),
)
# Of subnets, in the space that stands in the place of a backbone.
SUBNET_ORDER = (Wanted("from_scratch", "autoformer-micro", (0, 1)),)


ORDERS = {"fmnist-micro": ORDER, "micro-scratch": SUBNET_ORDER}


def order(protocol: str) -> tuple[Wanted, ...]:
    """What is wanted of a protocol: nothing of one that has no campaign."""
    return ORDERS.get(protocol, ())


def candidates(data: Path) -> dict[str, list[str]]:
    """The formulas of every class, each in the order in which the campaign takes them.

    The order is drawn once and for all, so that a part of a class is a fair sample of it; the grid's is drawn over its
    cells, which favours functions that several cells share. Raises: DataError.
    """
    manifest = read_manifest(data)
    columns = ["key", "kind", "text", "is_named", "is_wild"]
    table = read_table(data, "architectures", manifest).select(columns).to_pylist()
    table = [row for row in table if row["kind"] == "attention"]
    texts = {row["key"]: row["text"] for row in table}
    cell_keys = read_table(data, "cells", manifest).column("key").to_pylist()
    random.Random("in_grid").shuffle(cell_keys)
    found = {"in_grid": [texts[key] for key in dict.fromkeys(cell_keys)]}
    for kind in ("is_named", "is_wild"):
        found[kind] = sorted(row["text"] for row in table if row[kind])
        random.Random(kind).shuffle(found[kind])
    found["from_scratch"] = [subnet.text for subnet in from_scratch()]
    return found


def most_wanted(
    formulas: Mapping[str, Sequence[str]], backbones: Sequence[str], protocol: str, seeds: Sequence[int] | None = None
) -> Iterator[TrainingRun]:
    """Every run of the campaign on these backbones, the most wanted first. formulas: of each class, in order."""
    for wanted in order(protocol):
        if wanted.backbone in backbones:
            for text in formulas[wanted.kind]:
                for seed in wanted.seeds:
                    if seeds is None or seed in seeds:
                        yield TrainingRun(text, wanted.backbone, protocol, seed)


def campaign_backbones(frozen: Iterable[str], protocol: str = "fmnist-micro") -> tuple[list[str], list[str]]:
    """The campaign's backbones in the order in which it comes to them: those that are frozen, and those left out."""
    wanted = dict.fromkeys(wanted.backbone for wanted in order(protocol))
    frozen = set(frozen)
    return [name for name in wanted if name in frozen], [name for name in wanted if name not in frozen]


def stacks(runs: Iterable[TrainingRun], size: int) -> list[tuple[TrainingRun, ...]]:
    """Runs in groups of up to `size` seeds of one graph on one backbone, in the order of each group's first run."""
    groups: list[list[TrainingRun]] = []
    open_groups: dict[tuple[str, str, str], list[TrainingRun]] = {}
    for run in runs:
        group = open_groups.get(run[:3])
        if group is None or len(group) == size:
            group = open_groups[run[:3]] = []
            groups.append(group)
        group.append(run)
    return [tuple(group) for group in groups]


def rows_present(data: Path) -> set[Row]:
    """The identity of every run in the release and among the fresh shards."""
    return set(map(Row._make, stored_columns(data, "runs", *Row._fields)))


def refuse_other_recipes(data: Path, protocol: str, hashes: Mapping[str, str]) -> None:
    """Raises: DataError where runs of this protocol and a backbone are stored that another recipe measured."""
    stored = stored_columns(data, "runs", "protocol", "backbone", "protocol_hash")
    for (name, backbone, found), count in Counter(stored).items():
        if name == protocol and found != hashes.get(backbone, found):
            raise DataError(
                f"{data} holds {count} runs of {protocol} on {backbone} with the recipe {found}; this code's is "
                f"{hashes[backbone]}, and rows of both must not mix. Undo the change, give the new recipe a name of "
                "its own, or train into another directory with --data."
            )


def missing(runs: Iterable[TrainingRun], present: set[Row], hashes: dict[str, str]) -> Iterator[TrainingRun]:
    """The runs that no row answers yet, each function once. hashes: protocol hash of each backbone."""
    seen = set(present)
    keys: dict[str, str] = {}
    for run in runs:
        if run.text not in keys:
            keys[run.text] = read_architecture(run.text).key
        row = Row(keys[run.text], run.backbone, hashes[run.backbone], run.seed)
        if row not in seen:
            seen.add(row)
            yield run
