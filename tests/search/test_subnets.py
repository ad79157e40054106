"""Subnets as candidates: windows, stored subnets alone, changes, and what a table does not hold."""

from __future__ import annotations

from itertools import islice
from random import Random

import pyarrow as pa
import pytest

from attnbench.errors import InvalidSubnet, NotInBenchmark
from attnbench.search.measurements import MeasuredRun, Measurements
from attnbench.search.misses import n_differing, nearest_rows
from attnbench.search.replay import replay, subnet_space
from attnbench.search.searchers import SEARCHERS, RandomSearch, make_searcher
from attnbench.search.simulation import Simulation
from attnbench.search.subnets import SubnetCandidates, published_window
from attnbench.space.subnet import AutoFormerSubnet, PiTSubnet
from attnbench.space.subnet_cost import subnet_cost
from attnbench.space.subnet_named import PARAM_WINDOWS, SPACES
from tests.search.subnets import MICRO, PIT, inherited_and_true, landscape, micro_candidates, stored_subnets

SMALL = AutoFormerSubnet(24, (2, 2), (1, 1), 12)


def params_of(space, subnet) -> int:
    return subnet_cost(subnet, space.frame).params


@pytest.mark.parametrize("name", ["autoformer-tiny", "autoformer-micro", "pit-tiny", "pit-micro"])
def test_draws_mutants_and_children_stay_inside_the_window(name: str) -> None:
    space, rng = SPACES[name], Random(1)
    everywhere = SubnetCandidates(space)
    spread = sorted(params_of(space, everywhere.sample(rng)) for _ in range(60))
    window = (spread[15], spread[45])
    candidates = SubnetCandidates(space, window=window)
    x = candidates.sample(rng)
    for _ in range(60):
        y = candidates.sample(rng)
        mutant, child = candidates.mutate(x, rng), candidates.crossover(x, y, rng)
        assert mutant != x
        for found in (y, mutant, *([] if child is None else [child])):
            assert window[0] <= params_of(space, found) <= window[1]
            assert found in candidates
            assert candidates.key(found) == found.key
        x = mutant
    assert candidates.window_binds
    assert not everywhere.window_binds
    assert not SubnetCandidates(space, window=(1, 10**9)).window_binds


def test_the_micro_spaces_are_listed_and_counted() -> None:
    for space in (MICRO, PIT):
        assert len(SubnetCandidates(space)) == len(set(SubnetCandidates(space).keys)) == space.size
    smallest = SubnetCandidates(PIT, window=(0, params_of(PIT, PIT.smallest)))
    assert (len(smallest), smallest.keys) == (1, (PIT.smallest.key,))
    assert list(iter(RandomSearch(smallest, Random(0)).ask, None)) == [PIT.smallest]


def test_a_space_that_is_too_large_is_counted_by_its_formula() -> None:
    space = SPACES["autoformer-tiny"]
    assert len(SubnetCandidates(space, window=PARAM_WINDOWS["tiny"])) == space.size
    with pytest.raises(ValueError, match=r"autoformer-tiny holds [\d,]+ subnets, too many to list \(up to 100,000\)"):
        _ = SubnetCandidates(space).keys


def test_a_random_search_of_a_window_that_cannot_be_counted_ends() -> None:
    space = SPACES["autoformer-tiny"]
    window = (0, params_of(space, space.smallest))
    candidates = SubnetCandidates(space, window=window)
    searcher = RandomSearch(candidates, Random(0))
    candidates.sample = lambda rng: space.smallest  # one draw in 10^9 would meet it
    assert [searcher.ask(), searcher.ask()] == [space.smallest, None]


def test_stored_subnets_are_all_there_is() -> None:
    stored = stored_subnets(40)
    candidates = SubnetCandidates(MICRO, only=[*stored, *stored])
    assert len(candidates) == 40
    assert candidates.keys == tuple(sorted(subnet.key for subnet in stored))
    backwards = SubnetCandidates(MICRO, only=reversed(stored))
    assert [candidates.sample(Random(i)) for i in range(20)] == [backwards.sample(Random(i)) for i in range(20)]
    assert {candidates.mutate(stored[0], Random(i)) in stored for i in range(20)} == {True}
    assert MICRO.largest not in candidates
    assert all(near in stored for subnet in stored for near in candidates.neighbours(subnet))
    assert set(map(str, islice(iter(RandomSearch(candidates, Random(0)).ask, None), 100))) == set(map(str, stored))


def test_neighbours_are_one_coordinate_away() -> None:
    every = SubnetCandidates(MICRO)
    near = every.neighbours(AutoFormerSubnet(24, (2, 3, 4), (1, 2, 4), 12))
    # 2 widths; shorter; 9 layers to add; 2 other heads and 2 other ratios in each of 3 layers
    assert len(near) == len(set(near)) == 2 + 1 + 9 + 12
    assert {n_differing(near[0], AutoFormerSubnet(24, (2, 3, 4), (1, 2, 4), 12)) for near in zip(near)} <= {1, 2}
    assert len(every.neighbours(SMALL)) == 2 + 9 + 8  # nothing shorter than the space
    pit = PiTSubnet(8, (1, 2, 1), (1, 2, 4), 2)
    near = SubnetCandidates(PIT).neighbours(pit)
    assert {n_differing(pit, other) for other in near} == {1}
    # 2 widths, 2 ratios, depths 1 + 2 + 1, heads (1, 1, 4), (1, 4, 4), (2, 2, 4), (1, 2, 2)
    assert len(near) == 2 + 2 + 4 + 4


