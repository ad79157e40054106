"""Layers hold, and reading the table loads nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import attnbench

HEAVY = ("torch", "timm", "torchvision", "pandas", "scipy", "matplotlib")
# `import attnbench` alone must not even read the tables' libraries.
TABLES = ("numpy", "pyarrow", "duckdb", "rich")


def loaded_after(code: str, root: Path) -> set[str]:
    """Top-level modules in a fresh interpreter after `code` ran."""
    report = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", report], cwd=root, check=True, capture_output=True, text=True)
    return {name.split(".")[0] for name in out.stdout.split()}


def test_import_loads_the_standard_library_only(root: Path) -> None:
    assert not loaded_after("import attnbench", root) & {*HEAVY, *TABLES}


def test_language_loads_the_standard_library_only(root: Path) -> None:
    loaded = loaded_after("import attnbench; attnbench.parse('relu(q) @ (k.T @ v)').key", root)
    assert not loaded & {*HEAVY, *TABLES}


@pytest.mark.usefixtures("tables_dir")
def test_query_loads_nothing_heavy(root: Path) -> None:
    loaded = loaded_after("import attnbench; attnbench.load().query('v')", root)
    assert "pyarrow" in loaded or "numpy" in loaded  # the report can see what a query loads
    assert not loaded & set(HEAVY)


def test_every_public_name_resolves() -> None:
    for name in attnbench._HOME:
        assert getattr(attnbench, name).__name__ == name
        assert name in dir(attnbench)


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"attnbench has no name 'nonsense'; it offers load, .*Graph"):
        attnbench.nonsense  # noqa: B018


def imported_modules(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(str(node.module).split(".")[0])
    return names


@pytest.mark.parametrize("file", sorted((Path(attnbench.__file__).parent / "space").glob("*.py")), ids=lambda f: f.name)
def test_space_needs_the_standard_library_only(file: Path) -> None:
    allowed = {*sys.stdlib_module_names, "attnbench", *(["numpy"] if file.name == "evaluate.py" else [])}
    assert imported_modules(file) <= allowed


def test_layers_point_down(root: Path) -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    result = subprocess.run([*command, "--no-cache"], cwd=root, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
