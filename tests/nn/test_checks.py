"""Dynamic checks: each fails on a graph made to fail it, names the sub-expression, and passes sound ones."""

import random

import pytest
import torch

from attnbench.errors import InvalidGraph
from attnbench.nn.checks import OPERATORS, check_dynamic, expression, random_inputs, run
from attnbench.nn.operators import FUNCTIONS, compile_graph
from attnbench.space.check import check
from attnbench.space.cost import best_order
from attnbench.space.graph import program
from attnbench.space.grid import cell_graph, cell_key, cells
from attnbench.space.named import NAMED, named_graphs
from attnbench.space.operators import OPERATORS as REGISTRY
from attnbench.space.parse import parse
from attnbench.space.published import PUBLISHED
from attnbench.space.sample import draw_genotype
from attnbench.space.typed import TypedSampler


def first(formula, functions=OPERATORS):
    reasons = check_dynamic(parse(formula), functions).reasons
    return reasons[0] if reasons else None


def upstream_standardize(x):
    """AttnZero's normalize: one mean and deviation for the whole batch."""
    return (x - x.mean()) / x.std()


def test_operators_are_those_of_the_registry():
    assert set(OPERATORS) | {"scale"} == set(REGISTRY)


@pytest.mark.parametrize("name", [named.name for named in NAMED if not named.is_control])
def test_published_formulas_pass(name):
    assert check_dynamic(named_graphs()[name]).ok


def test_a_sample_of_the_grid_passes():
    for cell in random.Random(0).sample(cells(), 12):
        assert check_dynamic(cell_graph(cell)).ok, cell


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda published: published.name)
def test_our_verdict_on_published_genotypes(published):
    if published.graph is None:
        assert published.failed_checks == ("refused",)
        return
    failed = check(published.graph).failed_checks + check_dynamic(published.graph).failed_checks
    assert failed == published.failed_checks


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        ("zeros(v)", "varies: the value is the same whatever q, k and v are: zeros(v)"),
        ("q * softmax(zeros(k)) * zeros(v)", "varies: the value is the same whatever q, k and v are: zeros(k)"),
        ("sign(q + k) * sign(v)", "gradients: the gradient of q is zero: sign(q + k)"),
        ("q @ (sign(k).T @ v)", "gradients: the gradient of k is zero: sign(k)"),
        ("q * softmax(sum(k)) + mean(v, axis=-2)", "gradients: the gradient of k is zero: softmax(sum(k))"),
        ("v", "gradients: q gets no gradient: it is not used: v"),
        ("q * k * v", "mixes: no other token's k or v reaches a token: q * k * v"),
        ("k * v + q @ (q.T @ q)", "mixes: no other token's k or v reaches a token: k * v + q @ (q.T @ q)"),
        ("q * k + v * sum(q, axis=-2)", "mixes: no other token's k or v reaches a token: q * k + v * sum(q, axis=-2)"),
        ("l2norm(q * k * v, axis=-2)", "mixes: no other token's k or v reaches a token: l2norm(q * k * v, axis=-2)"),
        (
            "standardize(minmax(q * k) * v)",
            "mixes: no other token's k or v reaches a token: standardize(minmax(q * k) * v)",
        ),
        ("q * k + softmax(v, axis=-2)", "mixes: no other token's k or v reaches a token: q * k + softmax(v, axis=-2)"),
        (
            "q + k @ batchnorm(v.T @ v)",
            "batch: a sample's value changes when the other samples change: batchnorm(v.T @ v)",
        ),
        (
            "exp(exp(q)) @ ((exp(exp(k)) * exp(exp(k))).T @ exp(exp(v)))",
            "finite: not finite at inputs of scale 100: (exp(exp(k)) * exp(exp(k))).T @ exp(exp(v))",
        ),
    ],
)
def test_each_check_fails_where_it_should(formula, reason):
    assert str(first(formula)) == reason


@pytest.mark.parametrize(
    "formula",
    [
        "q + k + zeros(q) + sum(v, axis=-2)",
        "q * mean(k, axis=-2) * v",
        "q * cosine(k.T, v.T).T",
        "l2norm(q, axis=-2) @ (k.T @ v)",
        "v @ softmax(k.T @ q)",
    ],
)
def test_token_sums_and_contractions_count_as_mixing(formula):
    assert first(formula) is None


