"""What the README claims runs: its Python blocks, its commands, and the parts that are generated from the tables."""

import re
import shlex
from pathlib import Path

import pytest

import attnbench
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


def test_yields_count_every_stage_in_percent(tmp_path: Path) -> None:
    release = tiny.write(tmp_path / "release")
    assert readme.yields(release).splitlines() == [
        "| of 100 raw draws | released, % |",
        "|---|---:|",
        "| shapes do not fit, or an operator has no sound meaning | 90.00 |",
        "| **sound** | 10.00 |",
    ]


def test_every_stage_of_the_tables_is_in_the_yields(tables_dir: Path) -> None:
    stages = set(attnbench.load(tables_dir).table("rejections")["stage"])
    assert stages <= set(readme.STAGES)


def test_noise_says_how_far_seeds_lie_apart(tmp_path: Path) -> None:
    # Sound graphs with several seeds: 83 ± 1 over three, and 79 with chance for the run that diverged.
    text = " ".join(readme.noise(tiny.write(tmp_path / "release")).split())
    pooled = ((2 * 1 + (79 - 10) ** 2 / 2) / 3) ** 0.5
    assert f"by {pooled:.2f} points" in text
    assert "over the 2 sound graphs" in text
    assert f"about {2 * pooled * 2**0.5:.1f} points on" in text


def test_noise_of_single_seeds_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny, "ROWS", [(*row[:3], row[3][:1]) for row in tiny.ROWS])
    assert readme.noise(tiny.write(tmp_path / "release")).startswith("Seed noise is unknown: n = 0; ")


def test_tau_names_population_n_and_ceiling(tmp_path: Path) -> None:
    text = readme.tau(tiny.write(tmp_path / "release"))
    assert "| all | snip | 1 | - | - | - |" in text
    assert "- ceiling, the top quarter by accuracy: unknown; it takes graphs with several seeds" in text


def test_calibration_quotes_the_page(tmp_path: Path) -> None:
    assert "not written yet" in readme.calibration(tmp_path)
    (tmp_path / "calibration-deit.md").write_text("# Calibration\n\n- SNR 3\n\n| graph |\n")
    assert readme.calibration(tmp_path).splitlines()[:2] == ["- SNR 3", ""]


def test_speed_is_the_measured_page_or_says_how_to_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    assert readme.speed(tmp_path).startswith("No figures are published yet.")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "speed.md").write_text("| query |\n")
    assert readme.speed(tmp_path) == "| query |"


def test_links_lead_to_files(root: Path) -> None:
    targets = re.findall(r"\]\((?!#)([^)]+)\)", TEXT)
    assert targets
    assert [target for target in targets if not (root / target).exists()] == []


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
