"""One battery for every operator in torch: as the numpy oracle says, pure, finite with its gradient."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from attnbench.nn.operators import FUNCTIONS, compile_graph
from attnbench.space import evaluate
from attnbench.space.graph import Graph, program
from attnbench.space.operators import OPERATORS
from attnbench.space.parse import parse
from tests.space.random_graphs import random_graph

SHAPE = (3, 2, 7, 5)  # samples, heads, tokens, head width
BY_MODULE = {"scale", "batchnorm"}  # need the head width, or keep statistics: GraphModule supplies them


def inputs(scale: float = 1.0, seed: int = 0, shape: tuple[int, ...] = SHAPE) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple((scale * torch.randn(shape, generator=generator)).requires_grad_() for _ in range(3))


def oracle(graph: Graph, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> np.ndarray:
    return evaluate.evaluate(graph, *(x.detach().double().numpy() for x in (q, k, v)))


def formulas() -> list[str]:
    """Every operator's example, and with axis=-2 where it has an axis."""
    found = [op.example for op in OPERATORS.values()]
    return found + [f"q * {name}(k, axis=-2)" for name, op in OPERATORS.items() if op.has_axis]


def test_registry_oracle_and_torch_know_the_same_operators() -> None:
    assert set(FUNCTIONS) | BY_MODULE == set(OPERATORS) == set(evaluate.FUNCTIONS)
    assert not set(FUNCTIONS) & BY_MODULE


@pytest.mark.parametrize("formula", formulas())
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_agrees_with_the_oracle(formula: str, scale: float) -> None:
    graph = parse(formula)
    q, k, v = inputs(scale)
    out = compile_graph(graph)(q, k, v).detach().numpy()
    expected = oracle(graph, q, k, v)
    assert out.shape == expected.shape == SHAPE
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5 * max(1e-3, np.abs(expected).max()))


def test_whole_graphs_agree_with_the_oracle_in_float64() -> None:
    rng, compared = random.Random(3), 0
    for _ in range(200):
        graph = random_graph(rng, size=10)
        q, k, v = (x.double() for x in inputs(seed=rng.randrange(1000)))
        out, expected = compile_graph(graph).double()(q, k, v).detach().numpy(), oracle(graph, q, k, v)
        if not np.abs(expected).max() < 1e6 or any(step.op == "sign" for step in program(graph.root)):
            continue  # rounding may decide where large terms cancel, and at the jump of sign
        compared += 1
        np.testing.assert_allclose(
            out, expected, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(expected).max()), err_msg=graph.text
        )
    assert compared > 120


@pytest.mark.parametrize("formula", formulas())
@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0, 1e3])
def test_finite_with_finite_gradients(formula: str, scale: float) -> None:
    used = list(parse(formula).inputs)
    tensors = dict(zip("qkv", inputs(scale), strict=True))
    out = compile_graph(parse(formula))(**tensors)
    assert torch.isfinite(out).all()
    if not out.requires_grad:
        assert formula == "zeros(q)"
        return
    out.square().mean().backward() if scale < 1e3 else out.mean().backward()
    for name in used:
        grad = tensors[name].grad
        assert grad is None or torch.isfinite(grad).all(), (name, grad)


@pytest.mark.parametrize("formula", formulas())
def test_operands_are_left_as_they_were(formula: str) -> None:
    tensors = inputs()
    before = [x.detach().clone() for x in tensors]
    compile_graph(parse(formula))(*tensors)
    assert all(torch.equal(x, y) for x, y in zip(tensors, before, strict=True))


@pytest.mark.parametrize("formula", [f for f in formulas() if "batchnorm" not in f])
def test_a_sample_does_not_see_the_others(formula: str) -> None:
    run = compile_graph(parse(formula))
    together = inputs()
    alone = [x[:1] for x in together]
    torch.testing.assert_close(run(*alone), run(*together)[:1], rtol=1e-6, atol=1e-6)


def test_batchnorm_sees_the_others_in_training_and_its_running_statistics_afterwards() -> None:
    run = compile_graph(parse("batchnorm(q)"))
    q, k, v = inputs()
    assert not torch.allclose(run(q[:1], k[:1], v[:1]), run(q, k, v)[:1], atol=1e-2)
    run.eval()
    torch.testing.assert_close(run(q[:1], k[:1], v[:1]), run(q, k, v)[:1])


def test_head_width_is_that_of_the_inputs_not_of_the_operand() -> None:
    q, k, v = inputs()
    out = compile_graph(parse("scale(v.T).T"))(q, k, v)
    torch.testing.assert_close(out, v / SHAPE[-1] ** 0.5)


@pytest.mark.parametrize("tokens", [5, 4, 1])
def test_meaning_does_not_depend_on_sizes_that_happen_to_agree(tokens: int) -> None:
    graph = parse("q @ (k.T @ v) + v @ (q.T @ k).T")
    q, k, v = inputs(shape=(2, 2, tokens, 5))
    np.testing.assert_allclose(
        compile_graph(graph)(q, k, v).detach().numpy(), oracle(graph, q, k, v), rtol=1e-5, atol=1e-5
    )


def test_products_run_in_their_cheapest_order_and_repeated_parts_once() -> None:
    steps = compile_graph(parse("(q @ k.T) @ v + relu((q @ k.T) @ v)")).steps
    assert [s.shape for s in steps if s.op == "matmul"] == ["dd", "Nd"]
    assert len(program(parse("relu(q) * relu(q)").root)) == 3