def test_a_graph_without_gradients_says_so():
    assert str(check_dynamic(parse("zeros(v)")).reasons[1]) == "gradients: no input gets a gradient: zeros(v)"


def test_upstreams_batch_wide_standardize_is_caught():
    formula = "q * l2norm(l2norm(q) @ standardize(minmax(v).T @ elu1(k)))"
    assert first(formula) is None
    leaking = first(formula, {**OPERATORS, "standardize": upstream_standardize})
    assert str(leaking) == (
        "batch: a sample's value changes when the other samples change: standardize(minmax(v).T @ elu1(k))"
    )


def test_a_batch_size_in_the_result_is_caught():
    counting = {**OPERATORS, "relu": lambda x: torch.relu(x) * x.shape[0]}
    assert str(first("relu(q) @ (k.T @ v)", counting)) == (
        "batch: a sample's value changes with the number of samples: relu(q)"
    )


@pytest.mark.parametrize(
    ("replaced", "reason"),
    [
        ({"recip": lambda x: 1 / x}, "finite: not finite at inputs of scale 1: recip(k)"),
        ({"sqrt": lambda x: torch.sqrt(x.abs())}, "gradients: the gradient is not finite: recip(k)"),
    ],
)
def test_broken_operators_are_caught(replaced, reason):
    formula = "q * sqrt(recip(k)) * sum(v, axis=-2)"
    assert str(first(formula, {**OPERATORS, **replaced})) == reason


def test_gradients_at_large_scale_are_caught():
    steep = {**OPERATORS, "softsign": lambda x: torch.where(x > 50, (x - x.detach()) * 1e38 * 1e10, x)}
    found = first("q * softsign(k) * sum(v, axis=-2)", steep)
    assert str(found) == "finite: the gradient is not finite at inputs of scale 100: q * softsign(k) * sum(v, axis=-2)"


def test_bfloat16_and_many_tokens_are_caught():
    def poor(x):
        return torch.full_like(x, torch.nan) if x.dtype == torch.bfloat16 else torch.relu(x)

    def crowded(x):
        return torch.full_like(x, torch.nan) if x.shape[-2] > 3000 else torch.relu(x)

    formula = "relu(q) @ (k.T @ v)"
    assert str(first(formula, {**OPERATORS, "relu": poor})) == "bf16: not finite in bfloat16: relu(q)"
    assert str(first(formula, {**OPERATORS, "relu": crowded})) == "tokens: not finite with 3136 tokens: relu(q)"


def test_the_first_reason_can_end_it():
    graph = parse("v")
    assert len(check_dynamic(graph).reasons) == 3
    assert len(check_dynamic(graph, first_only=True).reasons) == 1


def test_runs_as_the_compiled_module_does():
    graph = parse("q * l2norm(scale(q) @ standardize(minmax(v).T @ elu1(k)))")
    x = random_inputs(1)
    torch.testing.assert_close(run(program(graph.root), FUNCTIONS, *x)[-1], compile_graph(graph)(*x))


def test_steps_read_as_their_expression():
    graph = parse("q * softmax(k - v, axis=-2)")
    steps = program(best_order(graph.root))
    assert expression(steps, len(steps) - 1) == graph.text


def test_promising_is_necessary_for_passing():
    """No raw draw that passes every check lies outside what the sampler calls promising."""
    sampler = TypedSampler("promising")
    rng = random.Random(8)
    sound = 0
    while sound < 15:
        genotype = draw_genotype(rng)
        try:
            graph = genotype.to_graph()
        except InvalidGraph:
            continue
        if check(graph).ok and check_dynamic(graph, first_only=True).ok:
            assert sampler.possible(genotype)
            sound += 1


@pytest.mark.slow
def test_the_whole_grid_passes():
    graphs = {cell_key(cell): cell_graph(cell) for cell in cells()}
    assert [graph.text for graph in graphs.values() if not (check(graph).ok and check_dynamic(graph).ok)] == []
