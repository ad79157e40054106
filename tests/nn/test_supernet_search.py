"""Evolution on a supernet's own accuracies: a searcher that knows no network, and a callable that measures."""

from __future__ import annotations

from random import Random

import pytest

torch = pytest.importorskip("torch")

from attnbench.nn.data import Split  # noqa: E402
from attnbench.nn.supernet import build_supernet  # noqa: E402
from attnbench.nn.supernet_inherit import inherited  # noqa: E402
from attnbench.search.autoformer import AutoFormerEvolution  # noqa: E402
from attnbench.search.measurements import MeasuredRun, Measurements  # noqa: E402
from attnbench.search.simulation import Answer, Simulation  # noqa: E402
from attnbench.search.subnets import SubnetCandidates  # noqa: E402
from attnbench.space.subnet_named import SPACES  # noqa: E402

MICRO = SPACES["autoformer-micro"]


def test_misses_are_measured_by_a_supernet() -> None:
    generator = torch.Generator().manual_seed(0)
    split = Split(torch.randn(40, 1, 28, 28, generator=generator), torch.arange(40) % 10)
    supernet = build_supernet(MICRO, 0)

    def measure(subnet) -> Answer:
        return Answer(inherited(supernet, [subnet], split)[0][0], "measured")

    stored = Measurements([MeasuredRun(MICRO.smallest.key, 0, 0.0)])
    candidates = SubnetCandidates(MICRO, window=(1, 60_000))
    searcher = AutoFormerEvolution(
        candidates, Random(0), population_size=6, n_generations=2, n_parents=3, n_mutants=3, n_children=3
    )
    trace = Simulation(candidates, stored, budget=100, on_miss=measure).run(searcher, name="autoformer")
    assert (len(trace.evaluations), trace.spent, trace.stop_reason) == (18, 18, "nothing left to ask")
    assert {e.source for e in trace.evaluations} == {"measured"}
    best = searcher.parents[0]
    assert trace.best_key == best.key
    assert trace.best_val_top1_percent == inherited(supernet, [best], split)[0][0]
    assert all(candidates.params(parent) <= 60_000 for parent in searcher.parents)
