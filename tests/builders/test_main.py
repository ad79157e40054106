"""`python -m builders` knows every builder and hands its arguments over."""

import re
from pathlib import Path

import pytest

from builders import readme
from builders.__main__ import COMMANDS, main


def test_every_builder_is_a_command(root: Path) -> None:
    with_main = {file.stem for file in (root / "builders").glob("*.py") if "\ndef main(" in file.read_text()}
    assert with_main - {"__main__"} == set(COMMANDS)


def test_help_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in COMMANDS)


def test_arguments_and_exit_code_are_the_builders_own(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(readme, "main", lambda argv: given.append(argv) or 7)
    assert main(["readme", "--check"]) == 7
    assert given == [["--check"]]


def test_a_builder_that_is_interrupted_says_so(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def interrupted(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("builders.merge.main", interrupted)
    assert main(["merge"]) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_unknown_builder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bake"]) == 2
    assert re.search("no builder 'bake'; there are: .*merge, ", capsys.readouterr().err)


def test_no_command_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: python -m builders COMMAND" in capsys.readouterr().err
