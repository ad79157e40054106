"""Query: every way in, every error, and answers that nobody can change."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnbench
from attnbench.dataset.benchmark import Benchmark
from attnbench.dataset.files import write_release
from attnbench.errors import AttnBenchError, InvalidGraph, NoSuchRun, NotInBenchmark
from attnbench.space import aliases
from attnbench.space.parse import parse
from attnbench.space.published import PUBLISHED, Published
from tests.dataset import tiny
from tests.dataset.tiny import ABSENT, CELL, EFFICIENT, ELU, IDENTITY, ROWS, SOFTMAX, TRIAL, UNTRAINED

CELL_NAMES = ("family", "q_activation", "q_norm", "k_activation", "k_norm", "middle")

WAYS_IN = {
    "formula": ELU,
    "another spelling": "(elu1(q) @ elu1(k).T) @ (v.T).T",
    "graph": parse(ELU),
    "graph in another spelling": parse("elu1(q) @ ((elu1(k)).T @ v)"),
    "name": "kernel linear",
    "name in capitals": " Kernel LINEAR ",
    "cell": CELL,
    "cell as a list": list(CELL),
    "cell by coordinate names": dict(zip(CELL_NAMES, CELL, strict=True)),
    "numpy string": np.str_(ELU),
}


@pytest.fixture(scope="module")
def tiny_bench(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return Benchmark(tiny.write(tmp_path_factory.mktemp("tables") / "release"))


@pytest.mark.parametrize("arch", WAYS_IN.values(), ids=WAYS_IN)
def test_every_way_in_leads_to_the_same_row(bench: Benchmark, arch) -> None:
    expected = bench.query(parse(ELU).key)
    assert arch in bench
    assert bench.query(arch) is expected  # warm and cold alike
    assert bench.query(arch) is expected
    assert expected.text == ELU
    assert bench.graph(arch) == parse(ELU)


@pytest.mark.parametrize("trial", [p for p in PUBLISHED if p.graph is not None], ids=lambda p: p.name)
def test_genotypes_lead_to_their_row(release: Path, trial: Published) -> None:
    text = trial.graph.text
    row = tiny.architecture(text, [trial.name], True)
    write_release(release, {"architectures": [row], "runs": [tiny.run(text, 0, 80.0)]}, "0.1")
    bench = Benchmark(release)
    assert bench.query(trial.genotype).names == (trial.name,)
    shuffled = dict(reversed(trial.genotype.to_dict().items()))
    assert bench.query(shuffled) is bench.query(trial.genotype)
    assert shuffled in bench


def test_a_refused_genotype_is_no_architecture(bench: Benchmark) -> None:
    refused = next(p for p in PUBLISHED if p.graph is None)
    assert refused.genotype not in bench
    with pytest.raises(InvalidGraph):
        bench.query(refused.genotype)


def test_every_key_of_the_release_leads_back(bench: Benchmark) -> None:
    assert len(bench) == len(ROWS)
    assert sorted(bench) == list(bench)
    for key in bench:
        assert bench.graph(key).key == key


def test_result_of_one_run(bench: Benchmark) -> None:
    result = bench.query(ELU)
    assert result.names == ("kernel linear",)
    assert (result.backbone, result.protocol) == ("deit", "fmnist-micro")
    assert (result.val_top1_percent, result.test_top1_percent) == (84.5, 84.0)
    assert (result.n_seeds, result.val_top1_sd_percent) == (1, None)
    assert result.status == "ok"
    assert result.runs[0].val_curve == (50.0, 60.0, 84.5)
    assert result.runs[0].protocol_hash == "f00d"
    assert (result.params, result.macs, result.step_ms) == (27_000, 480_000, 13.5)


def test_proxies_are_means_over_weight_seeds_and_lack_what_is_not_finite(bench: Benchmark) -> None:
    assert dict(bench.query(ELU).proxies) == {"dss": 3.0, "snip": 1.5}
    assert dict(bench.query(SOFTMAX).proxies) == {}


def test_costs_that_were_not_measured_are_none(bench: Benchmark) -> None:
    assert (bench.query(IDENTITY).params, bench.query(ELU, backbone="pvt").macs) == (None, None)


def test_mean_over_seeds_or_one_seed(bench: Benchmark) -> None:
    every = bench.query(SOFTMAX)
    assert (every.n_seeds, every.val_top1_percent, every.val_top1_sd_percent) == (3, 81.0, 1.0)
    assert [run.seed for run in every.runs] == [0, 1, 2]
    one = bench.query(SOFTMAX, seed=2)
    assert (one.n_seeds, one.val_top1_percent, one.val_top1_sd_percent) == (1, 82.0, None)
    assert one.runs == every.runs[2:]
    assert bench.query(SOFTMAX, seed=np.int64(2)) == one


def test_backbones_are_apart(bench: Benchmark) -> None:
    assert bench.query(ELU, backbone="pvt").val_top1_percent == 77.0


def test_a_stopped_run_keeps_its_last_validation_and_has_no_test(bench: Benchmark) -> None:
    result = bench.query(IDENTITY)
    assert (result.status, result.val_top1_percent, result.test_top1_percent) == ("stopped", 12.0, None)
    assert result.runs[0].val_curve == (10.0, 12.0)


def test_a_diverged_run_counts_as_chance_and_says_so(bench: Benchmark) -> None:
    result = bench.query(TRIAL, seed=1)
    assert (result.status, result.val_top1_percent, result.test_top1_percent) == ("diverged", 10.0, None)
    assert bench.query(TRIAL).val_top1_percent == (79.0 + 10.0) / 2
    assert np.isnan(bench.table("runs").query("status == 'diverged'")["val_top1_percent"]).all()  # nothing is imputed


NO_ARCHITECTURE = {
    "genotype of an unknown type": ({"graph_type": "i3n9", "unary_ops": [], "binary_ops": []}, "i3n9"),
    "mapping of something else": ({"q": 1}, "graph_type"),
    "None": (None, r"no architecture: NoneType 'None'\. Pass a Graph, a formula, a Subnet or its text, "),
    "number": (7, r"no architecture: int '7'"),
    "empty": ("", "the formula is empty"),
    "syntax": ("softmax(q", "softmax"),
    "operator": ("tanh(q) @ (k.T @ v)", "tanh"),
    "shape": ("q @ k.T", "the result must be"),
    "code": ("__import__('os')", "not part of the language"),
    "misspelt name": ("kernal linear", r"Or is a name meant\? Names like it: kernel linear"),
    "short key": ("ag1-12ab", r"'ag1-12ab' is no key: expected ag1- \(or sn1-\) and 32 hex digits"),
    "long key": ("ag1-" + "0" * 33, "is no key"),
    "five coordinates": (CELL[:5], r"a grid cell has six coordinates \(family, .*\), got "),
    "tuple of numbers": ((1, 2, 3, 4, 5, 6), "grid coordinate family=1 does not exist"),
    "tuple of lists": (([], [], [], [], [], []), "grid coordinate family="),
    "no coordinates": ((), "a grid cell has six coordinates"),
    "coordinate": (("linear", "elu1", "l1norm", "elu1", "none", "none"), "grid coordinate q_norm='l1norm' does not"),
}


@pytest.mark.parametrize(("arch", "message"), NO_ARCHITECTURE.values(), ids=NO_ARCHITECTURE)
def test_what_is_no_architecture(bench: Benchmark, arch, message: str) -> None:
    with pytest.raises(InvalidGraph, match=message):
        bench.query(arch)
    assert arch not in bench


def test_not_in_benchmark_names_the_nearest_rows_and_the_way_out(bench: Benchmark) -> None:
    message = r"(?s)no row computes 'sigmoid\(q\).*Nearest rows:\n  .*\n  .*\n  .*\nMeasure it .*attnbench\[nn\]"
    with pytest.raises(NotInBenchmark, match=message) as raised:
        bench.query(ABSENT)
    assert raised.value.nearest[0] in (UNTRAINED, ELU)
    assert parse(ABSENT) not in bench


def test_a_key_of_an_earlier_release_leads_to_its_row(bench: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    old = "ag1-" + "0" * 32
    monkeypatch.setattr(aliases, "ALIASES", {old: parse(tiny.ELU).key})
    assert bench.query(old) is bench.query(tiny.ELU)
    assert old in bench


def test_unknown_key(bench: Benchmark) -> None:
    with pytest.raises(
        NotInBenchmark, match=r"no row has the key ag1-0+\. The 6 keys are list\(bench\); pass the formula"
    ):
        bench.query("ag1-" + "0" * 32)


def test_a_cell_that_this_release_lacks(bench: Benchmark) -> None:
    with pytest.raises(NotInBenchmark, match=r"no row computes '.*softmax.*Nearest rows:"):
        bench.query(("linear", "elu1", "none", "elu1", "none", "softmax"))


def test_an_unlisted_cell_of_a_stored_function(bench: Benchmark) -> None:
    assert parse(UNTRAINED) in bench
    assert ("linear", "relu", "none", "relu", "none", "none") in bench


NO_RUN = {
    "backbone": (
        SOFTMAX,
        {"backbone": "swin"},
        r"has no run with backbone 'swin', .*Stored: backbone 'deit', .*0, 1, 2",
    ),
    "protocol": (SOFTMAX, {"protocol": "imagenet-300e"}, "protocol 'imagenet-300e'. Stored: .*'fmnist-micro'"),
    "seed": (SOFTMAX, {"seed": 9}, r"seed 9\. Stored: .*seeds 0, 1, 2\. Leave seed out for the mean of all"),
    "several": (ELU, {"seed": 1}, r"'deit', protocol 'fmnist-micro', seeds 0; backbone 'pvt', .*seeds 0\. Leave"),
    "never trained": (UNTRAINED, {}, r"is in the benchmark, but no run of it is stored\. Measure it .*: attnbench"),
}


@pytest.mark.parametrize(("arch", "asked", "message"), NO_RUN.values(), ids=NO_RUN)
def test_no_such_run_lists_what_is_stored(bench: Benchmark, arch, asked, message: str) -> None:
    assert arch in bench
    with pytest.raises(NoSuchRun, match=message):
        bench.query(arch, **asked)


@given(st.one_of(st.text(max_size=40), st.text("qkv@()+*.T, ", max_size=30), st.binary(), st.none(), st.floats()))
def test_anything_else_raises_documented_errors_only(tiny_bench: Benchmark, arch) -> None:
    try:
        known = bool(tiny_bench.query(arch))
    except NoSuchRun:
        known = True
    except AttnBenchError:
        known = False
    assert (arch in tiny_bench) == known


@pytest.mark.parametrize("asked", [{"seed": [0, 1]}, {"seed": "0"}, {"seed": pd.NA}, {"backbone": ["deit"]}])
def test_one_backbone_protocol_and_seed_at_a_time(bench: Benchmark, asked) -> None:
    with pytest.raises(NoSuchRun, match=r"expected one backbone, one protocol and one seed .*, got"):
        bench.query(ELU, **asked)


@pytest.mark.parametrize("asked", [{"backbone": "cswin"}, {"protocol": ["x"]}])
def test_top_of_a_backbone_that_has_no_runs(bench: Benchmark, asked) -> None:
    with pytest.raises(NoSuchRun, match=r"no run has backbone .* Stored: backbone 'deit', protocol 'fmnist-micro'"):
        bench.top(**asked)


def test_a_pasted_key_may_have_space_around_it(bench: Benchmark) -> None:
    key = parse(ELU).key
    assert bench.query(f" {key}\n").key == key


def test_query_many_keeps_the_order_and_places_none_on_request(bench: Benchmark) -> None:
    assert [r.text for r in bench.query_many([ELU, "softmax"])] == [ELU, SOFTMAX]
    assert [r and r.text for r in bench.query_many([ABSENT, UNTRAINED, ELU], missing="none")] == [None, None, ELU]
    assert bench.query_many([ELU], backbone=["deit"], missing="none") == [None]
    with pytest.raises(NotInBenchmark, match="no row computes"):
        bench.query_many([ELU, ABSENT])
    with pytest.raises(InvalidGraph, match="no architecture"):
        bench.query_many([None], missing="none")
    with pytest.raises(ValueError, match="missing is 'raise' or 'none', got 'skip'"):
        bench.query_many([ELU], missing="skip")


TOPS = {
    "all": ({}, [ELU, EFFICIENT, SOFTMAX, TRIAL, IDENTITY]),
    "two": ({"n": 2}, [ELU, EFFICIENT]),
    "none": ({"n": 0}, []),
    "less than none": ({"n": -1}, []),
    "sound": ({"sound": True}, [ELU, EFFICIENT, TRIAL]),
    "three seeds": ({"min_seeds": 3}, [EFFICIENT, SOFTMAX]),
    "another backbone": ({"backbone": "pvt"}, [ELU]),
}


@pytest.mark.parametrize(("asked", "texts"), TOPS.values(), ids=TOPS)
def test_top(bench: Benchmark, asked, texts: list[str]) -> None:
    assert [result.text for result in bench.top(**asked)] == texts


def test_top_of_named_only(release: Path) -> None:
    rows = tiny.tables()["architectures"]
    rows[2] |= {"is_named": False, "names": []}
    write_release(release, {"architectures": rows}, "0.1")
    assert Benchmark(release).top(1, named=True)[0].text == EFFICIENT


def test_names_tables_and_repr(bench: Benchmark) -> None:
    assert bench.names == (
        "Efficient Attention",
        "Trial 105",
        "identity",
        "kernel linear",
        "softmax",
        "softmax attention",
    )
    assert bench.tables["runs"] == 12
    assert repr(bench) == (
        "Benchmark(data 0.0-test: 6 architectures, 2 cells, 2 costs, 2 latency, 12 runs, 5 proxies, "
        "2 rejections, 1 published)"
    )


def test_frames_are_copies(bench: Benchmark) -> None:
    frame = bench.table("runs")
    frame["val_top1_percent"] = 100.0
    assert bench.table("runs")["val_top1_percent"].max() == 84.5
    assert len(bench.table("rejections")) == 2
    with pytest.raises(LookupError, match="no table 'rnus'; tables: architectures, cells, costs, latency, runs"):
        bench.table("rnus")


def test_benchmark_travels_between_processes(bench: Benchmark) -> None:
    again = pickle.loads(pickle.dumps(bench))  # noqa: S301 - our own bytes
    assert again.query(ELU) == bench.query(ELU)


def test_threads_agree(release: Path) -> None:
    bench = Benchmark(release)
    texts = [SOFTMAX, ELU, EFFICIENT, IDENTITY] * 50
    with ThreadPoolExecutor(8) as pool:
        assert [r.text for r in pool.map(bench.query, texts)] == texts


def test_last_resort_is_the_function_itself(release: Path) -> None:
    """Two spellings that no rule may join are one row when their outputs agree."""
    from attnbench.space.evaluate import signature

    spelled = "(relu(q) + relu(neg_q)) @ (k.T @ v)".replace("neg_q", "-q")
    stored = "abs(q) @ (k.T @ v)"
    if parse(spelled).key == parse(stored).key:
        pytest.skip("a rule joins them; pick another pair")
    row = tiny.architecture(stored, [], True) | {"signature": list(signature(parse(stored)))}
    run = tiny.run(stored, 0, 81.5)
    tables = tiny.tables()
    write_release(release, {"architectures": [*tables["architectures"], row], "runs": [run]}, "0.1")
    bench = Benchmark(release)
    assert bench.query(spelled).key == parse(stored).key
    assert ABSENT not in bench


def test_a_query_loads_nothing_heavy(release: Path, root: Path) -> None:
    code = (
        f"import attnbench, sys; attnbench.load({str(release)!r}).query({EFFICIENT!r}, backbone='deit');"
        "print(sorted({'torch', 'timm', 'pandas', 'scipy', 'duckdb', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_load_needs_a_release(tmp_path: Path) -> None:
    with pytest.raises(AttnBenchError, match="is no data release"):
        attnbench.load(tmp_path)
