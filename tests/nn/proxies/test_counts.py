"""Parameters and multiply-adds of every kind of model: by formula, by hand, and as fvcore counts."""

from __future__ import annotations

import logging

import pytest
import timm
import torch
from torch import nn

from attnbench.nn.cost import count_macs, count_params
from attnbench.nn.subnet import build_subnet
from attnbench.space.subnet import Subnet
from attnbench.space.subnet_cost import subnet_cost
from attnbench.space.subnet_named import PUBLISHED_SUBNETS, SPACES
from tests.nn.proxies.models import MODELS, model_of, shape_of


def test_a_vit_of_timms_by_hand() -> None:
    with torch.device("meta"):
        model = timm.create_model("deit_tiny_patch16_224")
    tokens, width = 197, 192
    linear = tokens * (4 * width * width + 2 * width * 4 * width)
    products = 2 * tokens * tokens * width
    assert count_macs(model, (3, 224, 224)) == 196 * 768 * width + 12 * (linear + products) + width * 1000
    assert count_params(model) == 5_717_416  # as published


def cost_in(space: str, subnet: Subnet) -> tuple[int, int]:
    frame = SPACES[space].frame
    with torch.device("meta"):
        model = build_subnet(subnet, frame, seed=0)
    return count_params(model), count_macs(model, (frame.n_channels, frame.image_size, frame.image_size))


@pytest.mark.parametrize("space", ["autoformer-micro", "autoformer-tiny", "pit-micro", "pit-tiny"])
def test_subnets_cost_what_the_formula_says(space: str) -> None:
    subnet = SPACES[space].largest
    assert cost_in(space, subnet) == subnet_cost(subnet, SPACES[space].frame)


@pytest.mark.parametrize("name", ["AutoFormer-T", "TF-TAS-T"])
def test_published_subnets_cost_what_the_formula_says(name: str) -> None:
    row = PUBLISHED_SUBNETS[name]
    assert cost_in(row.space, row.subnet) == subnet_cost(row.subnet, SPACES[row.space].frame)


@pytest.mark.parametrize("kind", MODELS)
def test_a_fused_attention_counts_as_its_products(kind: str) -> None:
    model = model_of(kind)
    expected = count_macs(model, shape_of(kind))
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
    assert count_macs(model, shape_of(kind)) == expected


@pytest.mark.parametrize("kind", sorted(set(MODELS) - {"autoformer"}))  # it passes over einsums of relative positions
def test_fvcore_counts_the_same(kind: str) -> None:
    counting = pytest.importorskip("fvcore.nn")
    logging.getLogger("fvcore").setLevel(logging.ERROR)
    model = model_of(kind).eval()
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
    found = counting.FlopCountAnalysis(model, torch.zeros(1, *shape_of(kind))).unsupported_ops_warnings(False)
    by_operator = found.uncalled_modules_warnings(False).by_operator()
    products = sum(by_operator[name] for name in ("conv", "linear", "matmul", "bmm", "addmm", "einsum"))
    assert count_macs(model, shape_of(kind)) == products


class Products(nn.Module):
    """Every way to write a product, of sizes told by the weight (3, 5)."""

    def __init__(self, what: str):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 5))
        self.what = what

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        w, x = self.weight, images.flatten()[:5]
        batch = w.expand(2, 3, 5)
        queries = w.expand(1, 2, 3, 5)
        return {
            "matrix": lambda: w @ w.T,
            "batched": lambda: batch @ batch.mT,
            "einsum": lambda: torch.einsum("bnd,bmd->bnm", batch, batch),
            "vector": lambda: w @ x,
            "dot": lambda: x @ x,
            "fused": lambda: nn.functional.scaled_dot_product_attention(queries, queries, queries),
            "sum": lambda: (w * w).sum(),
        }[self.what]()


@pytest.mark.parametrize(
    ("what", "macs"),
    [
        ("matrix", 3 * 3 * 5),
        ("batched", 2 * 3 * 3 * 5),
        ("einsum", 2 * 3 * 3 * 5),
        ("vector", 3 * 5),
        ("dot", 5),
        ("fused", 2 * (3 * 3 * 5 + 3 * 3 * 5)),
        ("sum", 0),
    ],
)
def test_every_contraction_counts(what: str, macs: int) -> None:
    assert count_macs(Products(what), (1, 1, 5)) == macs


def test_counting_leaves_the_model_as_it_was() -> None:
    model = model_of("deit").requires_grad_(False)
    model.train()
    model.blocks[0].mlp.eval()
    flags = [module.training for module in model.modules()]
    count_macs(model, shape_of("deit"))
    assert [module.training for module in model.modules()] == flags
    assert count_params(model) == sum(parameter.numel() for parameter in model_of("deit").parameters()) > 0
    assert not any(parameter.requires_grad for parameter in model.parameters())
