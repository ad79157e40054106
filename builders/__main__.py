"""`python -m builders COMMAND …`: hands over to the module of that name."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

# In the order in which a table comes about; each is a module with a `main(argv)`.
COMMANDS = (
    "enumerate",
    "check",
    "subnets",
    "train",
    "status",
    "supernet",
    "score",
    "cost",
    "latency",
    "published",
    "merge",
    "inheritance",
    "card",
    "readme",
    "notebook",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one builder. Returns: its exit code, or 2 where there is no such builder."""
    command, *rest = list(sys.argv[1:] if argv is None else argv) or [""]
    if command in COMMANDS:
        try:
            return import_module(f"builders.{command}").main(rest)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            return 130
    asked = command in ("-h", "--help")
    if command and not asked:
        print(f"no builder {command!r}; there are: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    print("usage: python -m builders COMMAND [--help] …\n", file=sys.stdout if asked else sys.stderr)
    for name in COMMANDS:
        print(f"  {name:<10} {_summary(name)}", file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


def _summary(name: str) -> str:
    """The first line of a builder's docstring, read without loading what the builder needs."""
    source = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").splitlines()[0]


if __name__ == "__main__":
    raise SystemExit(main())
