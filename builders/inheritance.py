"""Prints how supernets of either sharing rank subnets: `python -m builders inheritance`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import attnbench
from attnbench.errors import AttnBenchError
from builders.shards import DATA

if TYPE_CHECKING:
    import pandas as pd

    from attnbench.analysis.inheritance import SharingGap

NAMES = {
    "micro-entangled": "entangled",
    "micro-classical": "classical",
    "params": "parameters alone",
    "one seed": "one seed from scratch, against another",
}


def table(data: Path) -> str:
    """The comparison as Markdown, with a sentence that says whether the paper's claim holds.

    Source: AutoFormer, Chen et al. 2021, table 1: classical sharing inherits 69.7 to 71.5 % where entanglement inherits
    81.3 to 81.7 %.
    """
    import pandas as pd

    from attnbench.analysis.inheritance import inheritance_ranks, sharing_gap

    bench = attnbench.load(data)
    runs = bench.table("runs")
    ranks = inheritance_ranks(runs, bench.table("costs"))
    lines = [
        "| ranking of subnets | inherited validation top-1, % (mean ± sd of subnets) | subnets "
        "| τ with training from scratch | partial τ given parameters |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in ranks.to_dict("records"):
        seed = f", seed {row['seed']:.0f}" if pd.notna(row["seed"]) else ""
        mean = f"{row['mean']:.1f} ± {row['sd']:.1f} ({row['n_inherited']:,.0f})" if pd.notna(row["mean"]) else ""
        taus = [_interval(row, name) for name in ("tau", "partial_tau")]
        lines.append(f"| {NAMES[row['score']]}{seed} | {mean} | {row['n']:.0f} | {' | '.join(taus)} |")
    said = [verdict(sharing_gap(runs)), beside_params(ranks), trainings(ranks)]
    return "\n".join([*lines, "", " ".join(filter(None, said))])


def verdict(gap: SharingGap) -> str:
    """Whether entanglement inherits more, and whether it ranks better than classical sharing, on these rows."""
    entangled, classical = gap.below_scratch
    more = "more" if gap.points > 0 else "less"
    sentences = [
        f"On the {gap.n} subnets that were trained from scratch too, entangled weights inherit {abs(gap.points):.1f} "
        f"points {more} than classically shared ones ({-entangled:+.1f} and {-classical:+.1f} points against training "
        "from scratch, which takes a sixth of a supernet's steps for one subnet). "
        f"The paper's claim that entangled subnets inherit more is {'' if gap.points > 0 else 'not '}confirmed."
    ]
    if gap.tau is not None and gap.low is not None and gap.high is not None:
        if gap.low > 0:
            ranking = "entanglement ranks better"
        elif gap.high < 0:
            ranking = "classical sharing ranks better"
        else:
            ranking = "neither ranks better beyond chance"
        sentences.append(
            f"Its τ with training from scratch is {gap.tau:+.2f} against classical sharing "
            f"({gap.low:+.2f} to {gap.high:+.2f}): {ranking}."
        )
    return " ".join(sentences)


def beside_params(ranks: pd.DataFrame) -> str:
    """Whether a supernet's weights rank subnets better than their number of parameters, which costs nothing."""
    tau = ranks.dropna(subset=["tau"]).groupby("score")["tau"].max()
    supernets = tau.drop(["params", "one seed"], errors="ignore")
    if "params" not in tau or supernets.empty:
        return ""
    above = supernets[supernets > tau["params"]].index
    return (
        f"The number of parameters alone has a τ of {tau['params']:.2f}; "
        f"{' and '.join(NAMES[name] for name in above) or 'no supernet'} ranks higher."
    )


def trainings(ranks: pd.DataFrame) -> str:
    """What the intervals leave out where a sharing has one training."""
    n = ranks.dropna(subset=["seed"]).groupby("score")["seed"].nunique()
    if n.min() > 1:
        return ""
    names = " and ".join(NAMES[name] for name in n.index[n == 1])
    return f"One supernet stands for {names}: the intervals are over subnets, and hold nothing of its luck."


def _interval(row: dict[str, float], name: str) -> str:
    import pandas as pd

    if pd.isna(row.get(name)):
        return ""
    interval = f" ({row[f'{name}_low']:.2f} to {row[f'{name}_high']:.2f})" if pd.notna(row[f"{name}_low"]) else ""
    return f"{row[name]:.2f}{interval}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m builders inheritance", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    args = parser.parse_args(argv)
    try:
        print(table(args.data))
    except (AttnBenchError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
