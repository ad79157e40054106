"""Executes the notebooks again, so that their outputs come from the tables: `python -m builders notebook`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from attnbench.dataset.atomic import replacing

if TYPE_CHECKING:
    from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
TIMEOUT_S = 600


def execute(path: Path, *, directory: Path = ROOT) -> NotebookNode:
    """The notebook with every cell run in a fresh kernel, started in `directory`; the file stays as it is.

    Raises: nbclient.exceptions.CellExecutionError, with the cell and its traceback.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(directory)}}
    # Times of day would make every execution another file.
    client = NotebookClient(
        notebook, timeout=TIMEOUT_S, kernel_name="python3", resources=resources, record_timing=False
    )
    return client.execute()


def main(argv: list[str] | None = None) -> int:
    """Execute notebooks in place."""
    parser = argparse.ArgumentParser(prog="python -m builders notebook", description=main.__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="default: all of notebooks/")
    args = parser.parse_args(argv)
    import nbformat

    for path in args.paths or sorted(NOTEBOOKS.glob("*.ipynb")):
        print(f"executing {path.name}", file=sys.stderr)
        done = execute(path)
        with replacing(path) as beside:
            beside.write_text(nbformat.writes(done) + "\n", encoding="utf-8")
    return 0
