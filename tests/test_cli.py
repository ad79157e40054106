"""The command line: one table of commands feeds the tests of answers, of JSON, of errors and of help."""

import contextlib
import dataclasses
import io
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from attnbench import cli
from attnbench.cli.show import show_json
from attnbench.dataset.directions import PROXY_DIRECTIONS, proxy_direction
from tests.dataset import tiny
from tests.dataset.tiny import ABSENT, EFFICIENT, ELU, SOFTMAX, UNTRAINED


class Case(NamedTuple):
    """A command, its exit code, what a person reads, and what its JSON must hold (checked by a function)."""

    argv: list[str]
    code: int
    shows: str
    json_holds: Any


def error(name: str) -> Any:
    return lambda answer: answer["error"] == name and answer["message"]


def rows(**counts: int) -> Any:
    return lambda answer: counts.items() <= answer["rows"].items()


CASES = {
    "query by formula": Case(
        ["query", ELU],
        0,
        r"kernel linear\nelu1\(q\) @ \(elu1\(k\)\.T @ v\)\nag1-\w+\n\ndeit, fmnist-micro, 1 seed, status ok\n"
        r"validation top-1 84\.50 %, test 84\.00 %\nparameters 27,000, multiply-adds 480,000, step 13\.50 ms\n"
        r"scores dss 3, snip 1\.5\n\nseed .*\n.*\n +0  ok +50\.0 60\.0 84\.5 +84\.00 +14\.5",
        lambda a: a["val_top1_percent"] == 84.5 and a["runs"][0]["seed"] == 0 and a["proxies"]["dss"] == 3.0,
    ),
    "query by name": Case(
        ["query", "Softmax"], 0, r"3 seeds, status ok\n.*81\.00 ± 1\.00 %", lambda a: a["n_seeds"] == 3
    ),
    "query one seed": Case(
        ["query", SOFTMAX, "--seed", "2"], 0, r"1 seed, .*\n.*82\.00 %", lambda a: a["n_seeds"] == 1
    ),
    "query another backbone": Case(
        ["query", ELU, "--backbone", "pvt"],
        0,
        r"pvt, fmnist-micro, .*\nvalidation top-1 77\.00 %.*\nparameters -, multiply-adds -\n",
        lambda a: a["backbone"] == "pvt" and a["macs"] is None,
    ),
    "query diverged": Case(
        ["query", "Trial 105"],
        0,
        "2 seeds, status diverged\n.*test - %\n(?s:.*)a diverged run counts as chance in validation",
        lambda a: a["status"] == "diverged" and a["runs"][1]["val_top1_percent"] == 10.0,
    ),
    "query no graph": Case(["query", "tanh(q)"], 1, r"attnbench query: unknown .*'tanh'", error("InvalidGraph")),
    "query absent": Case(["query", ABSENT], 1, "no row computes(?s:.*)attnbench measure", error("NotInBenchmark")),
    "query untrained": Case(["query", UNTRAINED], 1, "no run of it is stored", error("NoSuchRun")),
    "query other seed": Case(["query", ELU, "--seed", "7"], 1, r"seed 7\. Stored: ", error("NoSuchRun")),
    "top": Case(
        ["top"],
        0,
        r"(?s)top-1 on deit.*1 +84\.50 +84\.00 +1 +ok +480,000.*kernel linear: .*5 +12\.00 ± 0\.00 +- +2 +st.*one seed",
        lambda a: [r["text"] for r in a][:2] == [ELU, EFFICIENT] and len(a) == 5,
    ),
    "top two": Case(["top", "-n", "2"], 0, r"2 +83\.00 ± 1\.00", lambda a: len(a) == 2),
    "top sound": Case(["top", "--sound"], 0, "Trial 105", lambda a: SOFTMAX not in [r["text"] for r in a]),
    "top seeds": Case(
        ["top", "--min-seeds", "3", "--named"],
        0,
        r"^(?s:(?!one seed).)*softmax(?s:(?!one seed).)*$",
        lambda a: len(a) == 2,
    ),
    "top of nothing": Case(["top", "--min-seeds", "99"], 0, "on deit.*: no architecture has such", lambda a: a == []),
    "top elsewhere": Case(
        ["top", "--backbone", "cswin"], 1, r"no run has backbone 'cswin'.*Stored", error("NoSuchRun")
    ),
    "sql": Case(
        ["sql", "select seed, count(*) as n from runs group by seed order by seed"],
        0,
        r"seed +n *\n.*\n *0 +6 *\n *1 +4",
        lambda a: a[0] == {"seed": 0, "n": 6},
    ),
    "sql limit": Case(
        ["sql", "from runs", "--limit", "1"], 0, "11 more rows: --limit 12, or --json", lambda a: len(a) == 12
    ),
    "sql null": Case(["sql", "select null as a"], 0, "a *\n.*\nnull", lambda a: a == [{"a": None}]),
    "sql cells": Case(
        ["sql", "select 0.1 + 0.2 as x, [1.5, null] as y, cast(null as double) as z"],
        0,
        r"0\.3  \[1\.5, null\] +null",
        lambda a: a[0]["z"] is None,
    ),
    "sql odd types": Case(
        [
            "sql",
            "select 'ab\\xAA'::blob as b, 3::hugeint as h, interval '1 day 2 hours' as i, [1::hugeint, null] as l, "
            "uuid '00000000-0000-0000-0000-000000000001' as u, timestamp '2026-01-02 03:04:05' as t, "
            "'101'::bit as bits, "
            "'infinity'::double as inf, {'x': ['c'::blob]} as s",
        ],
        0,
        r"6162aa +3 +1 days 02:00:00 +\[1, null\]",
        lambda a: (
            a[0].pop("bits")
            and a
            == [
                {
                    "b": "6162aa",
                    "h": 3,
                    "i": "P1DT2H0M0S",
                    "l": [1, None],
                    "u": "00000000-0000-0000-0000-000000000001",
                    "t": "2026-01-02T03:04:05",
                    "inf": None,
                    "s": {"x": ["63"]},
                }
            ]
        ),
    ),
    "sql one more": Case(
        ["sql", "from range(3)", "--limit", "2"], 0, "\n1 more row: --limit 3,", lambda a: len(a) == 3
    ),
    "sql drop": Case(
        ["sql", "drop table runs"], 1, "attnbench sql: expected one SELECT, got DROP", error("InvalidSQL")
    ),
    "sql file": Case(["sql", "from 'runs.parquet'"], 1, "Error", error("InvalidSQL")),
    "tau": Case(
        ["tau", "--resamples", "0"],
        0,
        r"top-1 on deit, fmnist-micro\n\(no intervals\)\n\nall measured graphs\n(?s:.*)tau given macs(?s:.*)"
        r"dss +1 +- +- +-\n(?s:.*)\ndss, naswot, snip: left out: 4 score missing\n"
        r"dss, .*: n = 1; a ranking needs at least 2 usable rows\n(?s:.*)\nceiling: unknown"
        r"(?s:.*)sound graphs only(?s:.*)\ndss, .*: left out: 2 score missing\n",
        lambda a: {row["proxy"] for row in a} == {"dss", "naswot", "snip", "params", "macs"} and a[0]["tau"] is None,
    ),
    "tau of one proxy": Case(
        ["tau", "--proxy", "snip", "--given", "params"],
        0,
        "95 % boot(?s:.*)given params(?s:.*)snip",
        lambda a: len(a) == 3,
    ),
    "tau given nothing known": Case(
        ["tau", "--given", "joules"], 1, "attnbench tau: costs has no column 'joules'", error("ValueError")
    ),
    "tau given no number": Case(
        ["tau", "--given", "backbone"],
        1,
        "attnbench tau: column 'backbone' of costs holds no numbers; a covariate is one of params, macs, step_ms",
        error("ValueError"),
    ),
    "tau given the key": Case(
        ["tau", "--given", "key"], 1, "attnbench tau: column 'key' of costs holds no numbers", error("ValueError")
    ),
    "tau of a weight seed without scores": Case(
        ["tau", "--proxy", "snip", "--weight-seed", "7"],
        1,
        "attnbench tau: no scores of snip on deit with weight seed 7; scored weight seeds: 0",
        error("ValueError"),
    ),
    "tau of no proxy": Case(
        ["tau", "--proxy", "zico"],
        1,
        "attnbench tau: no score is called 'zico'; stored: dss, macs, naswot, params, snip",
        error("ValueError"),
    ),
    "tau of nothing": Case(
        ["tau", "--backbone", "cswin"],
        1,
        "no runs of .* on 'cswin'; stored: deit with fmnist-micro",
        error("ValueError"),
    ),
    "transfer": Case(
        ["transfer", "--resamples", "0"],
        0,
        r"two backbones, fmnist-micro\n\nsound graphs only(?s:.*)\ndeit +pvt +1 +- +- +- +0\.00 +0\.00\n"
        r"deit and pvt: kendall_tau_b: n = 1; a ranking needs at least 2 usable rows\n",
        lambda a: a == [a[0]] and a[0]["tau"] is None and a[0]["n"] == 1,
    ),
    "transfer of all graphs": Case(
        ["transfer", "--all", "--backbone", "pvt", "--backbone", "deit"],
        0,
        r"all measured graphs(?s:.*)\npvt +deit +1 ",
        lambda a: (a[0]["backbone"], a[0]["other"]) == ("pvt", "deit"),
    ),
    "transfer to nowhere": Case(
        ["transfer", "--backbone", "deit", "--backbone", "cswin"],
        1,
        "attnbench transfer: no runs of 'fmnist-micro' on 'cswin'; pass two or more of those with runs of "
        "'fmnist-micro': deit, pvt",
        error("ValueError"),
    ),
    "search": Case(
        ["search", "--seeds", "3", "--budget", "5"],
        0,
        r"3 searches each, 5 evaluations, on deit, seed 0 shown\n(?s:.*)random +1 +0\.00 \(0\.00 to 0\.00\) +84\.50 "
        r"+84\.00\n(?s:.*)under 84\.50 %, the best of 1 measured functions .*\nby the shown seed, .* \(0\): elu1.*\n\n"
        r"random picked most often \(3 of 3\): elu1\(q\)",
        lambda a: [row["searcher"] for row in a] == ["random", "evolution"] and a[0]["regret_percent"] == 0.0,
    ),
    "search in seconds": Case(
        ["search", "--searcher", "random", "--unit", "seconds", "--seeds", "1"],
        0,
        r"1 search each, 200 seconds(?s:.*)0\.00 +84\.50",
        lambda a: a[0]["regret_low"] is None,
    ),
    "search by one searcher named twice": Case(
        ["search", "--searcher", "random", "random", "--seeds", "3", "--budget", "5"],
        0,
        "3 searches each",
        lambda a: [(row["searcher"], row["searches"]) for row in a] == [("random", 3)],
    ),
    "figure of a search without a query": Case(
        ["plot", "search", "never.png", "--budget", "0.5", "--seeds", "1"],
        1,
        "no query fits into a budget of 0.5 evaluations, so there is nothing to draw",
        error("ValueError"),
    ),
    "search by no searcher": Case(["search", "--searcher", "luck"], 1, "no searcher 'luck'", error("ValueError")),
    "search of nothing": Case(["search", "--backbone", "cswin"], 1, "no runs of .* on 'cswin'", error("ValueError")),
    "verify": Case(["verify"], 0, r"data 0\.0-test in .*\n(?s:.*)runs +12 +none\n(?s:.*)all is well", rows(runs=12)),
}


