"""How time and memory of attentions grow with the number of tokens: exponents over the table `latency`.

    python -m builders latency && python benchmarks/latency.py

Reads the release and the fresh shards. The exponent is the slope of log latency over log N from 256 tokens on; memory
is compared between the two largest sizes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from attnbench.analysis.latency import FROM_TOKENS, latency_exponents
from attnbench.dataset.files import read_manifest, read_table
from builders.shards import DATA, read_shards


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    args = parser.parse_args()
    manifest = read_manifest(args.data)
    parts = (read_table(args.data, "latency", manifest), read_shards(args.data, "latency"))
    latency = pd.concat([part.to_pandas() for part in parts]).drop_duplicates(["key", "n_tokens"])
    architectures = read_table(args.data, "architectures", manifest).to_pandas().set_index("key")
    n_sizes = latency[latency["n_tokens"] >= FROM_TOKENS].groupby("key")["n_tokens"].nunique()
    latency = latency[latency["key"].isin(n_sizes[n_sizes > 1].index)]
    table = latency.pivot(index="key", columns="n_tokens", values=["latency_ms", "peak_bytes"])
    frame = architectures.loc[table.index, ["text", "names", "complexity"]].assign(
        exponent=latency_exponents(latency), ms=table["latency_ms"].iloc[:, -1], peak=table["peak_bytes"].iloc[:, -1]
    )
    largest = latency["n_tokens"].max()
    print(f"{len(frame)} attentions; exponents of N from {FROM_TOKENS} to {largest} tokens, one thread")
    columns = ["complexity", "n", "lowest", "median", "highest", f"median ms at {largest}", f"median MB at {largest}"]
    print("| " + " | ".join(columns) + " |\n|---|" + "---:|" * 6)
    for complexity, group in frame.groupby("complexity"):
        e = group["exponent"]
        print(
            f"| {complexity} | {len(group)} | {e.min():.2f} | {e.median():.2f} | {e.max():.2f} "
            f"| {group['ms'].median():.2f} | {group['peak'].median() / 1e6:.1f} |"
        )
    print("\n| attention | exponent | ms | peak MB |\n|---|---:|---:|---:|")
    for row in frame[frame["names"].map(len) > 0].sort_values("exponent").itertuples():
        print(f"| {row.names[0]} | {row.exponent:.2f} | {row.ms:.2f} | {row.peak / 1e6:.1f} |")


if __name__ == "__main__":
    main()
