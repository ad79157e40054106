"""DSS on every kind of model: what it counts, the linearised pass, fused and separate weights, the released form."""

from __future__ import annotations

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from attnbench.nn.data import Split
from attnbench.nn.proxies.dss import REPORTED, by_projection, dss
from attnbench.nn.proxies.layers import layers_by_role
from attnbench.nn.proxies.passes import gradients, linearise, ones_output, standalone
from attnbench.nn.proxies.score import score
from attnbench.nn.subnet import build_subnet
from attnbench.space.subnet import AutoFormerSubnet
from attnbench.space.subnet_cost import Frame
from tests.nn.proxies.models import MODELS, model_of, shape_of
from tests.nn.proxies.plain import FORMULAS, HEADS, SHAPE, plain_logits, small_model, state64
from tests.nn.proxies.test_values import MLP, PROJ, close, nuclear, saliency

EVERY_KIND = pytest.mark.parametrize("kind", MODELS)


@EVERY_KIND
def test_every_counted_layer_has_a_gradient(kind: str) -> None:
    net = standalone(model_of(kind))
    linearise(net)
    layers = layers_by_role(net)
    for role in REPORTED:
        found = list(gradients(ones_output(net, shape_of(kind)), [layer.weight for layer in layers[role]]))
        assert found
        for grad in by_projection(net, found, "per head") if role == "qkv" else found:
            assert grad.abs().sum() > 0


@EVERY_KIND
@pytest.mark.parametrize("form", ["paper", "released"])
def test_weights_in_the_pass(kind: str, form: str) -> None:
    model = model_of(kind)
    around = {"class_token", "cls_token", "dist_token", "positions", "pos_embed"}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.split(".")[-1] in around:
                parameter.sub_(0.01)
    passes: list[bool] = []

    def watch(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        assert module is not model
        assert inputs[0].eq(1).all()
        state = module.state_dict()
        assert form == "released" or all(value.ge(0).all() for value in state.values())
        assert all(value.ge(0).all() for name, value in state.items() if name.split(".")[-1] in around)
        signed = [(layer.weight < 0).any() for found in layers_by_role(module).values() for layer in found]
        passes.append(all(signed) if form == "released" else not any(signed))

    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.register_forward_pre_hook(watch)
    dss(model, shape_of(kind), form=form)  # type: ignore[arg-type]
    assert passes == [True]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@EVERY_KIND
def test_it_is_the_same_for_every_batch_and_random_state(kind: str) -> None:
    channels, rows, cols = shape_of(kind)
    found = []
    for seed in range(2):
        model = model_of(kind)
        torch.manual_seed(seed)
        batch = Split(torch.randn(4, channels, rows, cols), torch.randint(7, (4,)))
        found.append([one.value for one in score(model, shape_of(kind), batch=batch, names=["dss"])])
    assert found[0] == found[1]
    assert all(value is not None and value > 0 for value in found[0])
    other = score(model_of(kind, seed=1), shape_of(kind), names=["dss"])
    assert [one.value for one in other] != found[0]


@EVERY_KIND
def test_float32_is_close(kind: str) -> None:
    exact = dss(model_of(kind), shape_of(kind))
    assert dss(model_of(kind), shape_of(kind), dtype=torch.float32) == pytest.approx(exact, rel=1e-3)


def test_separate_and_fused_weights_of_one_function_score_alike() -> None:
    frame = Frame(24, 6, 6, n_channels=1, n_classes=5, max_distance=None, pooling="class")
    apart = build_subnet(AutoFormerSubnet(24, (3, 3), (2, 2), 8), frame, seed=0)
    fused = VisionTransformer(24, 6, 1, 5, embed_dim=24, depth=2, num_heads=3, mlp_ratio=2, norm_layer=nn.LayerNorm)
    with torch.no_grad():
        fused.cls_token.copy_(apart.class_token)
        fused.pos_embed.copy_(apart.positions)
        pairs = [(apart.patches.proj, fused.patch_embed.proj), (apart.head, fused.head)]
        for one, other in zip(apart.blocks, fused.blocks, strict=True):
            other.attn.qkv.weight.copy_(torch.cat((one.attn.q.weight, one.attn.k.weight, one.attn.v.weight)))
            pairs += [(one.attn.proj, other.attn.proj), (one.mlp, other.mlp)]
        for here, there in pairs:
            there.load_state_dict(here.state_dict())
    found = []
    for qkv in ("separate", "fused", "per head"):
        first, second = (dss(model, (1, 24, 24), qkv=qkv) for model in (apart, fused))
        assert first == pytest.approx(second, rel=1e-9)
        found.append(first["dss.qkv"])
    assert len(set(found)) == 3


@pytest.mark.parametrize("name", FORMULAS)
def test_the_released_form_counts_proj_and_mlps_of_signed_weights(name: str) -> None:
    model = small_model(FORMULAS[name])
    weights = state64(model)
    for part in ("cls_token", "pos_embed"):
        weights[part] = weights[part].detach().abs()
    plain_logits(weights, torch.ones(SHAPE), HEADS[name], []).sum().backward()
    grads = {key: value.grad for key, value in weights.items()}
    proj = sum(nuclear(grads[layer]) * nuclear(weights[layer]) for layer in PROJ)
    mlp = saliency(MLP, weights, grads)
    found = dss(model, SHAPE, form="released")
    assert found["dss.proj"] == close(proj)
    assert found["dss.mlp"] == close(mlp)
    assert found["dss"] == close(proj + mlp)
    assert found["dss.qkv"] == found["dss.patch"] == found["dss.head"] == 0
    assert found != dss(model, SHAPE)


def test_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown form 'seed' of dss; known: paper, released"):
        dss(small_model("v"), SHAPE, form="seed")  # type: ignore[arg-type]
