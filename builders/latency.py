"""Times every attention alone over the number of tokens: `python -m builders latency`, on a quiet machine."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnbench.dataset.files import read_manifest, read_table
from attnbench.dataset.schema import DEFAULT_BACKBONE
from attnbench.errors import AttnBenchError
from attnbench.space.parse import parse
from builders.options import minutes, sizes, whole
from builders.shards import DATA, only_builder, stored_rows, write_shard
from builders.texts import read_texts

UNIT_SIZE = 40  # graphs in a shard: what a killed builder loses at most


def wanted(data: Path) -> list[str]:
    """The formulas of all attentions, the named ones first, then in a drawn order. Raises: DataError."""
    columns = ["text", "kind", "is_named"]
    table = read_table(data, "architectures", read_manifest(data)).select(columns).to_pylist()
    rows = sorted((row for row in table if row["kind"] == "attention"), key=lambda row: row["text"])
    random.Random("latency").shuffle(rows)
    return [row["text"] for row in sorted(rows, key=lambda row: not row["is_named"])]


def missing(texts: Sequence[str], sizes: Sequence[int], data: Path) -> Iterator[tuple[str, list[int]]]:
    """Formulas with the numbers of tokens at which no row, released or fresh, has them."""
    rows = stored_rows(data, "latency").select(["key", "n_tokens"]).to_pylist()
    present = {(row["key"], row["n_tokens"]) for row in rows}
    for text in texts:
        key = parse(text).key
        lacking = [n_tokens for n_tokens in sizes if (key, n_tokens) not in present]
        present.update((key, n_tokens) for n_tokens in sizes)
        if lacking:
            yield text, lacking


def measure(todo: Sequence[tuple[str, list[int]]], data: Path, minutes: float | None) -> int:
    """Measures the graphs one after the other and writes a shard for every 40. Returns: how many rows."""
    from rich.console import Console
    from rich.progress import track

    from attnbench.nn.latency import latencies

    until = None if minutes is None else time.monotonic() + 60 * minutes
    n_rows = 0
    rows: list[dict[str, Any]] = []
    machine = this_machine()
    console = Console(stderr=True)
    for count, (text, lacking) in enumerate(
        track(todo, "latency", console=console, disable=not console.is_terminal), start=1
    ):
        if until is not None and time.monotonic() > until:
            break
        rows += [{"text": text, **asdict(found), **machine} for found in latencies(parse(text), lacking)]
        if count % UNIT_SIZE == 0:
            write_shard(data, "latency", rows)
            n_rows, rows = n_rows + len(rows), []
    if rows:
        write_shard(data, "latency", rows)
    return n_rows + len(rows)


def this_machine() -> dict[str, Any]:
    """The columns that say where a row was measured."""
    import torch

    return {"device": processor(), "threads": torch.get_num_threads(), "torch_version": torch.__version__}


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What this machine's processor calls itself, or "cpu" where the system does not say."""
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "cpu"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m builders latency", description=__doc__)
    parser.add_argument("--graphs", type=Path, help="file with a formula a line; default: all attentions of the table")
    parser.add_argument("--sizes", type=sizes, help="tokens; default: 64,256,1024,4096")
    parser.add_argument("--minutes", type=minutes, help="start no graph later than this")
    parser.add_argument("--limit", type=whole, help="at most this many graphs")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the tables")
    args = parser.parse_args(argv)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler greets every pass
    import torch

    from attnbench.nn.latency import SIZES, keep_freed_memory

    torch.set_num_threads(1)
    keep_freed_memory()
    try:
        given = None if args.graphs is None else read_texts(args.graphs, DEFAULT_BACKBONE)
        with only_builder(args.data, "latency"):
            texts = wanted(args.data) if given is None else given
            todo = list(missing(texts, args.sizes or SIZES, args.data))[: args.limit]
            print(f"{len(todo)} attentions to time", file=sys.stderr)
            n_rows = measure(todo, args.data, args.minutes)
    except (AttnBenchError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; what lies in shards is kept, start again to go on", file=sys.stderr)
        return 130
    print(f"latency: {n_rows} rows written")
    return 0
