"""What README.md and docs/ claim runs: Python blocks, commands, and the parts that are generated from the tables."""

import re
import shlex
from pathlib import Path

import pytest

import attnbench
from attnbench.dataset.files import write_release
from builders import __main__ as builders
from builders import readme, sections
from tests.dataset import tiny, tiny_subnets

PAGES = {str(path.relative_to(readme.ROOT)): path.read_text(encoding="utf-8") for path in readme.pages()}
# With the comments that explain them cut off, and lines that go on joined.
SHELL = re.findall(r"^(?:\$|   ) (.*?)(?:  +#.*)?$", "\n".join(PAGES.values()).replace("\\\n", ""), re.M)
COMMANDS = [line.removeprefix("attnbench ") for line in SHELL if line.startswith("attnbench ")]
BUILDERS = [line.split(" -m builders ")[1] for line in SHELL if " -m builders " in line]
# They train, score for minutes, or need files that do not come with the package.
SLOW = {"measure", "download", "tftas", "groundtruth"}


@pytest.mark.usefixtures("tables_dir")
@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run(page: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGES[page], re.M | re.S)
    assert blocks or page in ("docs/training.md", "docs/trust.md")
    namespace: dict[str, object] = {}
    for block in blocks:  # in order: a later block uses what an earlier one made
        exec(compile(block, page, "exec"), namespace)


@pytest.mark.usefixtures("tables_dir")
@pytest.mark.parametrize("command", [c for c in COMMANDS if shlex.split(c)[0] not in SLOW])
def test_commands_run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from attnbench.cli import main

    assert not main(shlex.split(command))
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", [c for c in COMMANDS if shlex.split(c)[0] in SLOW])
def test_slow_commands_are_understood(command: str) -> None:
    from attnbench.cli.parser import _parser

    assert _parser().parse_args(shlex.split(command))


@pytest.mark.parametrize("command", BUILDERS)
def test_builders_have_the_options_shown(command: str, root: Path) -> None:
    name, *rest = shlex.split(command.split(" && ")[0])
    assert name in builders.COMMANDS
    source = (root / "builders" / f"{name}.py").read_text(encoding="utf-8")
    assert [option for option in rest if option.startswith("--") and f'"{option}"' not in source] == []


@pytest.mark.usefixtures("tables_dir")
@pytest.mark.parametrize("page", PAGES)
def test_generated_parts_are_up_to_date(page: str, root: Path) -> None:
    made = readme.render(PAGES[page], root / "data", page)
    assert made == PAGES[page], f"run `python -m builders readme` and commit {page}"


def test_render_replaces_what_stands_between_the_markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readme, "SECTIONS", {"one": lambda data: f"made from {data.name}"})
    text = "before\n<!-- generated: one -->\nold\n<!-- end -->\nafter\n"
    made = readme.render(text, tmp_path / "tables")
    assert made == "before\n<!-- generated: one -->\nmade from tables\n<!-- end -->\nafter\n"
    assert readme.render(made, tmp_path / "tables") == made


def test_every_page_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    monkeypatch.setattr(readme, "SECTIONS", {"one": lambda data: "new"})
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("as it is\n")
    page = tmp_path / "docs" / "more.md"
    page.write_text("<!-- generated: one -->\nold\n<!-- end -->\n")
    assert readme.main(["--check"]) == 1
    lines = ["README.md is up to date", "docs/more.md is out of date: python -m builders readme"]
    assert capsys.readouterr().out.splitlines() == lines
    assert readme.main([]) == 0
    assert page.read_text() == "<!-- generated: one -->\nnew\n<!-- end -->\n"
    assert readme.main(["--check"]) == 0


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
    text = sections.tau(tiny.write(tmp_path / "release"))
    assert "| all | snip | 1 | - | - | - |" in text
    assert "- ceiling, the top quarter by accuracy: unknown; it takes graphs with several seeds" in text


def test_tau_of_one_population(tmp_path: Path) -> None:
    text = sections.tau(tiny.write(tmp_path / "release"), only="sound")
    assert "| sound | snip |" in text
    assert "| all |" not in text
    assert text.count("- ceiling") == 1


def test_subnets_have_a_tau_given_parameters(tmp_path: Path) -> None:
    lines = readme.SECTIONS["tau-subnets"](tiny_subnets.write(tmp_path / "release")).splitlines()
    assert lines[0] == "| subnets | proxy | n | τ | τ given params | top tenth |"
    assert any(line.startswith("| all | params | 2 |") for line in lines)
    assert lines[-1].startswith("- ceiling, all measured subnets: ")