NEEDS_SPACE = "select text, key, val_top1_percent from runs order by seed, key limit 2"
LAYOUTS = {
    "query": ["query", "softmax"],
    "top": ["top"],
    "tau": ["tau", "--resamples", "20"],
    "search": ["search", "--seeds", "3"],
    "sql": ["sql", NEEDS_SPACE],
    "sql wide": ["sql", "from runs", "--limit", "2"],
}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("tables") / "release")


def run(argv: list[str], release: Path) -> tuple[int, str]:
    """Exit code, and what was printed on both streams."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = cli.main([*argv, "--data", str(release)])
    return code, out.getvalue()


@pytest.fixture(autouse=True)
def wide_plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": "160", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)


every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@every_case
def test_answer_for_people(case: Case, release: Path) -> None:
    code, printed = run(case.argv, release)
    assert code == case.code
    assert re.search(case.shows, printed), printed


@every_case
def test_answer_for_programs(case: Case, release: Path) -> None:
    code, printed = run([*case.argv, "--json"], release)
    assert code == case.code
    assert printed.count("\n") == 1
    assert case.json_holds(json.loads(printed))


@pytest.mark.parametrize("columns", ["20", "80", "120", ""])
@pytest.mark.parametrize("argv", LAYOUTS.values(), ids=LAYOUTS)
def test_numbers_and_names_are_whole_at_every_width(
    argv: list[str], columns: str, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    whole = {
        word for word in run(argv, release)[1].split() if re.fullmatch(r"[\w.,±-]*\d[\w.,-]*|snip|naswot|ok", word)
    }
    monkeypatch.setenv("COLUMNS", columns)
    printed = run(argv, release)[1]
    assert len(whole) > 3
    assert whole <= set(printed.split())
    assert not re.search(r"\d…", printed)


def test_a_table_fits_the_terminal_by_shortening_texts_alone(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    argv = ["sql", NEEDS_SPACE]
    printed = run(argv, release)[1].splitlines()
    assert max(map(len, printed[:4])) <= 80
    assert "…" in printed[2]
    assert printed[-1].startswith("… texts cut to fit; a wider terminal, a pipe (| less -S) or --json shows them whole")
    monkeypatch.delenv("COLUMNS")  # a pipe
    assert "…" not in run(argv, release)[1]


def test_rows_that_fit_no_terminal_become_blocks(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed = run(LAYOUTS["sql wide"], release)[1]
    assert re.search(r"^backbone +deit\nprotocol +fmnist-micro\nprotocol_hash +f00d$", printed, re.M)


def test_a_terminal_is_asked_for_its_width(release: Path, root: Path) -> None:
    pty = pytest.importorskip("pty")
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    argv = [sys.executable, "-m", "attnbench.cli", "sql", NEEDS_SPACE, "--data", str(release)]
    subprocess.run(argv, cwd=root, stdout=theirs, env=environment, check=True)
    os.close(theirs)
    first = os.read(ours, 4096).decode().splitlines()[0]
    os.close(ours)
    assert len(re.sub(r"\x1b\[[\d;]*m", "", first)) <= 72


def test_directions_of_stored_scores_are_those_of_the_registry() -> None:
    registry = pytest.importorskip("attnbench.nn.proxies.registry")
    declared = {name: end for proxy in registry.PROXIES.values() for name, end in proxy.columns.items()}
    assert {name: proxy_direction(name) for name in declared} == declared
    assert set(PROXY_DIRECTIONS) <= set(declared)


def test_a_score_that_should_be_low_is_turned(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROXY_DIRECTIONS, "snip", "lower")
    code, printed = run(["tau", "--resamples", "0"], release)
    assert code == 0
    assert "snip: lower is better" in printed


def test_tau_loads_no_torch(root: Path) -> None:
    code = (
        "import sys; from attnbench.cli import main; main(['tau', '--resamples', '0']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_a_figure_that_cannot_be_written_is_one_line(release: Path, tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "figure.png"
    code, printed = run(["plot", "snip", str(file)], release)
    assert code == 1
    assert printed == f"attnbench plot: [Errno 2] No such file or directory: '{file}'\n"


def test_an_interrupt_is_no_traceback(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attnbench.cli.lookup.load_bench", interrupted)
    assert run(["top"], release) == (130, "stopped\n")


def test_verify_of_damaged_tables_fails(tmp_path: Path) -> None:
    release = tiny.write(tmp_path / "release")
    (release / "runs.parquet").write_bytes(b"")
    code, printed = run(["verify"], release)
    assert (code, "it was cut short or changed" in " ".join(printed.split())) == (1, True)
    tiny.write(tmp_path / "other")
    content = bytearray((tmp_path / "other" / "runs.parquet").read_bytes())
    content[100] ^= 1
    (tmp_path / "other" / "runs.parquet").write_bytes(content)
    code, printed = run(["verify", "--json"], tmp_path / "other")
    answer = json.loads(printed)
    assert (code, answer["ok"]) == (1, False)
    assert [(p["table"], p["rule"]) for p in answer["problems"]] == [("runs", "files")]


def test_no_release_there(tmp_path: Path) -> None:
    code, printed = run(["query", "v"], tmp_path)
    assert code == 1
    assert "is no data release" in printed


@pytest.mark.parametrize("as_json", [False, True])
def test_download(release: Path, tmp_path: Path, as_json: bool, capfd: pytest.CaptureFixture[str]) -> None:
    into = tmp_path / "copy"
    assert cli.main(["download", str(release), "--into", str(into), *(["--json"] if as_json else [])]) == 0
    out, err = capfd.readouterr()
    assert out.strip() == (json.dumps({"directory": str(into)}) if as_json else str(into))
    assert ("fetching runs.parquet" in err) != as_json
    assert cli.main(["query", "v", "--data", str(into)]) == 0
    assert cli.main(["download", str(release), "--into", str(into), "--sha256", "00"]) == 1


PLOTS = {
    "ranks": ["plot", "ranks", "--resamples", "0"],
    "search": ["plot", "search", "--seeds", "2", "--budget", "3"],
    "proxy": ["plot", "snip"],
    "beside a search": ["search", "--seeds", "1", "--plot"],
}


@pytest.mark.parametrize("argv", PLOTS.values(), ids=PLOTS)
def test_figures_are_written(argv: list[str], release: Path, tmp_path: Path) -> None:
    file = tmp_path / "figure.png"
    code, printed = run([*argv, str(file)], release)
    assert code == 0
    assert f"wrote {file}" in printed
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_figure_in_json(release: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "figure.svg")
    assert run(["plot", "dss", file, "--json"], release) == (0, json.dumps({"file": file}) + "\n")


def test_a_figure_of_nothing_known(release: Path, tmp_path: Path) -> None:
    code, printed = run(["plot", "zico", str(tmp_path / "figure.png")], release)
    assert code == 1
    assert "no figure 'zico': pass ranks, search, or a proxy scored on deit with weight seed 0; stored: dss" in printed


def test_measure_without_torch_says_how_to_get_it(root: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from attnbench.cli import main; sys.exit(main(['measure', 'v']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("attnbench measure: measuring needs torch and timm, which the base install leaves")
    assert done.stderr.rstrip().endswith("pip install 'attnbench[nn]'")


@pytest.fixture
def small_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol with 10 images a class to train on, so that the command can be tested in seconds."""
    recipes = pytest.importorskip("attnbench.nn.protocol")
    recipe = recipes.PROTOCOLS["fmnist-micro"]
    small = dataclasses.replace(recipe, n_train_per_class=10, n_val_per_class=5, floor_top1_percent=0.0)
    monkeypatch.setitem(recipes.PROTOCOLS, "fmnist-micro", small)


