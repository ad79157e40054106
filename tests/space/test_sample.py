"""The raw sampler, its exact conditioning, and steps between genotypes."""

import random
from collections import Counter

import pytest
from scipy import stats

from attnbench.errors import InvalidGraph
from attnbench.space.check import check
from attnbench.space.genotype import Genotype
from attnbench.space.sample import RELEASED, SamplerSettings, crossover, draw_genotype, key_of, mutate, neighbours
from attnbench.space.typed import Choice, TypedSampler
from attnbench.space.upstream import SIX_TYPES

TRIAL_105 = Genotype("i3n303", [[16], [0, 13], [0, 25], [6], [0], [25, 0]], [6, 3, 2])
SHORT = SamplerSettings(slot_lengths=(1, 2), no_op_weight=2.0)


@pytest.fixture(scope="module")
def typed():
    return TypedSampler("graph")


@pytest.fixture(scope="module")
def promising():
    return TypedSampler("promising")


def is_graph(genotype):
    return key_of(genotype) is not None


def test_raw_draws_follow_the_settings():
    rng = random.Random(0)
    draws = [draw_genotype(rng) for _ in range(4000)]
    assert {g.graph_type for g in draws} == set(SIX_TYPES)
    assert {len(slot) for g in draws for slot in g.unary_ops} == {1, 2, 3}
    ops = Counter(op for g in draws for slot in g.unary_ops for op in slot)
    total = sum(ops.values())
    assert set(ops) == set(range(28))
    assert ops[0] / total == pytest.approx(0.8 / 2.15, abs=0.01)
    assert RELEASED.unary_probabilities[5] == pytest.approx(0.05 / 2.15)
    assert {op for g in draws for op in g.binary_ops} == set(range(10))


def test_draws_repeat_with_their_seed(typed):
    assert draw_genotype(random.Random(3)) == draw_genotype(random.Random(3))
    assert typed.draw(random.Random(3)) == typed.draw(random.Random(3))


def test_every_conditioned_draw_is_a_graph(typed, promising):
    rng = random.Random(1)
    assert all(is_graph(typed.draw(rng)) for _ in range(500))
    drawn = [promising.draw(rng).to_graph() for _ in range(500)]
    assert all(check(graph).ok for graph in drawn)


def test_the_probability_of_a_graph_is_that_of_rejection_sampling(typed):
    rng = random.Random(2)
    n = 20_000
    accepted = sum(is_graph(draw_genotype(rng)) for _ in range(n))
    exact = sum(typed.probability.values()) / len(typed.probability)
    assert stats.binomtest(accepted, n, exact).pvalue > 1e-3
    assert exact == pytest.approx(0.02676, abs=1e-5)
    assert typed.probability["i3n2"] == pytest.approx(0.05803, abs=1e-5)


def features(genotype):
    """Coarse features of a genotype, so that every class is large: its type, joins, operators and slot lengths."""
    unary = [op for slot in genotype.unary_ops for op in slot]
    return {
        "type": genotype.graph_type,
        "first binary": genotype.binary_ops[0],
        "last binary": genotype.binary_ops[-1],
        "first operator": genotype.unary_ops[0][0],
        "last operator": genotype.unary_ops[-1][-1],
        "operators": min(sum(op != 0 for op in unary), 9),
        "positions": len(unary),
        "transposes": min(unary.count(1), 3),
        "sums": min(unary.count(17), 3),
    }


def test_conditioning_equals_rejection(typed):
    """Chi-square of the exactly conditioned sample against the accepted raw draws, feature by feature."""
    accepted, rng = [], random.Random(4)
    while len(accepted) < 1500:
        genotype = draw_genotype(rng, SHORT)
        if is_graph(genotype):
            accepted.append(features(genotype))
    sampler = TypedSampler("graph", SHORT)
    exact = [features(sampler.draw(rng)) for _ in range(6000)]
    for feature in accepted[0]:
        counts = [Counter(sample[feature] for sample in samples) for samples in (accepted, exact)]
        classes = [c for c in counts[0] | counts[1] if counts[0][c] + counts[1][c] >= 25]
        table = [[count[c] for c in classes] for count in counts]
        for row, count in zip(table, counts, strict=True):
            row.append(sum(count.values()) - sum(row))
        if table[0][-1] + table[1][-1] == 0:
            table = [row[:-1] for row in table]
        assert stats.chi2_contingency(table).pvalue > 1e-3, (feature, table)


