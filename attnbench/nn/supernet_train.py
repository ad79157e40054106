"""Training of a supernet: a subnet a step, a log of a fixed set each epoch, and a checkpoint to go on from."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor
from torch.nn import functional

from attnbench.nn.checkpoint import load_checkpoint, save_checkpoint
from attnbench.nn.data import Split
from attnbench.nn.frozen import space_hash
from attnbench.nn.protocol import SupernetProtocol
from attnbench.nn.supernet import Supernet, build_supernet
from attnbench.nn.supernet_adamw import SharedAdamW
from attnbench.nn.supernet_inherit import inherited
from attnbench.nn.train import epoch_batches, learning_rate, to_device
from attnbench.space.subnet import AutoFormerSubnet
from attnbench.space.subnet_sample import sample
from attnbench.space.subnet_spaces import AutoFormerSpace

N_FIXED = 3
Teacher = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Epoch:
    """One epoch of a supernet: mean training loss of the sampled subnets, and what the fixed set inherits.

    watched: validation top-1 in percent and loss by name: "smallest", "largest", "random 0" and so on.
    """

    number: int
    train_loss: float
    watched: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class TrainedSupernet:
    """A supernet after its last epoch; `train_seconds` leaves evaluation out."""

    supernet: Supernet
    log: tuple[Epoch, ...]
    train_seconds: float


def fixed_set(space: AutoFormerSpace) -> dict[str, AutoFormerSubnet]:
    """The subnets whose inherited accuracy every log shows: the same in every run of a space."""
    rng = Random(f"fixed set of {space.name}")
    drawn = {f"random {i}": sample(space, rng) for i in range(N_FIXED)}
    return {"smallest": space.smallest, "largest": space.largest, **drawn}  # type: ignore[dict-item]


def sampled(space: AutoFormerSpace, recipe: SupernetProtocol, seed: int, epoch: int) -> Iterable[AutoFormerSubnet]:
    """The subnets of an epoch's steps, uniform as the recipe says; an epoch's do not depend on those before."""
    rng = Random(f"supernet seed {seed} epoch {epoch}")
    while True:
        yield sample(space, rng, uniform=recipe.sampling)  # type: ignore[misc]


def train_supernet(
    space: AutoFormerSpace,
    recipe: SupernetProtocol,
    seed: int,
    train: Split,
    val: Split,
    *,
    device: str = "cpu",
    teacher: Teacher | None = None,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], object] | None = None,
) -> TrainedSupernet:
    """Train a supernet by one subnet a step, each with the batch and the learning rate of its step.

    The seed fixes weights, order, flips and subnets, all drawn on the CPU, the same for every sharing and device.
    teacher: images to logits; its arg-max is then half of the loss, the labels the other half.
    checkpoint: a file that each epoch replaces, and from which a run that was stopped goes on, or, finished, returns
    at once. It holds no teacher's name: give each its own file.
    Raises: DataError (a checkpoint that is damaged or of another recipe, space or seed), FloatingPointError (a loss
    that is not finite), ValueError (a space that has no supernet).
    """
    supernet = build_supernet(space, seed, sharing=recipe.sharing).to(device)
    optimiser = SharedAdamW(supernet, recipe)
    train, val, fixed = to_device(train, device), to_device(val, device), fixed_set(space)
    steps_per_epoch = math.ceil(len(train) / recipe.batch_size)
    identity: dict[str, str | int] = {"protocol_hash": space_hash(recipe, space), "space": space.name, "seed": seed}
    log: list[Epoch] = []
    seconds = 0.0
    stored = None if checkpoint is None else load_checkpoint(checkpoint, identity)
    if stored is not None:
        optimiser.values.copy_(stored["values"])
        optimiser.load(stored["optimiser"])
        log, seconds = [_read_epoch(row) for row in stored["log"]], stored["seconds"]
    for number in range(len(log) + 1, recipe.epochs + 1):
        start = time.perf_counter()
        generator = torch.Generator().manual_seed(seed * 1_000_003 + number)
        total, step = 0.0, (number - 1) * steps_per_epoch
        for (images, labels), subnet in zip(
            epoch_batches(train, recipe, generator), sampled(space, recipe, seed, number), strict=False
        ):
            rate = learning_rate(recipe, step, recipe.epochs * steps_per_epoch)
            loss = training_step(optimiser, subnet, images, labels, rate, teacher)
            if not math.isfinite(loss):
                raise FloatingPointError(
                    f"the loss of {recipe.name} on {space.name}, seed {seed}, is {loss} in step {step} "
                    f"(epoch {number}), with {subnet}; lower the recipe's learning rate, {recipe.learning_rate}."
                )
            total += loss
            step += 1
        seconds += time.perf_counter() - start
        watched = dict(zip(fixed, inherited(supernet, list(fixed.values()), val), strict=True))
        log.append(Epoch(number, total / steps_per_epoch, watched))
        if checkpoint is not None:
            state = {"values": optimiser.values, "optimiser": optimiser.state, "seconds": seconds}
            save_checkpoint(checkpoint, identity, state | {"log": [asdict(epoch) for epoch in log]})
        if on_epoch is not None:
            on_epoch(log[-1])
    return TrainedSupernet(supernet, tuple(log), seconds)


def training_step(
    optimiser: SharedAdamW,
    subnet: AutoFormerSubnet,
    images: Tensor,
    labels: Tensor,
    rate: float,
    teacher: Teacher | None = None,
) -> float:
    """One step of one subnet. Returns: its loss before the step."""
    taken = optimiser.take(subnet)
    logits = optimiser.supernet.run(images, subnet, taken.leaves)
    loss = functional.cross_entropy(logits, labels)
    if teacher is not None:
        loss = (loss + functional.cross_entropy(logits, hard_labels(teacher, images))) / 2
    loss.backward()
    optimiser.step(taken, rate)
    return loss.item()


@torch.no_grad()
def hard_labels(teacher: Teacher, images: Tensor) -> Tensor:
    """What the teacher takes the images for. Source: hard-label distillation, Touvron et al. 2021, eq. 3."""
    return teacher(images).argmax(dim=-1)


def _read_epoch(row: Mapping[str, object]) -> Epoch:
    return Epoch(**row)  # type: ignore[arg-type]
