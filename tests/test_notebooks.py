"""Every notebook runs from its first cell to its last in a fresh kernel, and is committed with its outputs."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from builders import notebook

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

PATHS = sorted(notebook.NOTEBOOKS.glob("*.ipynb"))
each = pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def figures(cells: list[Any]) -> int:
    return sum("image/png" in output.get("data", {}) for cell in cells for output in cell.outputs)


@each
@pytest.mark.usefixtures("tables_dir")
def test_runs_without_an_error(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    assert notebook.main([str(copy)]) == 0
    cells = code_cells(copy)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for cell in cells for output in cell.outputs if output.output_type in ("error",)]
    assert not [output for cell in cells for output in cell.outputs if output.get("name") == "stderr"]
    assert figures(cells) == figures(code_cells(path))


@each
def test_is_committed_with_outputs_and_without_a_trace_of_where_it_ran(path: Path, root: Path) -> None:
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert figures(cells) >= 4
    text = path.read_text(encoding="utf-8")
    assert str(root) not in text
    assert '"iopub.execute_input"' not in text  # times of day


def test_a_cell_that_fails_is_named(tmp_path: Path) -> None:
    from nbclient.exceptions import CellExecutionError

    path = tmp_path / "broken.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), path)
    before = path.read_bytes()
    with pytest.raises(CellExecutionError, match="1 / 0"):
        notebook.main([str(path)])
    assert path.read_bytes() == before
