"""Roles of layers in every kind of model, and what is refused."""

from __future__ import annotations

import pytest
import timm
import torch
from torch import nn

from attnbench.nn.full import FULL
from attnbench.nn.operators import compile_graph
from attnbench.nn.proxies.layers import ROLES, activations, classifiers, layers_by_role, projections
from attnbench.space.parse import parse
from tests.nn.proxies.models import MODELS, TRIAL, model_of, timms

# patch, qkv, local, proj, mlp, head
COUNTS = {
    "deit": (1, 3, 1, 3, 6, 1),
    "pvt": (2, 5, 1, 3, 6, 1),  # the softmax blocks have q and kv
    "swin": (2, 3, 1, 3, 6, 1),
    "cswin": (2, 3, 3, 3, 6, 1),
    "pvt2": (2, 5, 5, 3, 6, 1),  # a convolution in every MLP, one in the frame, one that reduces keys and values
    "autoformer": (1, 6, 0, 2, 4, 1),
    "pit": (5, 9, 0, 3, 6, 1),  # two poolings with a convolution and a linear layer
    "timm vit": (1, 2, 0, 2, 4, 1),
    "timm deit, distilled": (1, 2, 0, 2, 4, 2),
    "timm swin": (2, 3, 0, 3, 6, 1),
    "timm pvt_v2": (4, 8, 7, 4, 8, 1),
    "timm twins": (4, 5, 4, 4, 8, 1),
    "timm pit": (5, 3, 0, 3, 6, 1),
}


def test_every_kind_has_its_counts() -> None:
    assert COUNTS.keys() == MODELS.keys()


@pytest.mark.parametrize("kind", MODELS)
def test_every_layer_has_one_role(kind: str) -> None:
    model = model_of(kind)
    layers = layers_by_role(model)
    assert tuple(layers) == ROLES
    assert {role: len(found) for role, found in layers.items()} == dict(zip(ROLES, COUNTS[kind], strict=True))
    every = [layer for found in layers.values() for layer in found]
    assert len(set(every)) == len(every)
    weighted = [module for module in model.modules() if isinstance(module, (nn.Linear, nn.Conv2d))]
    assert set(every) == set(weighted)
    order = {layer: place for place, layer in enumerate(weighted)}
    assert all(sorted(found, key=order.__getitem__) == found for found in layers.values())
    assert len(activations(model)) == len(layers["mlp"]) // 2


@pytest.mark.parametrize("kind", MODELS)
def test_q_k_and_v_are_three_matrices_of_as_many_rows(kind: str) -> None:
    for attention in projections(model_of(kind)):
        q, k, v = attention.split([layer.weight for layer in attention.inputs])
        assert q.shape == k.shape == v.shape
        assert len(q) == attention.proj.in_features
        assert len(q) % attention.n_heads == 0


@pytest.mark.parametrize("name", ["deit-base", "pvt-tiny", "swin-tiny"])
def test_full_sizes_have_roles(name: str) -> None:
    with torch.device("meta"):
        model = FULL[name].build(compile_graph(parse(TRIAL)))
    layers = layers_by_role(model)
    assert len(layers["proj"]) == len(projections(model)) == len(activations(model)) == len(layers["mlp"]) / 2
    assert layers["head"] == [model.get_classifier()]


@pytest.mark.parametrize(
    "name", ["deit3_small_patch16_224", "beit_base_patch16_224", "twins_pcpvt_small", "pvt_v2_b2_li"]
)
def test_further_models_of_timm_have_roles(name: str) -> None:
    with torch.device("meta"):
        layers = layers_by_role(timm.create_model(name))
    assert all(layers[role] for role in ("patch", "qkv", "proj", "mlp", "head"))


def test_size_does_not_decide_a_role() -> None:
    model = timms("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=24, depth=1, num_heads=3, mlp_ratio=1)
    (block,) = model.blocks
    block.mlp.fc2 = nn.Linear(24, 1000)  # neither a square MLP nor a thousand outputs
    model.head = nn.Linear(24, 24)
    layers = layers_by_role(model)
    assert layers["mlp"] == [block.mlp.fc1, block.mlp.fc2]
    assert layers["head"] == [model.head]


def test_a_model_without_classes_has_no_head() -> None:
    model = model_of("timm vit")
    model.reset_classifier(0)
    assert classifiers(model) == []


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("swinv2_tiny_window8_256", "'layers.0.blocks.0.attn.cpb_mlp.0' of SwinTransformerV2"),
        ("cait_xxs24_224", "'blocks.0.attn.proj_l' of Cait"),
        ("vit_base_r50_s16_224", "'patch_embed.backbone.stem.conv' of VisionTransformer"),
    ],
)
def test_a_layer_of_unknown_role_is_refused_by_name(name: str, layer: str) -> None:
    with torch.device("meta"):
        model = timm.create_model(name)
    with pytest.raises(ValueError, match=f"layer {layer} has no role among patch, qkv, .*; layers are expected in att"):
        layers_by_role(model)


@pytest.mark.parametrize("name", ["resnet18", "mixer_s32_224"])
def test_a_model_without_attention_is_refused(name: str) -> None:
    with torch.device("meta"):
        model = timm.create_model(name)
    for function in (layers_by_role, projections):
        with pytest.raises(ValueError, match=r"has no attention layers, modules with a linear proj .* pass a vision"):
            function(model)


def test_a_model_without_mlps_has_no_activations() -> None:
    with pytest.raises(
        ValueError, match="Linear has no MLP, a module with fc1, act and fc2; pass a vision transformer"
    ):
        activations(nn.Linear(2, 2))


def test_a_model_that_does_not_tell_its_classifier_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Sequential does not say which layer classifies; give it get_classifier\(\)"):
        layers_by_role(nn.Sequential(model_of("timm vit")))