def test_the_chi_square_can_tell():
    """The same test refuses another distribution: other operators more frequent against no-op."""
    rng = random.Random(5)
    samplers = [TypedSampler("graph", settings) for settings in (SHORT, SamplerSettings(slot_lengths=(1, 2)))]
    counts = [Counter(features(sampler.draw(rng))["operators"] for _ in range(1500)) for sampler in samplers]
    classes = [c for c in counts[0] if counts[0][c] + counts[1][c] >= 25]
    assert stats.chi2_contingency([[count[c] for c in classes] for count in counts]).pvalue < 1e-6


def test_promising_is_a_part_of_graph(typed, promising):
    for name in SIX_TYPES:
        assert 0 < promising.probability[name] < typed.probability[name]


@pytest.mark.parametrize(
    ("condition", "settings", "message"),
    [
        ("sound", RELEASED, "a condition is one of graph, promising; got 'sound'"),
        ("graph", SamplerSettings(graph_types=("i3n402",)), "i3n402 uses one slot for two operands"),
    ],
)
def test_what_cannot_be_conditioned_is_refused(condition, settings, message):
    with pytest.raises(ValueError, match=message):
        TypedSampler(condition, settings)


def test_a_choice_is_drawn_by_weight():
    choice = Choice([("a", 1.0), ("b", 0.0), ("c", 3.0)])
    counts = Counter(choice.draw(random.Random(seed)) for seed in range(2000))
    assert choice.total == 4.0
    assert set(counts) == {"a", "c"}
    assert counts["c"] / 2000 == pytest.approx(0.75, abs=0.05)


def test_neighbours_are_distinct_other_functions():
    near = neighbours(TRIAL_105)
    keys = [key_of(g) for g in near]
    assert len(near) > 100
    assert len(set(keys)) == len(keys)
    assert key_of(TRIAL_105) not in keys
    assert None not in keys
    assert mutate(TRIAL_105, random.Random(0)).to_graph().key in keys


def test_children_mix_their_parents():
    rng = random.Random(6)
    parent = Genotype("i3n303", [[19], [2], [19], [0], [16], [20]], [5, 3, 0])
    for _ in range(20):
        child = crossover(TRIAL_105, parent, rng)
        assert key_of(child) not in (None, key_of(TRIAL_105), key_of(parent))
        mixed = zip(child.unary_ops, TRIAL_105.unary_ops, parent.unary_ops, strict=True)
        assert all(slot in parents for slot, *parents in mixed)


def test_twins_have_a_mutant():
    child = crossover(TRIAL_105, TRIAL_105, random.Random(7))
    assert key_of(child) not in (None, key_of(TRIAL_105))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda rng: crossover(TRIAL_105, Genotype("i3n2", [[0]] * 4, [0, 0]), rng), "got i3n303 and i3n2"),
        (lambda rng: mutate(Genotype("i3n2", [[22], [0], [0], [0]], [0, 0]), rng), "unsqz2"),
        (lambda rng: neighbours(Genotype("i3n2", [[22], [0], [0], [0]], [0, 0])), "unsqz2"),
    ],
)
def test_steps_that_cannot_be_taken_say_why(step, message):
    with pytest.raises(InvalidGraph, match=message):
        step(random.Random(0))


def test_a_dead_end_says_so(monkeypatch):
    monkeypatch.setattr("attnbench.space.sample._one_step", lambda genotype, settings: iter([genotype]))
    with pytest.raises(InvalidGraph, match=r"no single step from .* leads to another graph; draw a new genotype"):
        mutate(TRIAL_105, random.Random(0))
