"""Training of supernets: what a step leaves alone, that it learns, how it goes on, and what it refuses."""

import random
from dataclasses import replace
from itertools import islice

import pytest
import torch
from torch.nn import functional

from attnbench.errors import DataError, InvalidSubnet
from attnbench.nn.data import Split
from attnbench.nn.protocol import protocol
from attnbench.nn.supernet import SHARINGS, build_supernet
from attnbench.nn.supernet_adamw import SharedAdamW
from attnbench.nn.supernet_inherit import inherited
from attnbench.nn.supernet_train import fixed_set, hard_labels, sampled, train_supernet, training_step
from attnbench.nn.train import decays, evaluate
from attnbench.space.subnet_named import SPACES
from attnbench.space.subnet_sample import sample

MICRO = SPACES["autoformer-micro"]
# A supernet of few blocks is made and trained quickly.
SHALLOW = replace(MICRO, name="shallow", depths=(1, 2), embed_dims=(24, 36), heads=(2, 3), mlp_ratios=(1, 2))
DEEPER = replace(SHALLOW, depths=(1, 2, 3))
every_sharing = pytest.mark.parametrize("sharing", SHARINGS)


def random_split(n, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 10
    images = torch.randn(n, 1, 28, 28, generator=generator)
    images[torch.arange(n), 0, labels] += 6.0  # class c has a bright row c
    return Split(images, labels)


TRAIN, VAL = random_split(100, 0), random_split(50, 1)


def recipe(sharing, **changes):
    return replace(protocol(f"micro-{sharing}"), **{"epochs": 2, "batch_size": 25} | changes)


def batches(n):
    return islice(zip(TRAIN.images.split(25), TRAIN.labels.split(25), strict=True), n)


# The optimiser


@every_sharing
def test_a_step_leaves_what_is_outside_the_subnet_bit_for_bit(sharing):
    supernet = build_supernet(SHALLOW, 0, sharing=sharing)
    optimiser = SharedAdamW(supernet, recipe(sharing))
    for images, labels in batches(2):  # so that moments are there to go on
        training_step(optimiser, SHALLOW.largest, images, labels, 1e-2)
    subnet = replace(SHALLOW.smallest, embed_dim=36)
    before = {name: buffer.clone() for name, buffer in {"values": optimiser.values, **optimiser.state}.items()}
    images, labels = next(batches(1))
    training_step(optimiser, subnet, images, labels, 1e-2)
    inside = torch.zeros(len(optimiser.values), dtype=torch.bool)
    for owner, part in supernet.places(subnet).values():
        inside[optimiser.numbers[owner][part].flatten().long()] = True
    assert 0 < inside.sum() < len(inside)
    for name, buffer in {"values": optimiser.values, **optimiser.state}.items():
        assert torch.equal(buffer[~inside], before[name][~inside]), name
        assert (buffer[inside] != before[name][inside]).float().mean() > 0.9, name
    assert torch.equal(optimiser.counts[inside], before["counts"][inside] + 1)


def test_of_one_subnet_it_is_adamw_with_clipping():
    subnet = sample(SHALLOW, random.Random(3))
    ours = recipe("entangled", clip_norm=0.5)
    supernet = build_supernet(SHALLOW, 0).double()
    plain, optimiser = supernet.extract(subnet), SharedAdamW(supernet, ours)
    groups = [
        {"params": [p for n, p in plain.named_parameters() if decays(n, p)], "weight_decay": ours.weight_decay},
        {"params": [p for n, p in plain.named_parameters() if not decays(n, p)], "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(groups, lr=3e-3, betas=ours.betas, eps=ours.eps)
    for images, labels in batches(4):
        adamw.zero_grad()
        functional.cross_entropy(plain(images.double()), labels).backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), ours.clip_norm)
        adamw.step()
        training_step(optimiser, subnet, images.double(), labels, 3e-3)
    for name, weight in supernet.weights(subnet).items():
        torch.testing.assert_close(weight, dict(plain.named_parameters())[name])


def test_the_first_step_of_a_weight_is_a_whole_one_however_late_it_comes():
    optimiser = SharedAdamW(build_supernet(SHALLOW, 0), recipe("entangled", weight_decay=0.0))
    for images, labels in batches(4):
        training_step(optimiser, SHALLOW.smallest, images, labels, 1e-3)
    late, before = optimiser.counts == 0, optimiser.values.clone()
    images, labels = next(batches(1))
    training_step(optimiser, SHALLOW.largest, images, labels, 1e-3)
    moved = (optimiser.values - before)[late].abs()
    assert late.any()
    # Adam's first step is the learning rate, but where the gradient is not much above eps.
    assert moved.median().item() == pytest.approx(1e-3, rel=1e-2)
    assert moved.max().item() < 1.01e-3


# The loop


@every_sharing
def test_a_supernet_learns_and_logs_a_fixed_set(sharing):
    seen = []
    trained = train_supernet(
        SHALLOW,
        recipe(sharing, epochs=8, learning_rate=1e-2),
        0,
        TRAIN,
        VAL,
        on_epoch=lambda epoch: seen.append(epoch.number),
    )
    assert seen == [epoch.number for epoch in trained.log] == list(range(1, 9))
    assert trained.log[-1].train_loss < 0.8 * trained.log[0].train_loss
    assert list(trained.log[0].watched) == ["smallest", "largest", "random 0", "random 1", "random 2"]
    first, last = (trained.log[i].watched["largest"] for i in (0, -1))
    assert last[1] < first[1]
    assert trained.train_seconds > 0
    top1, loss = evaluate(trained.supernet.extract(SHALLOW.largest), VAL)
    assert last == pytest.approx((top1, loss), rel=1e-5)


def test_the_fixed_set_is_the_same_every_time():
    assert fixed_set(MICRO) == fixed_set(MICRO)
    assert len(set(fixed_set(MICRO).values())) == 5


def test_sampling_follows_seed_epoch_and_policy():
    def draw(n, **changes):
        seed, epoch = changes.pop("seed", 0), changes.pop("epoch", 1)
        return list(islice(sampled(MICRO, recipe("entangled", **changes), seed, epoch), n))

    assert draw(5) == draw(5)
    assert draw(5) != draw(5, seed=1)
    assert draw(5) != draw(5, epoch=2)
    assert draw(5) == list(islice(sampled(MICRO, recipe("classical"), 0, 1), 5))
    by_coordinate, by_subnet = (
        [sum(s.depth == depth for s in draw(600, sampling=policy)) for depth in MICRO.depths]
        for policy in ("coordinates", "subnets")
    )
    assert min(by_coordinate) > 150
    assert by_subnet[0] < 20
    assert by_subnet[2] > 480


def test_training_follows_its_seed():
    a, b, c = (
        train_supernet(SHALLOW, recipe("entangled", epochs=1), seed, TRAIN, VAL).supernet.state_dict()
        for seed in (0, 0, 1)
    )
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert any(not torch.equal(a[name], c[name]) for name in a)


def test_a_teacher_is_half_of_the_loss():
    asked = []

    def teacher(images):
        asked.append(torch.is_grad_enabled())
        return functional.one_hot(torch.full((len(images),), 3), 10).float()

    images, _ = next(batches(1))
    ones, threes = torch.ones(25, dtype=torch.long), torch.full((25,), 3)
    assert torch.equal(hard_labels(teacher, images), threes)
    optimiser = SharedAdamW(build_supernet(SHALLOW, 0), recipe("entangled"))
    logits = optimiser.supernet(images, SHALLOW.smallest)
    expected = (functional.cross_entropy(logits, ones) + functional.cross_entropy(logits, threes)) / 2
    losses = [training_step(optimiser, SHALLOW.smallest, images, ones, 1e-2, teacher) for _ in range(12)]
    assert losses[0] == pytest.approx(expected.item(), rel=1e-5)
    with torch.no_grad():
        chances = optimiser.supernet(images, SHALLOW.smallest).softmax(-1).mean(0)
    assert set(chances.topk(2).indices.tolist()) == {1, 3}  # the label and the teacher's are learned alike
    assert not any(asked)


# Going on


@every_sharing
def test_a_stopped_training_goes_on_as_if_it_had_not_stopped(tmp_path, sharing):
    whole = train_supernet(SHALLOW, recipe(sharing), 0, TRAIN, VAL)
    path = tmp_path / "made for it" / "supernet.pt"

    def stop(epoch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_supernet(SHALLOW, recipe(sharing), 0, TRAIN, VAL, checkpoint=path, on_epoch=stop)
    epochs = []
    for expected in ([2], []):
        again = train_supernet(SHALLOW, recipe(sharing), 0, TRAIN, VAL, checkpoint=path, on_epoch=epochs.append)
        assert [epoch.number for epoch in epochs] == expected
        assert again.log == whole.log
        assert again.train_seconds > 0
        found = again.supernet.state_dict()
        assert all(torch.equal(found[name], tensor) for name, tensor in whole.supernet.state_dict().items())
        epochs.clear()


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    path = tmp_path / "supernet.pt"
    train_supernet(SHALLOW, recipe("entangled", epochs=1), 0, TRAIN, VAL, checkpoint=path)
    for other, seed in (
        (recipe("classical", epochs=1), 0),
        (recipe("entangled"), 0),
        (recipe("entangled", epochs=1), 1),
    ):
        with pytest.raises(DataError, match=r"supernet\.pt is of the run .* not of .*Delete it to start this one"):
            train_supernet(SHALLOW, other, seed, TRAIN, VAL, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"supernet\.pt is no whole checkpoint"):
        train_supernet(SHALLOW, recipe("entangled", epochs=1), 0, TRAIN, VAL, checkpoint=path)


def test_a_loss_that_is_not_finite_is_named():
    broken = Split(torch.full_like(TRAIN.images, float("nan")), TRAIN.labels)
    with pytest.raises(
        FloatingPointError, match=r"micro-entangled on shallow, seed 0, is nan in step 0 \(epoch 1\), with autoformer"
    ):
        train_supernet(SHALLOW, recipe("entangled"), 0, broken, VAL)


# What subnets inherit


@every_sharing
def test_inherited_values_are_those_of_extracted_subnets(sharing):
    supernet = build_supernet(DEEPER, 0, sharing=sharing)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(1)
        for parameter in supernet.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    rng = random.Random(5)
    drawn = {sample(DEEPER, rng) for _ in range(8)} - {DEEPER.largest, DEEPER.smallest}
    subnets = [DEEPER.largest, *drawn, DEEPER.smallest]
    deepest = subnets[0]
    subnets += [replace(deepest, heads=deepest.heads[:n], mlp_ratios=deepest.mlp_ratios[:n]) for n in (1, 2)]
    found = inherited(supernet, [*subnets, DEEPER.largest], VAL)
    for subnet, values in zip(subnets, found, strict=False):
        assert values == pytest.approx(evaluate(supernet.extract(subnet), VAL), rel=1e-5)
    assert found[-1] == found[0]
    assert len({loss for _, loss in found}) == len(subnets)


def test_nothing_is_inherited_outside_the_space():
    outside = replace(SHALLOW.smallest, embed_dim=30)
    with pytest.raises(InvalidSubnet, match="embed_dim is 30"):
        inherited(build_supernet(SHALLOW, 0), [SHALLOW.smallest, outside], VAL)
    optimiser = SharedAdamW(build_supernet(SHALLOW, 0), recipe("entangled"))
    with pytest.raises(InvalidSubnet, match="embed_dim is 30"):
        optimiser.take(outside)
