"""Writes the generated part of the dataset card, data/README.md, from the schema: `python -m builders card`."""

from __future__ import annotations

import argparse
from pathlib import Path

from attnbench.dataset.atomic import replacing
from attnbench.dataset.schema import TABLES

CARD = Path(__file__).resolve().parents[1] / "data" / "README.md"
START, END = "<!-- generated: columns -->\n", "<!-- end -->"


def render(card: str) -> str:
    """The card with the pages of all tables made again. Raises: ValueError where the marks are missing."""
    before, start, rest = card.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"the dataset card needs {START.strip()!r} and then {END!r}, each on its own line.")
    return before + start + "\n" + "\n".join(describe(name) for name in TABLES) + "\n" + end + after


def describe(name: str) -> str:
    """A Markdown page of one table: a sentence, then a row per column."""
    table = TABLES[name]
    identity = ", ".join(f"`{column}`" for column in table.identity)
    lines = [
        f"### `{table.name}`",
        "",
        f"{table.meaning} One row per {identity}; written by `{table.source}`.",
        "",
        "| column | dtype | unit | better | null | meaning | source |",
        "|---|---|---|---|---|---|---|",
    ]
    for c in table.columns:
        cells = (f"`{c.name}`", f"`{c.dtype}`", c.unit, c.better, "yes" if c.nullable else "", c.meaning, c.source)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Write the columns' pages of data/README.md again, or with --check only say whether they are up to date."""
    parser = argparse.ArgumentParser(prog="python -m builders card", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if the card is out of date")
    args = parser.parse_args(argv)
    old = CARD.read_text(encoding="utf-8")
    new = render(old)
    if args.check:
        print("the card is up to date" if new == old else "data/README.md is out of date: python -m builders card")
        return int(new != old)
    with replacing(CARD) as beside:
        beside.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
