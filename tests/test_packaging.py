"""The wheel holds the package and the released tables, and nothing else."""

import configparser
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def config(root: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(root / "setup.cfg")
    return parser


def test_every_folder_of_the_package_is_listed(config: configparser.ConfigParser, root: Path) -> None:
    folders = {
        ".".join(file.parent.relative_to(root).parts) for file in (root / "attnbench").rglob("*.py")
    }  # a folder without __init__.py counts too: forgotten ones must not drop out of the wheel
    listed = {line.strip() for line in config["options"]["packages"].splitlines() if line and line[0] != "#"}
    assert listed - {""} == folders | {"attnbench.data"}


@pytest.fixture(scope="module")
def wheel_dir(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel of this checkout, built from a copy: a build leaves files beside its sources."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, copy)
    for name in ("attnbench", "builders", "data"):
        shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "data" / "incoming").mkdir(exist_ok=True)
    (copy / "data" / "incoming" / "runs-0.parquet").write_bytes(b"not released")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = out.glob("attnbench-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out / "unpacked")
    return out / "unpacked"


def test_wheel_holds_the_package_and_the_tables(wheel_dir: Path, root: Path) -> None:
    assert {path.name.split("-")[0] for path in wheel_dir.iterdir()} == {"attnbench"}
    released = {path.name for path in (root / "data").iterdir() if path.suffix in {".parquet", ".json", ".md"}}
    assert {path.name for path in (wheel_dir / "attnbench" / "data").iterdir()} == released
    assert (wheel_dir / "attnbench" / "py.typed").exists()


@pytest.mark.usefixtures("tables_dir")
def test_wheel_answers_from_another_directory(wheel_dir: Path, tmp_path: Path) -> None:
    # An editable install of this checkout may be importable too: the unpacked wheel must win, and be seen to.
    code = (
        f"import sys; sys.path.insert(0, {str(wheel_dir)!r})\n"
        "import attnbench\n"
        f"assert attnbench.__file__.startswith({str(wheel_dir)!r}), attnbench.__file__\n"
        "from attnbench.cli import main\n"
        "sys.exit(main(['query', 'softmax(q) @ (softmax(k, axis=-2).T @ v)']))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "softmax" in result.stdout
