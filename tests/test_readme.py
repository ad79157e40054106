"""What the README claims runs: its Python blocks, its commands, and the parts that are generated from the tables."""

import re
import shlex
from pathlib import Path

import pytest

from builders import readme
from tests.dataset import tiny

TEXT = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
PYTHON_BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)
COMMANDS = re.findall(r"^\$ attnbench (.*)$", TEXT, re.M)


@pytest.mark.usefixtures("tables_dir")
def test_python_blocks_run() -> None:
    assert PYTHON_BLOCKS
    namespace: dict[str, object] = {}
    for block in PYTHON_BLOCKS:  # in order: a later block uses what an earlier one made
        exec(compile(block, "README.md", "exec"), namespace)


@pytest.mark.usefixtures("tables_dir")
@pytest.mark.parametrize("command", [c for c in COMMANDS if shlex.split(c)[0] not in {"measure", "download"}])
def test_commands_run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from attnbench.cli import main

    assert not main(shlex.split(command))
    assert capsys.readouterr().out


@pytest.mark.usefixtures("tables_dir")
def test_generated_parts_are_up_to_date(root: Path) -> None:
    assert readme.render(TEXT, root / "data") == TEXT, "run `python -m builders readme` and commit README.md"


def test_render_replaces_what_stands_between_the_markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readme, "SECTIONS", {"one": lambda data: f"made from {data.name}"})
    text = "before\n<!-- generated: one -->\nold\n<!-- end -->\nafter\n"
    made = readme.render(text, tmp_path / "tables")
    assert made == "before\n<!-- generated: one -->\nmade from tables\n<!-- end -->\nafter\n"
    assert readme.render(made, tmp_path / "tables") == made


def test_sections_are_made_of_the_tables(tmp_path: Path) -> None:
    release = tiny.write(tmp_path / "release")
    assert "| `runs` | 12 |" in readme.counts(release)
    assert "| deit | `fmnist-micro` | 1 | 4 | 2 | 1 | 1 | 82.5 | 84.0 |" in readme.runs(release)
    shown = readme.command("query softmax")(release)
    assert shown.startswith("```console\n$ attnbench query softmax\n")
    assert "81.00 ± 1.00 %" in shown


def test_spread_of_none_one_and_some() -> None:
    assert [readme._spread(values) for values in ([], [80.0], [80.0, 82.0])] == ["none", "80.0", "81.0 ± 1.4"]


def test_command_that_fails_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"`attnbench top` exited with 1; README.md shows working commands only"):
        readme.command("top")(tmp_path)


def test_unknown_section_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"README.md asks for 'nonsense', which nothing generates; known: .*controls"):
        readme.render("<!-- generated: nonsense -->\n<!-- end -->\n", tmp_path)


def test_open_section_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"1 of README.md's generated parts has no <!-- end -->"):
        readme.render("<!-- generated: controls -->\n", tmp_path)
