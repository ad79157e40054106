"""What the proxies share: roles of layers, the copy, the linearised pass, gradients, nuclear norms."""

from __future__ import annotations

import math

import pytest
import torch
from timm.layers import PatchEmbed
from torch import nn

from attnbench.nn.backbones import BACKBONES, build_backbone
from attnbench.nn.cost import image_shape
from attnbench.nn.operators import compile_graph
from attnbench.nn.proxies.dss import REPORTED, dss, nuclear_norms
from attnbench.nn.proxies.layers import ROLES, layers_by_role
from attnbench.nn.proxies.passes import gradients, linearise, ones_output, standalone
from attnbench.nn.proxies.synflow import synflow
from attnbench.space.parse import parse
from tests.nn.proxies.plain import FORMULAS, SHAPE, SMALL, small_model


def test_every_layer_has_its_role() -> None:
    model = small_model("v")
    names = {module: name for name, module in model.named_modules()}
    found = {role: [names[layer] for layer in layers] for role, layers in layers_by_role(model).items()}
    assert found == {
        "patch": ["patch_embed.proj"],
        "qkv": ["blocks.0.attn.qkv", "blocks.1.attn.qkv"],
        "local": ["blocks.0.attn.local", "blocks.1.attn.local"],
        "proj": ["blocks.0.attn.proj", "blocks.1.attn.proj"],
        "mlp": ["blocks.0.mlp.fc1", "blocks.0.mlp.fc2", "blocks.1.mlp.fc1", "blocks.1.mlp.fc2"],
        "head": ["head"],
    }


def test_a_square_layer_and_a_layer_as_wide_as_the_head_keep_their_roles() -> None:
    model = small_model("v")
    model.blocks[0].mlp.fc1 = nn.Linear(SMALL.width, SMALL.width)
    model.blocks[0].mlp.fc2 = nn.Linear(SMALL.width, SMALL.n_classes)
    assert model.blocks[0].mlp.fc1 in layers_by_role(model)["mlp"]
    assert len(layers_by_role(model)["head"]) == 1


def test_a_layer_without_a_role_is_refused_by_name() -> None:
    model = small_model("v")
    model.blocks[1].extra = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"layer 'blocks\.1\.extra' of VisionTransformer has no role among patch, qkv"):
        layers_by_role(model)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_counted_layer_of_a_backbone_has_a_gradient(backbone: str) -> None:
    net = standalone(build_backbone(backbone, compile_graph(parse(FORMULAS["softmax"])), seed=0))
    linearise(net)
    layers = [(role, layer) for role, layers in layers_by_role(net).items() if role in REPORTED for layer in layers]
    found = gradients(ones_output(net, image_shape(backbone)), [layer.weight for _, layer in layers])
    assert {role for role, _ in layers} == set(REPORTED) == set(ROLES) - {"local"}
    assert all(grad.abs().sum() > 0 for grad in found)
    roles = [grad.chunk(3) for (role, _), grad in zip(layers, found, strict=True) if role == "qkv"]
    assert all(part.abs().sum() > 0 for parts in roles for part in parts)


@pytest.mark.parametrize("function", [dss, synflow])
def test_all_weights_are_at_least_zero_while_the_linearised_pass_runs(function) -> None:
    model = small_model(FORMULAS["softmax"])
    assert all((layer.weight < 0).any() for layers in layers_by_role(model).values() for layer in layers)
    passes = []

    def watch(module: nn.Module, inputs: tuple[torch.Tensor]) -> None:
        passes.append(module)
        assert module is not model
        assert not module.training
        assert inputs[0].eq(1).all()
        assert all(value.ge(0).all() for value in module.state_dict().values())
        assert all(p.is_leaf and p.requires_grad and p.dtype == torch.float64 for p in module.parameters())

    model.register_forward_pre_hook(watch)
    function(model, SHAPE)
    assert len(passes) == 1


def test_a_copy_shares_no_memory_with_parameters_that_are_views_of_one_buffer() -> None:
    model = small_model("v").double()
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    start = 0
    for parameter in model.parameters():
        parameter.data = flat[start : (start := start + parameter.numel())].view_as(parameter)
    before = flat.clone()
    linearise(standalone(model))
    assert torch.equal(flat, before)


@pytest.mark.parametrize(
    ("formula", "silent"),
    [
        ("zeros(v)", "qkv"),  # the depthwise convolution uses v, but on patches, and nothing takes them to the class
        ("q", "kv"),
        ("l2norm(k)", "qv"),
        ("v", "qk"),
        ("sign(q) * softmax(v)", "qk"),
        ("zeros(q) + mean(v, axis=-2)", "qk"),
        ("q @ (k.T @ v)", ""),
    ],
)
def test_what_no_gradient_reaches_counts_zero(formula: str, silent: str) -> None:
    net = standalone(small_model(formula))
    linearise(net)
    found = gradients(ones_output(net, SHAPE), [layer.weight for layer in layers_by_role(net)["qkv"]])
    parts = dict(zip("qkv", found[0].chunk(3), strict=True))
    assert {name for name, part in parts.items() if not part.any()} == set(silent)


def test_a_head_that_hears_nothing_of_the_attention_scores_its_part_zero() -> None:
    model = small_model(FORMULAS["softmax"])
    for block in model.blocks:
        block.attn.proj.weight.data.zero_()
    found = dss(model, SHAPE)
    assert found["dss.qkv"] == found["dss.proj"] == 0
    assert found["dss"] == found["dss.mlp"] > 0


def test_nuclear_norms_of_mixed_shapes_and_of_matrices_that_are_not_finite() -> None:
    generator = torch.Generator().manual_seed(0)
    matrices = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((3, 5), (4, 4), (3, 5))]
    expected = [torch.linalg.svd(matrix).S.sum().item() for matrix in matrices]
    bad = [torch.full((4, 4), value, dtype=torch.float64) for value in (math.nan, -math.inf)]
    norms = nuclear_norms([matrices[0], bad[0], *matrices[1:], bad[1], torch.zeros(2, 2)])
    assert [norms[0], *norms[2:4]] == pytest.approx(expected)
    assert math.isnan(norms[1])
    assert math.isnan(norms[4])
    assert norms[5] == 0


def test_patch_embedding_is_timms() -> None:
    assert isinstance(small_model("v").patch_embed, PatchEmbed)