def test_parents_of_unequal_depths_have_no_child() -> None:
    candidates, rng = SubnetCandidates(MICRO), Random(0)
    deeper = AutoFormerSubnet(24, (2, 2, 2), (1, 1, 1), 12)
    assert candidates.crossover(SMALL, deeper, rng) is None
    assert candidates.crossover(SMALL, SMALL, rng) == SMALL
    # the child may be no candidate though both parents are
    pair = [SMALL, AutoFormerSubnet(48, (4, 4), (4, 4), 12)]
    children = [SubnetCandidates(MICRO, only=pair).crossover(*pair, Random(i)) for i in range(50)]
    assert set(children) <= {None, *pair}
    assert None in children


def test_mutation_probabilities_are_the_spaces() -> None:
    parent = AutoFormerSubnet(36, (3, 3, 3), (2, 2, 2), 12)

    def n_of(net_prob: float, gene_prob: float) -> int:
        candidates = SubnetCandidates(MICRO, net_prob=net_prob, gene_prob=gene_prob)
        return sum(candidates.mutate(parent, Random(i)).depth != 3 for i in range(300))

    assert n_of(0.4, 0.2) > n_of(0.2, 0.4) + 20


def test_wrong_candidates_are_named() -> None:
    with pytest.raises(InvalidSubnet, match=r"no subnet of autoformer-micro has 1 to 9 parameters; the space reaches"):
        SubnetCandidates(MICRO, window=(1, 9))
    with pytest.raises(InvalidSubnet, match=r"none of the 0 subnets given is one of autoformer-micro$"):
        SubnetCandidates(MICRO, only=[])
    with pytest.raises(InvalidSubnet, match=r"none of the 1 subnets given is one of .* with 1 to 9 parameters"):
        SubnetCandidates(MICRO, only=[SMALL], window=(1, 9))
    with pytest.raises(InvalidSubnet, match="not in the space autoformer-micro: it holds AutoFormer subnets"):
        SubnetCandidates(MICRO, only=[PIT.smallest])
    with pytest.raises(InvalidSubnet, match="not in the space autoformer-micro"):
        SubnetCandidates(MICRO).key(PIT.smallest)
    with pytest.raises(InvalidSubnet, match="has no other subnet to mutate to; widen the window or give more"):
        SubnetCandidates(MICRO, only=[SMALL]).mutate(SMALL, Random(0))


def test_an_isolated_subnet_mutates_to_a_random_other() -> None:
    pair = [SMALL, MICRO.largest]
    assert SubnetCandidates(MICRO, only=pair).mutate(SMALL, Random(0)) == pair[1]


def test_windows_of_the_papers() -> None:
    assert published_window("autoformer-tiny") == (4_000_000, 6_000_000)
    assert published_window("autoformer-base-released", of="tf-tas") == (52_000_000, 56_500_000)
    assert published_window("autoformer-small", of="tf-tas") == (21_000_000, 24_000_000)
    assert published_window("pit-tiny") is published_window("autoformer-micro", of="tf-tas") is None
    with pytest.raises(ValueError, match='windows are those of "autoformer" or of "tf-tas", got \'prenas\''):
        published_window("autoformer-tiny", of="prenas")


@pytest.mark.parametrize("name", SEARCHERS)
def test_every_searcher_replays_on_stored_subnets(name: str) -> None:
    measurements, subnets = inherited_and_true()
    candidates = SubnetCandidates(MICRO, only=subnets)
    trace = replay(candidates, measurements, name, budget=120, search_seeds=[0])[0]
    assert {e.source for e in trace.evaluations} == {"table"}
    assert trace.spent == 120
    assert trace.evaluations[0].val_top1_percent < trace.best_val_top1_percent


def test_the_truth_judges_what_was_inherited() -> None:
    measurements, subnets = inherited_and_true(n=60, n_true=60)
    trace = replay(SubnetCandidates(MICRO, only=subnets), measurements, "random", budget=60, search_seeds=[0])[0]
    best = max(map(landscape, subnets))
    assert trace.reference.definition == "truth"
    assert (trace.reference.seeds, trace.reference.n) == ((0, 1), 60)
    assert trace.reference.best_val_top1_percent == pytest.approx(best + 5.5)
    assert trace.best_val_top1_percent == best
    assert trace.regret_percent == pytest.approx(0)
    assert trace.n_test == 2


def test_a_choice_that_was_not_trained_from_scratch_has_no_regret() -> None:
    measurements, subnets = inherited_and_true(n_true=10)
    simulation = Simulation(SubnetCandidates(MICRO, only=subnets), measurements, budget=5)
    simulation.evaluate(subnets[20])
    trace = simulation.finish()
    assert trace.reference.n == 10
    assert (trace.regret_percent, trace.test_top1_percent, trace.n_test) == (None, None, 0)


