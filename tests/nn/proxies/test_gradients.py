"""grad_norm, GraSP, jacob_cov and ZiCo against their definitions, computed anew in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.func import grad, jvp

from attnbench.nn.attention import FrameAttention
from attnbench.nn.backbones import BACKBONES, build_backbone, seeded
from attnbench.nn.operators import compile_graph
from attnbench.nn.proxies import passes
from attnbench.nn.proxies.grad_norm import grad_norm
from attnbench.nn.proxies.grasp import grasp
from attnbench.nn.proxies.jacob_cov import jacob_cov
from attnbench.nn.proxies.layers import layers_by_role
from attnbench.nn.proxies.passes import gradients, loss_gradients, standalone, weights_of
from attnbench.nn.proxies.snip import snip
from attnbench.nn.proxies.te_nas import te_nas
from attnbench.nn.proxies.zico import inverse_variation, zico
from attnbench.space.parse import parse
from tests.nn.proxies.models import MODELS, model_of, shape_of
from tests.nn.proxies.plain import (
    FORMULAS,
    HEADS,
    SMALL,
    WEIGHTS,
    gradients_of,
    plain_logits,
    plain_loss,
    small_batch,
    small_model,
    state64,
)

EVERY = pytest.mark.parametrize("name", FORMULAS)


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-6)


def plain_gradients(name: str, images: torch.Tensor, labels: torch.Tensor) -> dict[str, np.ndarray]:
    weights = state64(small_model(FORMULAS[name]))
    return gradients_of(plain_loss(weights, images, labels, HEADS[name]), weights)


@EVERY
def test_grad_norm(name: str) -> None:
    images, labels = small_batch()
    expected = sum(np.linalg.norm(g.ravel()) for g in plain_gradients(name, images, labels).values())
    assert grad_norm(small_model(FORMULAS[name]), images, labels)["grad_norm"] == close(expected)


def hessian_product(name: str, images, labels, temperature: float, along: dict[str, torch.Tensor]):
    """The Hessian of the loss times `along`, by forward over reverse differentiation."""
    state = {key: value.detach() for key, value in state64(small_model(FORMULAS[name])).items()}
    weights = {key: state[key] for key in WEIGHTS}

    def loss(weights):
        return plain_loss(state | weights, images, labels, HEADS[name], temperature)

    return weights, jvp(grad(loss), (weights,), (along,))[1]


def along_gradient(name: str, images, labels, temperature: float) -> dict[str, torch.Tensor]:
    weights = state64(small_model(FORMULAS[name]))
    found = gradients_of(plain_loss(weights, images, labels, HEADS[name], temperature), weights)
    return {key: torch.from_numpy(value) for key, value in found.items()}


@EVERY
def test_grasp_is_minus_weights_times_hessian_times_gradient(name: str) -> None:
    images, labels = small_batch()
    g = along_gradient(name, images, labels, 200.0)
    weights, product = hessian_product(name, images, labels, 200.0, g)
    expected = -sum((weights[key] * product[key]).sum().item() for key in WEIGHTS)
    assert grasp(small_model(FORMULAS[name]), images, labels)["grasp"] == close(expected)


def test_grasp_as_in_tf_tas_takes_the_last_splits_gradient_and_every_splits_hessian() -> None:
    images, labels = small_batch()
    parts = [(images[:2], labels[:2]), (images[2:4], labels[2:4]), (images[4:], labels[4:])]
    g = along_gradient("softmax", *parts[-1], 1.0)
    expected = 0.0
    for part in parts:
        weights, product = hessian_product("softmax", *part, 1.0, g)
        expected -= sum((weights[key] * product[key]).sum().item() for key in WEIGHTS)
    found = grasp(small_model(FORMULAS["softmax"]), images, labels, temperature=1.0, last_split_of=3)
    assert found["grasp"] == close(expected)


@pytest.mark.parametrize("n", [0, 7])
def test_grasp_refuses_splits_without_images(n: int) -> None:
    with pytest.raises(ValueError, match=f"6 images do not split into {n} parts; pass 1 up to 6"):
        grasp(small_model("v"), *small_batch(), last_split_of=n)


@EVERY
def test_jacob_cov(name: str) -> None:
    images, _ = small_batch()
    weights = state64(small_model(FORMULAS[name]))
    jacobian = []
    for image in images:
        pixels = image.double().requires_grad_()
        plain_logits(weights, pixels, HEADS[name], []).sum().backward()
        jacobian.append(pixels.grad.numpy().ravel())
    found = jacob_cov(small_model(FORMULAS[name]), images)["jacob_cov"]
    if not np.any(jacobian):  # nothing takes the patches to the class token
        assert name == "v"
        assert math.isnan(found)
    else:
        eigenvalues, _ = np.linalg.eig(np.corrcoef(np.stack(jacobian)))
        assert found == close(-sum(math.log(v + 1e-5) + 1 / (v + 1e-5) for v in eigenvalues.real.tolist()))


def plain_zico(name: str, parts, spread_of: str) -> float:
    grads = [plain_gradients(name, *part) for part in parts]
    total = 0.0
    for key in WEIGHTS:
        inner = 0.0
        for values in zip(*(found[key].ravel().tolist() for found in grads), strict=True):
            mean = sum(map(abs, values)) / len(values)
            spread = np.std([abs(v) for v in values] if spread_of == "magnitudes" else values)
            inner += mean / spread if spread > 1e-12 * mean else 0.0
        total += math.log(inner) if inner else 0.0
    return total


@EVERY
def test_zico_over_two_batches(name: str) -> None:
    images, labels = small_batch()
    expected = plain_zico(name, [(images[:3], labels[:3]), (images[3:], labels[3:])], "magnitudes")
    assert zico(small_model(FORMULAS[name]), images, labels)["zico"] == close(expected)


def test_options_of_zico() -> None:
    images, labels = small_batch()
    model = small_model(FORMULAS["l2norm"])
    parts = [(images[i : i + 2], labels[i : i + 2]) for i in (0, 2, 4)]
    for spread_of in ("magnitudes", "gradients"):
        expected = plain_zico("l2norm", parts, spread_of)
        assert zico(model, images, labels, n_batches=3, spread_of=spread_of)["zico"] == close(expected)
    grads = plain_gradients("l2norm", images, labels).values()
    expected = math.log(sum(abs(g.mean()) / (g.std(ddof=1) + 1e-9) for g in grads))
    assert zico(model, images, labels, single_batch=True)["zico"] == close(expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_zico_leaves_out_what_varies_by_rounding_alone(dtype: torch.dtype) -> None:
    eps = torch.finfo(dtype).eps
    grads = torch.tensor([[0.5, -2.0, 0.0, 0.3], [0.5 + eps, 4.0, 0.0, 0.3]], dtype=dtype)
    assert inverse_variation(grads, "magnitudes") == pytest.approx(3 / 1)
    assert inverse_variation(grads, "gradients") == pytest.approx(3 / 3)
    images, labels = small_batch(3)
    assert zico(small_model("v"), images.repeat(2, 1, 1, 1), labels.repeat(2))["zico"] == 0


@pytest.mark.parametrize("n", [0, 1, 7])
def test_zico_refuses_fewer_than_two_batches_and_batches_without_images(n: int) -> None:
    with pytest.raises(ValueError, match=f"6 images in {n} batches have no spread between batches; pass 2 up to 6"):
        zico(small_model("v"), *small_batch(), n_batches=n)


@pytest.mark.parametrize("kind", MODELS)
def test_every_counted_layer_has_a_gradient_of_the_loss(kind: str) -> None:
    net = standalone(model_of(kind))
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4, *shape_of(kind), generator=generator)
    found = loss_gradients(net, weights_of(net), images, torch.arange(4))
    names = {layer: name for name, layer in net.named_modules()}
    layers = [layer for group in layers_by_role(net).values() for layer in group]
    assert [names[layer] for layer, g in zip(layers, found, strict=True) if not g.abs().sum() > 0] == []


@pytest.mark.parametrize("backbone", BACKBONES)
def test_only_the_last_convolution_has_none_where_a_class_token_is_classified(backbone: str) -> None:
    """The frame's convolution is of patches, which the class token sees in the next block at the earliest."""
    net = standalone(build_backbone(backbone, compile_graph(parse(FORMULAS["softmax"])), 0))
    images = torch.randn(4, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    found = loss_gradients(net, weights_of(net), images, torch.arange(4))
    layers = [layer for group in layers_by_role(net).values() for layer in group]
    without = [layer for layer, g in zip(layers, found, strict=True) if not g.abs().sum() > 0]
    frames = [module for module in net.modules() if isinstance(module, FrameAttention)]
    assert without == [frames[-1].local]


def test_a_batch_in_chunks_scores_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(FORMULAS["softmax"])
    images, labels = small_batch()
    inputs = [(snip, images, labels), (grad_norm, images, labels), (grasp, images, labels)]
    inputs += [(zico, images, labels), (jacob_cov, images), (te_nas, images)]
    whole = [function(model, *batch) for function, *batch in inputs]
    sizes = []
    monkeypatch.setattr(passes, "PIXELS_AT_ONCE", 4 * images[0].numel())
    model.register_forward_pre_hook(lambda _, passed: sizes.append(len(passed[0])))
    for (function, *batch), expected in zip(inputs, whole, strict=True):
        assert function(model, *batch) == pytest.approx(expected, rel=1e-8)
    assert set(sizes) == {2, 3, 4}


@pytest.mark.parametrize("function", [snip, grad_norm, grasp, zico])
def test_gradients_that_are_not_finite_are_an_outcome_where_the_output_is(function) -> None:
    model = seeded(0, lambda: SMALL.build(lambda q, k, v: torch.sqrt(q - q) + v))
    images, labels = small_batch()
    assert model(images).isfinite().all()
    assert all(math.isnan(value) for value in function(model, images, labels).values())


def test_gradients_of_gradients_exist_only_where_asked_for() -> None:
    w = torch.tensor(3.0, requires_grad=True)
    assert not gradients(w**3, [w])[0].requires_grad
    (first,) = gradients(w**3, [w], again=True)
    assert gradients(first, [w])[0] == 18
