"""Subnets stand in the same tables as attention: every way in, their own defaults, and no dead end."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from attnbench.dataset.benchmark import Benchmark
from attnbench.dataset.files import write_release
from attnbench.dataset.nearest import nearest_subnets
from attnbench.dataset.verify import verify
from attnbench.errors import InvalidGraph, InvalidSubnet, NoSuchRun, NotInBenchmark
from attnbench.space.subnet import AutoFormerSubnet, PiTSubnet
from attnbench.space.subnet_named import PUBLISHED_SUBNETS, SPACES, space_of
from tests.dataset import tiny, tiny_subnets
from tests.dataset.tiny_subnets import AUTOFORMER_T, BEST, SCORED, SMALL, SPACE


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_subnets.write(tmp_path_factory.mktemp("subnets") / "release")


@pytest.fixture(scope="module")
def bench(directory: Path) -> Benchmark:
    return Benchmark(directory)


def test_the_release_obeys_the_rules(directory: Path) -> None:
    assert verify(directory).problems == ()


WAYS_IN = {
    "subnet": BEST,
    "text": BEST.text,
    "key": BEST.key,
    "another spelling": "autoformer(heads=(4,4,3), mlp_ratios=(4.0,4,2), head_dim=12, embed_dim=48)",
    "dictionary": {"embed_dim": 48, "depth": 3, "num_heads": [4, 4, 3], "mlp_ratio": [4, 4, 2], "head_dim": 12},
    "space around": f"  {BEST.text}\n",
}


@pytest.mark.parametrize("arch", WAYS_IN.values(), ids=WAYS_IN)
def test_every_way_in_leads_to_the_same_row(bench: Benchmark, arch: object) -> None:
    expected = bench.query(BEST.key, backbone=SPACE, protocol="micro-scratch")
    assert bench.query(arch) is expected
    assert bench.query(arch) is expected
    assert arch in bench
    assert bench.subnet(arch) == BEST


def test_a_subnet_is_looked_up_in_its_space_trained_from_scratch(bench: Benchmark) -> None:
    result = bench.query(BEST)
    assert (result.backbone, result.protocol, result.n_seeds) == (SPACE, "micro-scratch", 2)
    assert (result.val_top1_percent, result.test_top1_percent) == (88.5, 88.0)
    assert (result.text, result.params, result.macs) == (BEST.text, 3000, 2000)
    assert bench.query("softmax").backbone == "deit"


def test_what_is_inherited_has_validation_and_no_test(bench: Benchmark) -> None:
    result = bench.query(BEST, protocol="micro-entangled")
    assert (result.val_top1_percent, result.test_top1_percent, result.status) == (85.0, None, "ok")


@pytest.mark.parametrize("name", ["AutoFormer-T", "autoformer-t ", AUTOFORMER_T.text, AUTOFORMER_T])
def test_published_names(bench: Benchmark, name: object) -> None:
    assert name in bench
    assert bench.subnet(name) == AUTOFORMER_T
    assert bench.costs(name).params == 13_000


def test_a_published_name_needs_no_entry_in_the_table(directory: Path, tmp_path: Path) -> None:
    rows = tiny_subnets.tables()
    rows["architectures"][-1]["names"] = []
    write_release(tmp_path, rows, "0.1")
    bench = Benchmark(tmp_path)
    assert bench.subnet("AutoFormer-T") == AUTOFORMER_T
    assert "AutoFormer-T" in bench.names
    assert "AutoFormer-S" not in bench.names
    assert "AutoFormer-S" not in bench


def test_names_and_many_at_once(bench: Benchmark) -> None:
    assert {"AutoFormer-T", "softmax"} <= set(bench.names)
    found = bench.query_many([BEST, "softmax", SCORED, "AutoFormer-S", SMALL.text], missing="none")
    assert [result and result.text for result in found] == [BEST.text, tiny.SOFTMAX, None, None, SMALL.text]
    with pytest.raises(InvalidSubnet, match="pit got no field 'width'"):
        bench.query_many(["pit(width=3)"], missing="none")


def test_an_absent_subnet_names_the_nearest_of_its_space_and_the_way_out(bench: Benchmark) -> None:
    absent = replace(BEST, mlp_ratios=(4, 4, 4))
    message = (
        r"(?s)no row is 'autoformer\(embed_dim=48, .*' \(key sn1-\w+\)\. In the space autoformer-micro it has [\d,]+ "
        r"parameters and [\d,]+ multiply-adds, by formula\. Nearest rows of its space:\n  autoformer\(.*"
        r'Measure it with the same protocol: attnbench measure "autoformer\(.*attnbench\[nn\]'
    )
    with pytest.raises(NotInBenchmark, match=message) as raised:
        bench.query(absent)
    assert raised.value.nearest == (BEST.text, SCORED.text, SMALL.text)
    assert absent not in bench


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        (
            "AutoFormer-S",
            r"(?s)In the space autoformer-small it has 22,891,432 parameters.*No row is of its space\.\nNo p",
        ),
        (
            "PiT-T",
            r"(?s)In the space pit-tiny it has .*No protocol here trains its size; attnbench\.nn\.subnet\.build_",
        ),
        (AutoFormerSubnet(25, (1,), (1,), 12), r"It lies in none of the spaces autoformer-tiny, .*pit-micro\. Nearest"),
        ("sn1-" + "0" * 32, r"no row has the key sn1-0+\. The 10 keys are list\(bench\); .* or a subnet's text"),
    ],
)
def test_other_absent_subnets(bench: Benchmark, arch: object, message: str) -> None:
    with pytest.raises(NotInBenchmark, match=message):
        bench.query(arch)
    assert arch not in bench


def test_absent_graphs_are_compared_with_graphs_only(bench: Benchmark) -> None:
    with pytest.raises(NotInBenchmark, match="no row computes") as raised:
        bench.query(tiny.ABSENT)
    assert not any(text.startswith("autoformer") for text in raised.value.nearest)


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ("autoformer(embed_dim=24)", "autoformer got no heads; its fields are embed_dim, heads"),
        (
            {"MLP_RATIO": [4], "depth": 1},
            "the subnet lacks embed_dim or hidden_dim, num_heads; it has mlp_ratio, depth",
        ),
        ("pit(", "is no subnet; one is written like autoformer"),
    ],
)
def test_what_is_no_subnet(bench: Benchmark, arch: object, message: str) -> None:
    with pytest.raises(InvalidSubnet, match=message):
        bench.query(arch)
    assert arch not in bench


def test_a_misspelt_published_name_names_those_like_it(bench: Benchmark) -> None:
    with pytest.raises(InvalidGraph, match=r"Or is a name meant\? Names like it: AutoFormer-T"):
        bench.query("AutoFormerT")


NO_RUN = {
    "never trained": (
        SCORED,
        {},
        rf"no run of it is stored\. Stored are its costs on {SPACE}: bench\.costs\(arch\) and its zero-cost scores on "
        rf"{SPACE}: bench\.proxies\(arch\)\. Measure it with the same protocol: attnbench measure",
    ),
    "full size": (
        "AutoFormer-T",
        {},
        r"costs on autoformer-tiny: bench\.costs.* and its published figures: bench\.table\('published'\)\. No "
        "protocol here trains its size",
    ),
    "protocol": (SMALL, {"protocol": "micro-classical"}, r"Stored: backbone 'autoformer-micro', protocol 'micro-ent"),
    "seed": (SMALL, {"seed": 1}, r"with backbone 'autoformer-micro', protocol 'micro-scratch', seed 1\. Stored: "),
    "an attention's backbone": (BEST, {"backbone": "deit"}, r"with backbone 'deit', protocol 'micro-scratch'\. Stored"),
}


@pytest.mark.parametrize(("arch", "asked", "message"), NO_RUN.values(), ids=NO_RUN)
def test_no_such_run_says_what_is_stored(bench: Benchmark, arch: object, asked: Mapping, message: str) -> None:
    with pytest.raises(NoSuchRun, match=message):
        bench.query(arch, **asked)


def test_costs_and_scores_need_no_run(bench: Benchmark) -> None:
    costs = bench.costs(SCORED)
    assert (costs.key, costs.backbone, costs.params, costs.macs) == (SCORED.key, SPACE, 2000, 2000)
    assert costs.step_ms is None
    assert dict(bench.proxies("AutoFormer-T")) == {"dss": 13.0, "te_nas.ntk_cond": 13.0}
    assert bench.costs("softmax").step_ms == 13.5
    assert dict(bench.proxies(tiny.ELU)) == {"dss": 3.0, "snip": 1.5}


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda b: b.costs("softmax", backbone="pvt"), r"has no costs on backbone 'pvt'\. Stored backbones: deit\."),
        (lambda b: b.costs("identity"), r"'v' .* has no costs on backbone 'deit'\. Stored backbones: none\."),
        (lambda b: b.proxies(BEST), r"has no zero-cost scores on backbone 'autoformer-micro'\. Stored backbones: none"),
    ],
)
def test_costs_and_scores_that_are_not_stored(bench: Benchmark, ask, message: str) -> None:
    with pytest.raises(NoSuchRun, match=message):
        ask(bench)


def test_a_graph_is_no_subnet_and_a_subnet_no_graph(bench: Benchmark) -> None:
    with pytest.raises(InvalidGraph, match=r"'autoformer\(.*' is a subnet and no graph; take subnet\(…\)"):
        bench.graph(BEST)
    with pytest.raises(InvalidSubnet, match=r"is a graph and no subnet; take graph\(…\)"):
        bench.subnet("softmax")


def test_top_is_of_attention_unless_a_space_is_named(bench: Benchmark) -> None:
    assert [result.text for result in bench.top(2)] == [tiny.ELU, tiny.EFFICIENT]
    assert [result.text for result in bench.top(backbone=SPACE)] == [BEST.text, SMALL.text]
    assert [r.val_top1_percent for r in bench.top(backbone=SPACE, protocol="micro-entangled")] == [85.0, 70.0]


def test_a_subnet_of_no_named_space_is_found_where_its_rows_are(tmp_path: Path) -> None:
    odd = AutoFormerSubnet(25, (1,), (1,), 12)
    rows = tiny.tables()
    rows["architectures"].append(tiny_subnets.architecture(odd))
    write_release(tmp_path, rows, "0.1")
    with pytest.raises(NoSuchRun, match="no run of it is stored"):
        Benchmark(tmp_path).query(odd)
    rows["runs"].append(tiny_subnets.run(odd, 0, 60.0, backbone="mine"))
    write_release(tmp_path, rows, "0.2")
    assert Benchmark(tmp_path).query(odd).backbone == "mine"


@pytest.mark.parametrize("row", PUBLISHED_SUBNETS.values(), ids=PUBLISHED_SUBNETS)
def test_published_subnets_lie_in_the_space_they_were_found_in(row) -> None:
    assert space_of(row.subnet) is SPACES[row.space]


def test_nearest_counts_coordinates_then_their_distance() -> None:
    given = PiTSubnet(16, (1, 2, 1), (1, 2, 4), 4)
    one_off, further, two_off = (
        replace(given, base_dim=12),
        replace(given, base_dim=8),
        replace(given, base_dim=8, mlp_ratio=1),
    )
    other_space = PiTSubnet(40, (1, 4, 2), (2, 4, 8), 4)
    stored = [subnet.text for subnet in (two_off, further, other_space, one_off, given)] + [BEST.text]
    assert nearest_subnets(given, stored, n=9) == tuple(s.text for s in (given, one_off, further, two_off))


def test_a_missing_layer_counts_as_its_coordinates() -> None:
    given = AutoFormerSubnet(24, (2, 2, 2), (1, 1, 1), 12)
    shorter, changed = replace(given, heads=(2, 2), mlp_ratios=(1, 1)), replace(given, heads=(3, 3, 3))
    one_head = replace(given, heads=(4, 2, 2))
    assert nearest_subnets(given, [changed.text, shorter.text, one_head.text], n=9) == (
        one_head.text,
        shorter.text,
        changed.text,
    )
