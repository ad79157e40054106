"""The trainer: its recipe, its stops, its reproducibility."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from attnbench.nn import train as trainer
from attnbench.nn.backbones import BACKBONES, backbone_config, build_backbone
from attnbench.nn.data import Split, Splits
from attnbench.nn.full import FULL
from attnbench.nn.protocol import protocol
from attnbench.nn.subnet import network
from attnbench.nn.train import FlatAdamW, decays, epoch_batches, evaluate, learning_rate, train_run
from attnbench.space.subnet_named import SPACES

RECIPE = replace(protocol("fmnist-micro"), epochs=3, batch_size=20)


def softmax(q, k, v):
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v


def random_split(n, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 10
    images = torch.randn(n, 1, 28, 28, generator=generator)
    images[torch.arange(n), 0, labels] += 6.0  # class c has a bright row c: learned within a few steps
    return Split(images, labels)


@pytest.fixture(scope="module")
def data():
    return Splits(train=random_split(400, 0), val=random_split(100, 1), test=random_split(100, 2))


def test_a_finished_run_learns_and_has_every_measurement(data):
    run = train_run(softmax, "deit", RECIPE, 0, data)
    assert run.status == "ok"
    assert len(run.val_curve) == len(run.val_loss_curve) == len(run.train_loss_curve) == RECIPE.epochs
    assert run.val_top1_percent == run.val_curve[-1] > 60
    assert run.val_loss == run.val_loss_curve[-1] < run.val_loss_curve[0]
    assert run.train_loss_curve[-1] < run.train_loss_curve[0]
    assert run.test_top1_percent > 60
    assert math.isfinite(run.test_loss)
    assert run.train_seconds > 0
    assert (run.device, run.torch_version) == ("cpu", torch.__version__)


def test_a_run_depends_on_its_seed_and_nothing_else(data):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = train_run(softmax, "deit", RECIPE, 3, data)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    again = train_run(softmax, "deit", RECIPE, 3, data)
    other = train_run(softmax, "deit", RECIPE, 4, data)
    assert first.train_loss_curve == again.train_loss_curve
    assert first.train_loss_curve != other.train_loss_curve


def test_initial_weights_are_the_same_for_every_graph():
    one, two = (build_backbone("deit", graph, 5).state_dict() for graph in (softmax, lambda q, k, v: v))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_graph_that_does_not_mix_tokens_is_stopped_and_never_sees_the_test_images(data):
    images = torch.full_like(data.test.images, math.nan)
    run = train_run(lambda q, k, v: v, "deit", RECIPE, 0, replace(data, test=Split(images, data.test.labels)))
    assert run.status == "stopped"
    assert len(run.val_curve) == RECIPE.floor_epoch
    assert run.val_top1_percent == run.val_curve[-1] < RECIPE.floor_top1_percent
    assert run.test_top1_percent is None
    assert run.test_loss is None


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_the_run(data, bad):
    calls = []

    def graph(q, k, v):
        calls.append(1)
        return softmax(q, k, v) * (bad if len(calls) > 3 * 20 + 3 * 1 + 3 * 2 else 1.0)  # in the second epoch

    run = train_run(graph, "deit", RECIPE, 0, data)
    assert run.status == "diverged"
    assert len(run.val_curve) == 1
    assert run.val_top1_percent is run.val_loss is run.test_top1_percent is run.test_loss is None


def test_weights_that_the_last_step_broke_are_found_by_evaluation(data, monkeypatch):
    monkeypatch.setattr(trainer, "evaluate", lambda model, split: (10.0, math.nan))
    assert train_run(softmax, "deit", RECIPE, 0, data).status == "diverged"


def test_the_flat_optimiser_is_adamw_with_clipping(data):
    flat, plain = (build_backbone("deit", softmax, 0).double() for _ in range(2))
    recipe = replace(RECIPE, clip_norm=0.5)
    groups = [
        {"params": [p for n, p in plain.named_parameters() if decays(n, p)], "weight_decay": recipe.weight_decay},
        {"params": [p for n, p in plain.named_parameters() if not decays(n, p)], "weight_decay": 0.0},
    ]
    optimiser, flat_optimiser = torch.optim.AdamW(groups, betas=recipe.betas, eps=recipe.eps), FlatAdamW(flat, recipe)
    for step in range(5):
        batch = slice(20 * step, 20 * step + 20)
        images, labels = data.train.images[batch].double(), data.train.labels[batch]
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(recipe, step, 60)
        optimiser.zero_grad()
        functional.cross_entropy(plain(images), labels).backward()
        nn.utils.clip_grad_norm_(plain.parameters(), recipe.clip_norm)
        optimiser.step()
        functional.cross_entropy(flat(images), labels).backward()
        flat_optimiser.step(learning_rate(recipe, step, 60))
    for one, two in zip(plain.parameters(), flat.parameters(), strict=True):
        torch.testing.assert_close(one, two)  # in double: Adam blows rounding up where a gradient is 0


def test_only_matrices_and_filters_decay():
    spared = {name for name, p in build_backbone("deit", softmax, 0).named_parameters() if not decays(name, p)}
    assert {"cls_token", "pos_embed", "head.bias", "fc_norm.weight", "blocks.0.attn.local.bias"} <= spared
    assert not spared & {"head.weight", "patch_embed.proj.weight", "blocks.2.attn.local.weight"}


SUBNETS = {name: (space.largest, space.frame) for name, space in SPACES.items()}


@pytest.mark.parametrize("name", [*BACKBONES, *FULL, "swin, softmax", *SUBNETS])
def test_exactly_the_weights_of_layers_decay(name):
    with torch.device("meta"):
        if name in SUBNETS:
            model = network(*SUBNETS[name])
        elif name == "swin, softmax":
            model = replace(backbone_config("swin"), searched="BA").build(softmax)
        else:
            model = backbone_config(name).build(softmax)
    modules = model.named_modules()
    weights = {f"{place}.weight" for place, module in modules if isinstance(module, (nn.Linear, nn.Conv2d))}
    assert {place for place, parameter in model.named_parameters() if decays(place, parameter)} == weights


def test_the_learning_rate_warms_up_and_falls_to_zero():
    rates = [learning_rate(RECIPE, step, 1000) for step in range(1000)]
    assert rates[0] == pytest.approx(3e-5)
    assert max(rates) == rates[99] == pytest.approx(3e-3)
    assert rates[550] == pytest.approx(1.5e-3)
    assert 0 < rates[-1] < 1e-7


def test_an_epoch_holds_every_image_once_and_flips_about_half(data):
    generator = torch.Generator().manual_seed(0)
    batches = list(epoch_batches(data.train, RECIPE, generator))
    seen = torch.cat([images for images, _ in batches])
    labels = torch.cat([labels for _, labels in batches])
    assert len(batches) == 20
    same, mirrored = (
        (seen.flatten(1)[:, None] == images.flatten(1)).all(-1)
        for images in (data.train.images, data.train.images.flip(-1))
    )
    assert (same | mirrored).sum(0).eq(1).all()
    assert 150 < mirrored.sum() < 250
    assert torch.equal(data.train.labels[(same | mirrored).int().argmax(1)], labels)
    assert not torch.equal(seen, torch.cat([images for images, _ in epoch_batches(data.train, RECIPE, generator)]))


def test_evaluation_weighs_every_image_alike():
    logits = torch.randn(len(labels := torch.arange(610) % 10), 10)

    class Lookup(nn.Module):
        def forward(self, images):
            return logits[images[:, 0, 0, 0].long()]

    images = torch.arange(610.0).view(-1, 1, 1, 1)
    top1, loss = evaluate(Lookup(), Split(images, labels))
    assert top1 == pytest.approx(100 * (logits.argmax(1) == labels).float().mean().item())
    assert loss == pytest.approx(functional.cross_entropy(logits, labels).item(), rel=1e-5)
