"""Checks every candidate and counts why raw draws fail. `python -m builders check`."""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from attnbench.dataset.files import MANIFEST, read_manifest, read_table, write_release
from attnbench.errors import AttnBenchError, DataError, InvalidGraph
from attnbench.space.check import check
from attnbench.space.genotype import Genotype
from attnbench.space.parse import parse
from attnbench.space.sample import draw_genotype
from builders.shards import DATA

DRAWS = 100_000
DRAW_SEED = 7
Rows = list[dict[str, Any]]
Outcome = tuple[str, str]


def checked(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `architectures` with what the static and dynamic checks say of its text."""
    from attnbench.nn.checks import check_dynamic

    graph = parse(row["text"])
    reasons = check(graph).reasons + check_dynamic(graph).reasons
    return row | {
        "is_sound": not reasons,
        "failed_checks": list(dict.fromkeys(reason.check for reason in reasons)),
        "reasons": [str(reason) for reason in reasons],
    }


class OurOutcome:
    """The first stage that refuses a raw draw in the graph language; remembers what it accepted."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def __call__(self, genotype: Genotype) -> Outcome:
        from attnbench.nn.checks import check_dynamic

        try:
            graph = genotype.to_graph()
        except InvalidGraph as error:
            return "shape", _shape_reason(error.reason)
        report = check(graph)
        if report.ok:
            report = check_dynamic(graph, first_only=True)
        if not report.ok:
            return report.reasons[0].check, report.reasons[0].message
        if graph.key in self.keys:
            return "new", "an earlier draw is the same function"
        self.keys.add(graph.key)
        return "sound", ""


def rejections(sampler: str, outcome: Callable[[Genotype], Outcome], draws: int, seed: int = DRAW_SEED) -> Rows:
    """Rows of `rejections`: how many of `draws` raw draws end at which stage, for which reason."""
    rng = random.Random(seed)
    steps = track(range(draws), f"drawing from the {sampler}", console=Console(stderr=True))
    counts = Counter(outcome(draw_genotype(rng)) for _ in steps)
    return [
        {"stage": stage, "sampler": sampler, "reason": reason, "count": count, "n_drawn": draws}
        for (stage, reason), count in counts.most_common()
    ]


# What a refusal says, without the place and the sizes that make every one another.
_SHAPE_REASONS = {
    "do not broadcast": "two values do not broadcast",
    "does not contract": "two values do not contract",
    "share neither": "einsum finds no equal axes",
    "the result must be (N, d)": "the result is not (N, d)",
}


def _shape_reason(refusal: str) -> str:
    for said, reason in _SHAPE_REASONS.items():
        if said in refusal:
            return reason
    return refusal.split("): ", 1)[
        1
    ]  # an operator without a sound meaning: "i3n2 slot 0, position 1 (22, unsqz2): ..."


def both_rejections(draws: int) -> Rows:
    """The yields of the released distribution, in the graph language and under the released operators."""
    from attnbench.nn.upstream import upstream_outcome

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="std")  # of a single number, where upstream's normalize meets one
        return rejections("released distribution, this language", OurOutcome(), draws) + rejections(
            "released distribution, released operators", upstream_outcome, draws
        )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m builders check", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    parser.add_argument("--draws", type=int, default=DRAWS, help="raw draws for each row of yields")
    args = parser.parse_args(argv)
    try:
        if not (args.data / MANIFEST).is_file():
            raise DataError(f"{args.data} has no {MANIFEST}: run `python -m builders enumerate` first")
        manifest = read_manifest(args.data)
        listed = read_table(args.data, "architectures", manifest).to_pylist()
        graphs = [row for row in listed if row["kind"] == "attention"]  # a subnet's attention is softmax
        rows = [checked(row) for row in track(graphs, "checking", console=Console(stderr=True))]
        rows += [row for row in listed if row["kind"] != "attention"]
        counts = both_rejections(args.draws)
        write_release(args.data, {"architectures": rows, "rejections": counts})
    except (AttnBenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{len(rows)} architectures, {sum(row['is_sound'] is True for row in rows)} sound")
    for row in counts:
        if row["stage"] == "sound":
            print(f"{row['sampler']}: {row['count']} of {row['n_drawn']} raw draws are sound")
    return 0
