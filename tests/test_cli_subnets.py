"""The commands on subnets: what they print, what they remember, and what they refuse. The files are made here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

torch = pytest.importorskip("torch")

from attnbench.cli import main  # noqa: E402
from attnbench.nn import ground_truth  # noqa: E402
from attnbench.nn.ground_truth import ACCURACIES  # noqa: E402
from attnbench.nn.proxies.registry import PROXIES, Proxy  # noqa: E402
from attnbench.space.subnet_cost import subnet_cost  # noqa: E402
from attnbench.space.subnet_named import SPACES  # noqa: E402
from attnbench.space.subnet_sample import sample  # noqa: E402

MICRO = SPACES["autoformer-micro"]
N = 12
WINDOW = "1-3700"  # of pit-micro: 9 subnets


@pytest.fixture
def scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A proxy that grows with the number of parameters, one that has no value, one in parts; and who was scored."""
    scored: list[int] = []

    def stub(model, shape, *, dtype):
        scored.append(sum(p.numel() for p in model.parameters()))
        return {"stub": float(scored[-1])}

    nan = {"none": "higher"}
    parts = {"two.a": "lower", "two.b": "higher"}
    monkeypatch.setitem(PROXIES, "stub", Proxy("stub", stub, {"stub": "higher"}, "none", True, "this test"))
    monkeypatch.setitem(
        PROXIES, "none", Proxy("none", lambda *_, **__: {"none": float("nan")}, nan, "none", True, "this test")
    )
    monkeypatch.setitem(
        PROXIES,
        "two",
        Proxy(
            "two", lambda model, *_, **__: {"two.a": 1.0 * len(model.blocks), "two.b": 1.0}, parts, "none", True, "it"
        ),
    )
    monkeypatch.setenv("ATTNBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ATTNBENCH_VIT_BENCH_101", raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    return scored


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Micro subnets in the form of the published file; accuracies follow the parameters, one the other way round."""
    monkeypatch.setattr(ground_truth, "_default_space", lambda _: "autoformer-micro")
    rng = Random(0)
    entries = []
    for _ in range(N):
        subnet = sample(MICRO, rng)
        percent = subnet_cost(subnet, MICRO.frame).params / 10_000
        arch = {"hidden_dim": subnet.embed_dim, "mlp_ratio": list(subnet.mlp_ratios), "depth": subnet.depth}
        arch["num_heads"] = list(subnet.heads)
        entries.append({"arch": arch} | dict.fromkeys(ACCURACIES, percent) | {"c100_base_acc": 90 - percent})
        entries[-1]["chaoyang_base_acc"] = None
    torch.save(entries, tmp_path / "gt_autoformer.pth")
    return tmp_path / "gt_autoformer.pth"


@pytest.fixture
def micro_head_dim(monkeypatch: pytest.MonkeyPatch) -> None:
    """The published files say no head width, which is 64; the micro space's is 12."""
    from dataclasses import replace

    read = ground_truth.read_subnet
    monkeypatch.setattr(ground_truth, "read_subnet", lambda source: replace(read(source), head_dim=12))


@pytest.mark.usefixtures("micro_head_dim")
def test_every_score_beside_params_and_macs(published: Path, scores: list[int], capsys) -> None:
    assert main(["groundtruth", str(published), "--proxy", "stub", "--proxy", "two", "--resamples", "50"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(
        "Kendall's tau of 12 subnets of autoformer-micro (95 % bootstrap intervals)\nweights: shared, "
    )
    first, *_, last = shown.split("\nwith ")
    assert "some: 32 of noise" in first
    cifar = next(block for block in shown.split("\nwith ") if block.startswith("cifar100_base ("))
    rows = {line.split()[0]: line.split() for line in cifar.splitlines() if line and not line.startswith("─")}
    assert set(rows) >= {"stub", "two.a", "two.b", "params", "macs"}
    assert rows["stub"][1:3] == rows["params"][1:3] == ["12", "-1.00"]
    assert "chaoyang_base" not in shown  # not measured
    assert last.startswith("params\n")
    assert "two.a: lower is better" in last


@pytest.mark.usefixtures("micro_head_dim")
def test_a_rerun_computes_nothing_and_says_the_same(published: Path, scores: list[int], capsys) -> None:
    argv = ["groundtruth", str(published), "--proxy", "stub", "--proxy", "none", "--json", "--resamples", "30"]
    answers = []
    for _ in range(2):
        assert main(argv) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]
    assert len(scores) == N
    rows = {(row["accuracy"], row["score"]): row for row in answers[0]}
    good = rows["flowers_kd_top1_percent", "stub"]
    assert (good["tau"], good["n"], good["direction"]) == (1.0, N, "higher")
    assert good["tau_low"] <= good["tau"] <= good["tau_high"]
    assert rows["params", "stub"]["tau"] == 1.0
    assert rows["flowers_kd_top1_percent", "none"]["dropped"] == f"{N} score NaN"
    assert rows["flowers_kd_top1_percent", "none"]["tau"] is None
    # A kill in the middle costs one score: what was stored is not computed again.
    log = next(Path(published.parent / "cache").glob("*"))
    log.write_bytes(b"\n".join(line for line in log.read_bytes().splitlines() if b'"stub"' in line)[:-40])
    assert main(argv) == 0
    assert len(scores) == N + 1
    assert main([*argv, "--scores", str(published.parent / "other.jsonl"), "--limit", "3", "--weight-seed", "1"]) == 0
    assert len(scores) == N + 4
    assert main([*argv, "--limit", "3", "--weights", "own"]) == 0
    assert len(scores) == N + 7


@pytest.mark.usefixtures("micro_head_dim")
def test_one_subnet_has_no_rank_and_the_reason_is_said(published: Path, scores: list[int], capsys) -> None:
    assert main(["groundtruth", str(published), "--proxy", "stub", "--limit", "1"]) == 0
    assert "stub, params, macs: n = 1; a ranking needs at least 2 usable rows" in capsys.readouterr().out


@pytest.mark.parametrize("seed", ["-1", "2147483648", "99999999999999999999999"])
def test_seeds_are_those_that_a_table_holds(seed: str, capsys) -> None:
    with pytest.raises(SystemExit):
        main(["tftas", "pit-micro", "--weight-seed", seed])
    assert f"expected a whole number from 0 to 2147483647, got '{seed}'" in capsys.readouterr().err


@pytest.mark.usefixtures("micro_head_dim")
def test_the_folder_may_be_a_setting(published: Path, scores, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["groundtruth", "--proxy", "stub"]) == 1
    assert "no file was given: pass the path of a gt_*.pth" in capsys.readouterr().err
    monkeypatch.setenv("ATTNBENCH_VIT_BENCH_101", str(published.parent))
    argv = ["groundtruth", "--proxy", "stub", "--limit", "4", "--resamples", "0", "--given", "macs"]
    assert main(argv) == 0
    shown = capsys.readouterr().out
    assert "of 4 subnets" in shown
    assert "tau given macs" in shown


def test_the_best_of_random_subnets(scores: list[int], capsys) -> None:
    argv = ["tftas", "autoformer-micro", "--proxy", "stub", "-n", "20", "--seed", "3"]
    assert main(argv) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("20 random subnets of autoformer-micro of any size, seed 3, by stub\n")
    best, largest = (line.split() for line in shown.splitlines() if line.startswith(("best", "largest")))
    assert best[1:] == largest[1:]  # the stub counts parameters, and the command shows it
    assert int(best[2].replace(",", "")) == max(scores)
    assert "Kendall's tau of stub and params over the candidates: 1.00" in shown
    assert main([*argv, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(scores) == 20  # remembered
    assert len(answer["candidates"]) == answer["n"] == 20
    assert answer["best"] == max(answer["candidates"], key=lambda c: c["score"])
    assert (answer["window"], answer["seed"], answer["tau_with_params"]) == (None, 3, 1.0)
    assert (answer["weights"], answer["weight_seed"], answer["precision"]) == ("shared", 0, "float64")


def test_a_pit_space_and_a_window(scores: list[int], capsys) -> None:
    assert main(["tftas", "pit-micro", "--proxy", "stub", "-n", "5000", "--window", WINDOW, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["n"], answer["n_wanted"]) == (9, 5000)
    assert max(c["params"] for c in answer["candidates"]) <= 3700
    assert main(["tftas", "pit-micro", "--proxy", "none", "-n", "5000", "--window", WINDOW]) == 0
    shown = capsys.readouterr().out
    assert "of 1 to 3,700 parameters" in shown
    assert "the window holds no more; 5,000 were wanted" in shown
    assert "9 subnets without a finite score" in shown
    assert "\nbest " not in shown
    assert main(["tftas", "pit-micro", "--proxy", "stub", "-n", "2", "--window", "1-900000000"]) == 0
    assert "the window leaves no subnet of the space out" in capsys.readouterr().out


def test_the_window_is_tf_tas_s_where_it_has_one(scores: list[int], capsys) -> None:
    tiny = [4_000_000, 6_000_000]
    for argv, window in (([], [4_000_000, 6_200_000]), (["--window", "none"], None), (["--window", "tiny"], tiny)):
        assert main(["tftas", "autoformer-tiny", "--proxy", "params", "-n", "3", "--json", *argv]) == 0
        assert json.loads(capsys.readouterr().out)["window"] == window


REFUSED = {
    "no space": (["tftas", "tiny"], "there is no space 'tiny'; choose one of autoformer-tiny, "),
    "no window": (["tftas", "pit-micro", "--window", "9-1"], "'9-1' is no window of parameters; write MIN-MAX such as"),
    "an empty window": (["tftas", "pit-micro", "--window", "1-2"], "no subnet of pit-micro has 1 to 2 parameters; the"),
    "a narrow window": (["tftas", "autoformer-micro", "--window", "10091-10092"], "no subnet of autoformer-micro "),
    "no supernet": (["tftas", "pit-micro", "--weights", "shared"], "--weights shared needs a supernet, which pit"),
    "several scores": (["tftas", "pit-micro", "--proxy", "two"], "two is several scores; a search follows one of"),
    "no proxy": (["tftas", "pit-micro", "--proxy", "zen"], "unknown proxy 'zen'; known: dss, "),
    "no such file": (["groundtruth", "nowhere.pth"], "nowhere.pth is no file; give a gt_*.pth"),
}  # fmt: skip


@pytest.mark.parametrize(("argv", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_one_line(argv: list[str], message: str, scores, capsys) -> None:
    assert main(argv) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"attnbench {argv[0]}: {message}")
    assert told.count("\n") == 1
    assert main([*argv, "--json"]) == 1
    assert message in json.loads(capsys.readouterr().out)["message"]


@pytest.mark.parametrize("argv", [["groundtruth", "gt.pth"], ["tftas", "pit-micro"]], ids=["groundtruth", "tftas"])
def test_without_torch_they_say_how_to_get_it(argv: list[str], root: Path) -> None:
    code = f"import sys; sys.modules['torch'] = None; from attnbench.cli import main; sys.exit(main({argv}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"attnbench {argv[0]}: scoring subnets needs torch and timm, which the base install")
    assert done.stderr.rstrip().endswith("pip install 'attnbench[nn]'")


def test_a_broken_installation_is_no_missing_extra() -> None:
    from attnbench.cli.extras import needs_torch

    with pytest.raises(ModuleNotFoundError, match="attnbench"), needs_torch("this"):
        import attnbench.nothing  # noqa: F401
