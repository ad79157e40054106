"""Lists the subnets of the table with what they cost: `python -m builders subnets`."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnbench.dataset.files import read_manifest, read_table, write_release
from attnbench.errors import AttnBenchError
from attnbench.space.subnet import Subnet
from attnbench.space.subnet_cost import subnet_cost
from attnbench.space.subnet_named import PUBLISHED_SUBNETS, SPACES
from attnbench.space.subnet_sample import sample
from builders.shards import DATA, only_builder

MICRO = "autoformer-micro"
SAMPLES = {MICRO: 1000, "autoformer-tiny": 1000}  # how many random subnets of which space
N_FROM_SCRATCH = 200

Rows = list[dict[str, Any]]


def drawn(space_name: str, n: int) -> list[Subnet]:
    """The first `n` distinct subnets of a space's sample, which depends on its name only.

    Width, depth, and every layer's heads and ratio are drawn uniformly and independently, and what was drawn before is
    drawn anew. The beginning of a list therefore holds shallow subnets as often as deep ones, until a small space runs
    out of them: of depths 2, 3 and 4 the first 200 of autoformer-micro have a third each, its 1,000 have 198, 391, 411.
    """
    rng = random.Random(f"subnets of {space_name}")
    found: dict[Subnet, None] = {}
    while len(found) < n:
        found.setdefault(sample(SPACES[space_name], rng, uniform="coordinates"))
    return list(found)


def from_scratch() -> list[Subnet]:
    """The micro subnets that are trained from scratch, in the order in which they are wanted."""
    return drawn(MICRO, N_FROM_SCRATCH)


def listed() -> list[tuple[str, Subnet, str | None]]:
    """Space, subnet and, of published ones, name."""
    samples = [(space, subnet, None) for space, n in SAMPLES.items() for subnet in drawn(space, n)]
    return [*samples, *((row.space, row.subnet, row.name) for row in PUBLISHED_SUBNETS.values())]


def architecture_rows() -> Rows:
    """Rows of `architectures`, one per subnet. What is said of attention formulas only is null or empty."""
    rows: dict[str, dict[str, Any]] = {}
    for _, subnet, name in listed():
        row = rows.setdefault(
            subnet.key,
            {
                "key": subnet.key,
                "kind": "subnet",
                "text": subnet.text,
                "in_grid": False,
                "is_named": False,
                "is_wild": False,
                "names": [],
                "graph_type": None,
                "genotype": None,
                "complexity": "O(N^2)",  # softmax attention
                "is_sound": None,
                "failed_checks": [],
                "reasons": [],
                "signature": None,
            },
        )
        if name is not None:
            row["is_named"] = True
            row["names"].append(name)
    return list(rows.values())


def cost_rows() -> Rows:
    """Rows of `costs`, one per subnet and space, by formula."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for space, subnet, _ in listed():
        cost = subnet_cost(subnet, SPACES[space].frame)._asdict()
        rows[subnet.key, space] = {"key": subnet.key, "backbone": space, "step_ms": None, **cost}
    return list(rows.values())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m builders subnets", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    args = parser.parse_args(argv)
    try:
        with only_builder(args.data, "architectures", "costs"):
            manifest = read_manifest(args.data)
            tables: dict[str, Rows] = {}
            for table, made, identity in (
                ("architectures", architecture_rows(), ("key",)),
                ("costs", cost_rows(), ("key", "backbone")),
            ):
                new = {tuple(row[column] for column in identity) for row in made}
                before = read_table(args.data, table, manifest).to_pylist()
                others = [row for row in before if tuple(row[column] for column in identity) not in new]
                tables[table] = [*others, *made]
            write_release(args.data, tables)
    except (AttnBenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    subnets = [row for row in tables["architectures"] if row["kind"] == "subnet"]
    print(f"{len(subnets)} subnets, {sum(row['is_named'] for row in subnets)} of them published")
    return 0