def test_misses_raise_or_are_answered_by_the_nearest_rows() -> None:
    measurements, subnets = inherited_and_true()
    everywhere = SubnetCandidates(MICRO)
    absent = next(s for s in map(everywhere.sample, map(Random, range(99))) if s not in subnets)
    with pytest.raises(NotInBenchmark, match="has no run with seed 0"):
        Simulation(everywhere, measurements, budget=5).evaluate(absent)
    answer = nearest_rows(measurements, subnets)
    near = min(n_differing(absent, subnet) for subnet in subnets)
    values = [landscape(subnet) for subnet in subnets if n_differing(absent, subnet) == near]
    simulation = Simulation(everywhere, measurements, budget=300, on_miss=answer)
    assert simulation.evaluate(absent) == pytest.approx(sum(values) / len(values))
    trace = simulation.run(make_searcher("autoformer", everywhere, Random(0)))
    assert {e.source for e in trace.evaluations} == {"predicted", "table"} or len(trace.evaluations) == 300
    assert answer(subnets[0]).val_top1_percent == landscape(subnets[0])
    with pytest.raises(NotInBenchmark, match="none of the subnets given has a run with seed 0"):
        nearest_rows(measurements, [PIT.smallest])


def test_distance_counts_coordinates() -> None:
    assert n_differing(SMALL, SMALL) == 0
    assert n_differing(SMALL, AutoFormerSubnet(36, (2, 4, 4), (1, 1, 1), 12)) == 1 + 1 + 2
    with pytest.raises(ValueError, match="are of two families; compare subnets of one"):
        n_differing(SMALL, PIT.smallest)


class Tables(dict):
    """Stands in for a Benchmark: tables by name."""

    def table(self, name: str) -> object:
        return self[name]


def tables(n: int = 12) -> Tables:
    subnets = stored_subnets(n)
    rows = [(s.key, "micro-entangled", 0, landscape(s), None, [landscape(s)]) for s in subnets]
    for seed in (0, 1):
        rows += [(s.key, "micro-scratch", seed, landscape(s) + seed, 60.0, [1.0]) for s in subnets[:4]]
    columns = ("key", "protocol", "seed", "val_top1_percent", "test_top1_percent", "val_curve")
    runs = dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))
    runs |= {"backbone": ["autoformer-micro"] * len(rows), "status": ["ok"] * len(rows)}
    runs |= {"protocol_hash": runs["protocol"]}
    architectures = {
        "kind": [*["subnet"] * n, "attention"],
        "key": [*(s.key for s in subnets), "ag1-0"],
        "text": [*(s.text for s in subnets), "v"],
    }
    costs = {"key": [], "backbone": [], "step_ms": []}
    return Tables(runs=pa.table(runs), costs=costs, architectures=architectures)


def test_subnets_come_from_a_benchmark() -> None:
    bench = tables()
    measured = Measurements.from_benchmark(
        bench, backbone="autoformer-micro", protocol="micro-entangled", truth_protocol="micro-scratch"
    )
    candidates = subnet_space(bench, "autoformer-micro", measured=measured)
    assert candidates.keys == tuple(sorted(s.key for s in stored_subnets(12)))
    trace = replay(candidates, measured, "random", budget=12, search_seeds=[0])[0]
    assert (trace.reference.definition, trace.reference.n, trace.reference.seeds) == ("truth", 4, (0, 1))
    judged = subnet_space(bench, "autoformer-micro", measured=measured, judged=True)
    assert judged.keys == tuple(sorted(s.key for s in stored_subnets(12)[:4]))
    window = (0, params_of(MICRO, stored_subnets(12)[0]))
    assert len(subnet_space(bench, "autoformer-micro", measured=measured, window=window)) < 12


def test_a_benchmark_without_such_subnets_is_named() -> None:
    bench = tables()
    measured = Measurements([MeasuredRun("a", 0, 50.0)])
    with pytest.raises(ValueError, match="there is no space 'micro' of subnets; choose one of autoformer-tiny, "):
        subnet_space(bench, "micro", measured=measured)
    with pytest.raises(ValueError, match=r"no subnet of autoformer-micro has a run with seed 0\.$"):
        subnet_space(bench, "autoformer-micro", measured=measured)
    alone = Measurements.from_benchmark(bench, backbone="autoformer-micro", protocol="micro-entangled")
    with pytest.raises(
        ValueError, match="no subnet of autoformer-micro has a run with seed 0 and others that judge it"
    ):
        subnet_space(bench, "autoformer-micro", measured=alone, judged=True)
    with pytest.raises(ValueError, match="no runs of 'micro-classical' on 'autoformer-micro'; stored: autoformer-mic"):
        Measurements.from_benchmark(
            bench, backbone="autoformer-micro", protocol="micro-entangled", truth_protocol="micro-classical"
        )


def test_candidates_of_stored_subnets_are_shared_by_the_searchers() -> None:
    candidates = micro_candidates(30)
    asked = list(iter(make_searcher("random", candidates, Random(0)).ask, None))
    assert len(asked) == 30