@pytest.mark.usefixtures("small_protocol")
def test_measure_prints_the_row_that_would_be_stored(fashion_mnist_dir: Path, capsys) -> None:
    argv = ["measure", ELU, "--seed", "3", "--dataset", str(fashion_mnist_dir)]
    assert cli.main([*argv, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["text"], row["seed"], row["status"]) == (ELU, 3, "ok")
    assert len(row["val_curve"]) == 5
    assert row["val_top1_percent"] == row["val_curve"][-1]
    assert cli.main(argv) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{ELU}\n{row['key']}\n")
    assert f"test top-1 {row['test_top1_percent']:.2f} %" in shown  # the same run, number for number


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["tanh(q)"], "attnbench measure: unknown"),
        (["v", "--protocol", "mine"], "protocol 'mine'; known: fmnist-micro"),
        (["v"], "attnbench measure: "),
    ],
    ids=["formula", "protocol", "images"],
)
def test_measure_of_what_cannot_be(argv, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("ATTNBENCH_FASHION_MNIST_MIRROR", tmp_path.as_uri())
    assert cli.main(["measure", *argv, "--dataset", str(tmp_path / "images")]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("argv", [[], ["quary", "v"], ["query"], ["top", "-n", "many"], ["search", "--seeds", "0"]])
def test_wrong_usage_exits_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        cli.main(argv)
    assert raised.value.code == 2
    assert "usage: attnbench" in capsys.readouterr().err


def test_json_has_null_for_what_is_not_finite(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"curve": (1.5, math.nan), "rows": [{"low": -math.inf, "n": 3, "name": "inf"}]}
    assert show_json(value) == 0
    assert json.loads(capsys.readouterr().out) == {
        "curve": [1.5, None],
        "rows": [{"low": None, "n": 3, "name": "inf"}],
    }


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    shown = capsys.readouterr().out
    assert {case.argv[0] for case in CASES.values()} <= set(shown.split())


def process(argv: list[str], root: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "attnbench.cli", *argv]
    return subprocess.run(command, cwd=root, text=True, capture_output=True, check=False, **options)


def test_help_loads_no_library(root: Path) -> None:
    code = (
        "import attnbench.cli as c, sys\ntry: c.main(['--help'])\nexcept SystemExit: pass\nprint(sorted(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout
    assert not {"numpy", "pyarrow", "rich", "pandas", "duckdb", "torch"} & set(re.findall(r"'(\w+)'", out))


def test_a_reader_that_leaves_early_is_no_error(release: Path, root: Path) -> None:
    argv = [sys.executable, "-m", "attnbench.cli", "sql", "--json", "from range(200000)", "--data", str(release)]
    with subprocess.Popen(argv, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        os.read(reader.stdout.fileno(), 100)
        reader.stdout.close()
        errors = reader.stderr.read()
        assert reader.wait() == 0
    assert errors == b""


def test_as_a_process(release: Path, root: Path) -> None:
    done = process(["query", "tanh(q)", "--data", str(release)], root)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("attnbench query: ")
    assert "Traceback" not in done.stderr
    assert process(["--version"], root).stdout.startswith("attnbench 0.")
