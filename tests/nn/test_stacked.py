"""Seeds trained in one stack measure what each measures alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace

import pytest
import torch
from torch import Tensor

from attnbench.nn import stacked as stacking
from attnbench.nn.data import Split, Splits
from attnbench.nn.operators import compile_graph
from attnbench.nn.protocol import protocol
from attnbench.nn.stacked import Stack, train_stacked
from attnbench.nn.train import RunOutcome, train_run
from attnbench.space.parse import parse

GRAPHS = {
    "softmax": "softmax(scale(q @ k.T)) @ v",
    "grid cell": "q * l2norm(l2norm(elu1(q)) @ softmax(relu(k).T @ v))",
    "statistics of a sample": "q * l2norm(l2norm(q) @ standardize(minmax(v).T @ elu1(k)))",
    "statistics of a batch": "batchnorm(softmax(q)) @ (softmax(k, axis=-2).T @ v)",
}
# An epoch is one step, so that the curves hold the losses of every step.
ONE_STEP = replace(protocol("fmnist-micro"), epochs=5, batch_size=50, floor_top1_percent=0.0)
SEEDS = (0, 7)


@pytest.fixture(scope="module")
def data() -> Splits:
    def split(n: int, seed: int) -> Split:
        labels = torch.arange(n) % 10
        images = torch.randn(n, 1, 28, 28, generator=torch.Generator().manual_seed(seed))
        images[torch.arange(n), 0, labels] += 6.0  # class c has a bright row c
        return Split(images, labels)

    return Splits(train=split(50, 0), val=split(30, 1), test=split(30, 2))


def assert_alike(stacked: RunOutcome, alone: RunOutcome) -> None:
    assert stacked.status == alone.status
    for name, value in asdict(alone).items():
        if "loss" in name:
            assert getattr(stacked, name) == pytest.approx(value, abs=1e-4), name
        elif name != "train_seconds":
            assert getattr(stacked, name) == value, name


@pytest.mark.parametrize(
    ("text", "backbone"),
    [*((text, "deit") for text in GRAPHS.values()), *((text, "pvt") for text in list(GRAPHS.values())[:3])],
)
def test_losses_of_every_step_are_those_of_unstacked_runs(data: Splits, text: str, backbone: str) -> None:
    stacked = train_stacked(compile_graph(parse(text)), backbone, ONE_STEP, SEEDS, data)
    for seed, run in zip(SEEDS, stacked, strict=True):
        assert_alike(run, train_run(compile_graph(parse(text)), backbone, ONE_STEP, seed, data))
        assert len(run.train_loss_curve) == 5
    assert stacked[0].train_loss_curve != stacked[1].train_loss_curve


def test_epochs_of_several_steps_of_which_the_last_is_smaller(data: Splits) -> None:
    graph, recipe = compile_graph(parse(GRAPHS["grid cell"])), replace(ONE_STEP, epochs=2, batch_size=20)
    for seed, run in zip(SEEDS, train_stacked(graph, "deit", recipe, SEEDS, data), strict=True):
        assert_alike(run, train_run(graph, "deit", recipe, seed, data))
        assert run.train_seconds > 0


def softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v


def breaking_above(limit: float) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Softmax attention that is not finite once a value exceeds the limit."""
    return lambda q, k, v: softmax(q, k, v) * torch.where(v.amax() > limit, math.nan, 1.0)


def test_a_seed_that_diverges_leaves_the_others_as_they_are(data: Splits) -> None:
    recipe = replace(ONE_STEP, learning_rate=0.02)
    highest = {}
    for seed in SEEDS:
        seen: list[float] = []
        train_run(
            lambda q, k, v, seen=seen: (seen.append(v.max().item()), softmax(q, k, v))[1], "deit", recipe, seed, data
        )
        highest[seed] = max(seen)
    graph = breaking_above(sum(highest.values()) / 2)
    runs = dict(zip(SEEDS, train_stacked(graph, "deit", recipe, SEEDS, data), strict=True))
    for seed, run in runs.items():
        assert_alike(run, train_run(graph, "deit", recipe, seed, data))
    low, high = sorted(SEEDS, key=lambda seed: highest[seed])
    assert (runs[low].status, runs[high].status) == ("ok", "diverged")
    assert runs[high].val_top1_percent is runs[high].val_loss is runs[high].test_loss is None
    assert 0 < len(runs[high].val_curve) < recipe.epochs


def test_a_seed_under_the_floor_is_stopped_and_the_others_go_on(data: Splits) -> None:
    free = train_stacked(softmax, "deit", ONE_STEP, SEEDS, data)
    accuracies = [run.val_curve[1] for run in free]
    recipe = replace(ONE_STEP, floor_epoch=2, floor_top1_percent=sum(accuracies) / 2)
    for seed, run, accuracy in zip(SEEDS, train_stacked(softmax, "deit", recipe, SEEDS, data), accuracies, strict=True):
        assert_alike(run, train_run(softmax, "deit", recipe, seed, data))
        assert run.status == ("stopped" if accuracy == min(accuracies) else "ok")


def test_when_every_seed_is_stopped_the_test_images_are_not_read(data: Splits, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = replace(ONE_STEP, floor_epoch=2, floor_top1_percent=101.0)
    seen: list[Split] = []
    evaluate = Stack.evaluate
    monkeypatch.setattr(
        Stack, "evaluate", lambda stack, split, batch: (seen.append(split), evaluate(stack, split, batch))[1]
    )
    runs = train_stacked(softmax, "deit", recipe, SEEDS, data)
    assert [run.status for run in runs] == ["stopped", "stopped"]
    assert [len(run.val_curve) for run in runs] == [2, 2]
    assert len(seen) == 2
    assert all(split.images.data_ptr() == data.val.images.data_ptr() for split in seen)


def test_weights_that_the_last_step_broke_are_found_by_evaluation(
    data: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacking.Stack, "evaluate", lambda stack, split, batch: [(10.0, math.nan), (10.0, 1.0)])
    runs = train_stacked(softmax, "deit", replace(ONE_STEP, epochs=2), SEEDS, data)
    assert [run.status for run in runs] == ["diverged", "ok"]
    assert (runs[0].val_curve, runs[1].val_curve) == ((), (10.0, 10.0))


def test_global_randomness_is_left_alone(data: Splits) -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    train_stacked(softmax, "deit", replace(ONE_STEP, epochs=1), SEEDS, data)
    assert torch.equal(torch.get_rng_state(), state)


def test_cuda_graphs_need_cuda(data: Splits) -> None:
    with pytest.raises(
        ValueError, match=r"CUDA graphs need a CUDA device; the device is 'cpu'. Pass cuda_graphs=False"
    ):
        train_stacked(softmax, "deit", ONE_STEP, SEEDS, data, cuda_graphs=True)


@pytest.mark.gpu
@pytest.mark.parametrize("cuda_graphs", [False, True])
def test_a_gpu_measures_what_the_cpu_does(data: Splits, cuda_graphs: bool) -> None:
    text = GRAPHS["statistics of a sample"]
    torch.backends.cudnn.allow_tf32 = False
    runs = train_stacked(
        compile_graph(parse(text)), "deit", ONE_STEP, SEEDS, data, device="cuda", cuda_graphs=cuda_graphs
    )
    for seed, run in zip(SEEDS, runs, strict=True):
        alone = train_run(compile_graph(parse(text)), "deit", ONE_STEP, seed, data)
        assert_alike(replace(run, device="cpu"), alone)