def test_size_is_the_tau_of_scores_and_costs(tmp_path: Path) -> None:
    tables = tiny_subnets.tables()
    subnets = (tiny_subnets.BEST, tiny_subnets.SMALL, tiny_subnets.SCORED)
    tables["proxies"] = [tiny_subnets.score(one, tiny_subnets.SPACE, "zico", -one.depth) for one in subnets]
    tables["proxies"] += [tiny_subnets.score(tiny_subnets.AUTOFORMER_T, "autoformer-tiny", "dss", 1.0)]
    write_release(tmp_path / "release", tables, "0.0.1")
    assert sections.size(tmp_path / "release").splitlines()[2:] == [
        "| dss | 0 | - | - | 1 | - | - |",
        "| zico | 3 | -1.00 | - | 0 | - | - |",
    ]


def test_calibration_quotes_every_page(tmp_path: Path) -> None:
    assert sections.calibration(tmp_path).startswith("No page is written yet")
    for backbone, snr in (("pvt", 2), ("deit", 3)):
        (tmp_path / f"calibration-{backbone}.md").write_text(f"# Calibration\n\n- SNR {snr}\n\n| graph |\n")
    assert sections.calibration(tmp_path).splitlines() == [
        "`deit`, every graph's row in [data/calibration-deit.md](../data/calibration-deit.md):",
        "",
        "- SNR 3",
        "",
        "`pvt`, every graph's row in [data/calibration-pvt.md](../data/calibration-pvt.md):",
        "",
        "- SNR 2",
    ]
    (tmp_path / "calibration-swin.md").write_text("# Calibration\n\nA probe\nsays no.\n\n| graph |\n")
    assert sections.calibration(tmp_path).splitlines()[-2:] == ["A probe", "says no."]


def test_speed_is_the_first_measured_table_or_says_how_to_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    assert readme.speed(tmp_path).startswith("No figures are published yet.")
    (tmp_path / "benchmarks").mkdir()
    page = tmp_path / "benchmarks" / "speed.md"
    page.write_text("| query |\n")
    assert readme.speed(tmp_path) == "| query |"
    page.write_text("| query |\n\n## Proxies\n\n| dss |\n")
    assert readme.speed(tmp_path) == "| query |\n\nMore, in [benchmarks/speed.md](benchmarks/speed.md): Proxies."


def test_a_part_waits_for_its_runs(tmp_path: Path) -> None:
    release = tiny.write(tmp_path / "release")

    def part(*protocols: str) -> str:
        return sections.where_measured("deit", *protocols)(lambda data: "shown")(release)

    assert part("fmnist-micro") == "shown"
    version = attnbench.load(release).manifest.data_version
    assert part("fmnist-micro", "micro-x", "micro-y") == (
        f"To be filled in: data {version} holds no runs of `micro-x` and `micro-y` yet."
    )


def test_inheritance_waits_for_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from builders import inheritance

    assert sections.inheritance(tiny.write(tmp_path / "release")).startswith("To be filled in once runs of all three")
    monkeypatch.setattr(inheritance, "table", lambda data: f"| {data.name} |")
    assert sections.inheritance(tmp_path) == f"| {tmp_path.name} |"


def test_proxies_are_those_of_the_registry(tmp_path: Path) -> None:
    rows = sections.proxies(tmp_path).splitlines()
    assert "| `te_nas.ntk_cond` | lower | images | Chen et al. 2021 |" in rows
    assert any(row.startswith("| `dss`, `.qkv`, ") for row in rows)
    assert "| `az_nas.expressivity`, `.trainability`, `.complexity` | higher | nothing | Lee and Ham 2024 |" in rows
    assert sections.protocols(tmp_path).count("\n| `") == 3
    assert "| `autoformer-micro` | 22,113 | 24, 36, 48 | 2, 3, 4 |" in sections.spaces(tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str, root: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)]+)\)", PAGES[page])
    found = [((root / page).parent / file if file else root / page, part) for file, _, part in map(_cut, targets)]
    assert [str(path) for path, _ in found if not path.exists()] == []
    headings = {path: re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M) for path, part in found if part}
    assert [part for path, part in found if part and part not in map(_anchor, headings[path])] == []


def _cut(target: str) -> tuple[str, str, str]:
    return target.partition("#")


def _anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


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
