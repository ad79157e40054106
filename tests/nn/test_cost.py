"""Costs of a graph in a backbone: by formula as torch counts, and by hand."""

from __future__ import annotations

import pytest
import torch

from attnbench.nn.backbones import BACKBONES, build_backbone
from attnbench.nn.cost import attentions, count_macs, count_params, graph_macs, image_shape, step_ms
from attnbench.nn.operators import compile_graph
from attnbench.nn.protocol import protocol
from attnbench.space.named import named_graphs
from attnbench.space.parse import parse

FORMULAS = sorted({graph.text for graph in named_graphs().values()})


@pytest.mark.parametrize("backbone", sorted(BACKBONES))
@pytest.mark.parametrize("formula", FORMULAS)
def test_macs_by_formula_are_those_that_torch_counts(formula: str, backbone: str) -> None:
    graph = parse(formula)
    model = build_backbone(backbone, compile_graph(graph), seed=0)
    assert graph_macs(graph, backbone) == count_macs(model, image_shape(backbone))


def test_macs_and_parameters_of_deit_by_hand() -> None:
    tokens, width, blocks = 17, 32, 3
    linear = tokens * width * (3 * width + width + 2 * width + 2 * width)
    depthwise = 16 * 9 * width
    around = 16 * 49 * width + blocks * (linear + depthwise) + width * 10
    softmax = blocks * 4 * 2 * tokens**2 * 8
    graph = parse("softmax(q @ k.T / sqrt(d)) @ v")
    assert graph_macs(parse("v"), "deit") == around
    assert graph_macs(graph, "deit") == around + softmax
    per_block = (4 * width + 4 * width) + (width + 1) * 3 * width + 10 * width + (width + 1) * width
    mlp = (width + 1) * 2 * width + (2 * width + 1) * width
    expected = 50 * width + width + tokens * width + blocks * (per_block - 4 * width + mlp) + 2 * width + 33 * 10
    assert count_params(build_backbone("deit", compile_graph(graph), seed=0)) == expected
    assert list(attentions(build_backbone("deit", compile_graph(graph), seed=0))) == [(4, 17, 8)] * 3


def test_step_time_is_positive_and_disturbs_no_random_state() -> None:
    before = torch.get_rng_state()
    assert step_ms(parse("v"), "deit", protocol("fmnist-micro"), n_steps=2, n_warmup=1) > 0
    assert torch.equal(before, torch.get_rng_state())
