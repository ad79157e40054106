"""What every micro backbone must do with every graph."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attnbench.nn.attention import FrameAttention
from attnbench.nn.backbones import BACKBONES, backbone_config, build_backbone
from attnbench.nn.cost import attentions, image_shape
from attnbench.nn.data import Split, Splits
from attnbench.nn.operators import compile_graph
from attnbench.nn.protocol import protocol
from attnbench.nn.proxies.layers import activations, layers_by_role
from attnbench.nn.train import train_run
from attnbench.space.named import named_graphs
from attnbench.space.parse import parse

SOFTMAX = "softmax(q @ k.T / sqrt(d)) @ v"
FORMULAS = sorted({graph.text for graph in named_graphs().values()})
STAGED = ("pvt", "swin", "cswin")


def model_of(backbone: str, formula: str = SOFTMAX, seed: int = 0) -> torch.nn.Module:
    return build_backbone(backbone, compile_graph(parse(formula)), seed)


def images_of(backbone: str, n: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, *image_shape(backbone), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_every_named_graph_runs_forward_and_backward(formula: str, backbone: str) -> None:
    model = model_of(backbone, formula)
    logits = model(images_of(backbone))
    assert logits.shape == (2, 10)
    assert logits.isfinite().all()
    torch.nn.functional.cross_entropy(logits, torch.tensor([3, 7])).backward()
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert all(grad.isfinite().all() for grad in grads)
    assert model.get_classifier().weight.grad.abs().sum() > 0


@pytest.mark.parametrize("backbone", STAGED)
def test_a_batchnorm_fits_the_attentions_of_every_stage(backbone: str) -> None:
    model = model_of(backbone, "batchnorm(q) @ (k.T @ v)")
    assert model(images_of(backbone)).isfinite().all()


@pytest.mark.parametrize("backbone", BACKBONES)
def test_weights_depend_on_the_seed_and_not_on_the_graph(backbone: str) -> None:
    one, two, other = model_of(backbone), model_of(backbone, "v"), model_of(backbone, seed=1)
    one, two, other = (dict(model.named_parameters()) for model in (one, two, other))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_the_first_weights_of_deit_are_those_of_the_table() -> None:
    assert sum(p.double().abs().sum().item() for p in model_of("deit").parameters()) == pytest.approx(
        902.5001, abs=1e-3
    )


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_sample_does_not_depend_on_the_others(backbone: str) -> None:
    model, images = model_of(backbone).double().eval(), images_of(backbone, 5).double()
    torch.testing.assert_close(model(images)[1:2], model(images[1:2]))


@pytest.mark.parametrize("backbone", BACKBONES)
def test_without_mixing_the_class_token_sees_no_image(backbone: str) -> None:
    images = images_of(backbone, 2)
    logits = {formula: model_of(backbone, formula)(images) for formula in ("v", SOFTMAX)}
    torch.testing.assert_close(logits["v"][0], logits["v"][1])
    assert not torch.allclose(logits[SOFTMAX][0], logits[SOFTMAX][1])


@pytest.mark.parametrize("backbone", STAGED)
def test_images_of_another_size_are_refused(backbone: str) -> None:
    with pytest.raises(ValueError, match=r"built for images of \(28, 28\), but got \(32, 28\); resize"):
        model_of(backbone)(torch.zeros(1, 1, 32, 28))


@pytest.mark.parametrize("backbone", STAGED)
def test_a_run_of_the_trainer_has_every_measurement(backbone: str) -> None:
    def split(n: int, seed: int) -> Split:
        return Split(images_of(backbone, n, seed), torch.arange(n) % 10)

    recipe = replace(protocol("fmnist-micro"), epochs=1, batch_size=20)
    run = train_run(
        compile_graph(parse(SOFTMAX)), backbone, recipe, 0, Splits(split(60, 0), split(20, 1), split(20, 2))
    )
    assert run.status == "ok"
    assert len(run.val_curve) == len(run.val_loss_curve) == len(run.train_loss_curve) == 1
    assert run.test_loss is not None


@pytest.mark.parametrize(
    ("backbone", "letters"),
    [(name, letters) for name in STAGED for letters in ("AB", "BA", "BB") if (name, letters[1]) != ("swin", "B")],
)
def test_stages_that_are_not_searched_keep_softmax(backbone: str, letters: str) -> None:
    config = replace(backbone_config(backbone), searched=letters)
    model = config.build(compile_graph(parse("v")))
    assert model(images_of(backbone)).isfinite().all()
    searched = [m for m in model.modules() if isinstance(m, FrameAttention) and m.graph_sizes()]
    assert len(searched) == sum(n for n, letter in zip(config.depths, letters, strict=True) if letter == "A")
    everywhere = backbone_config(backbone).build(compile_graph(parse("v")))
    assert {heads for heads, _, _ in attentions(model)} <= {heads for heads, _, _ in attentions(everywhere)}


@pytest.mark.parametrize(
    ("backbone", "sizes"),
    [
        ("deit", [(4, 17, 8)] * 3),
        ("pvt", [(2, 64, 8)] + [(4, 17, 8)] * 2),
        ("swin", [(4 * 2, 16, 8)] + [(4, 17, 8)] * 2),
        ("cswin", [(4 * 1, 16, 8)] * 2 + [(4, 17, 8)] * 2),
    ],
)
def test_sizes_of_the_searched_attentions(backbone: str, sizes: list[tuple[int, int, int]]) -> None:
    assert list(attentions(model_of(backbone))) == sizes


@pytest.mark.parametrize(
    ("backbone", "counts"),
    [
        ("pvt", {"patch": 2, "qkv": 3, "local": 3, "proj": 3, "mlp": 6, "head": 1}),
        ("swin", {"patch": 2, "qkv": 3, "local": 3, "proj": 3, "mlp": 6, "head": 1}),
        ("cswin", {"patch": 2, "qkv": 3, "local": 3, "proj": 3, "mlp": 6, "head": 1}),
    ],
)
def test_every_layer_has_its_role(backbone: str, counts: dict[str, int]) -> None:
    model = model_of(backbone)
    assert {role: len(layers) for role, layers in layers_by_role(model).items()} == counts
    assert len(activations(model)) == counts["mlp"] // 2
