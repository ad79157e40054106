"""One training run of a full backbone as its recipe says, on one device or, under torchrun, on several processes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timm.data import Mixup
from timm.optim import param_groups_weight_decay
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from attnbench.nn.attention import GraphFunction
from attnbench.nn.backbones import BackboneConfig, seeded
from attnbench.nn.checkpoint import load_checkpoint, save_checkpoint
from attnbench.nn.datasets import Labelled, Splits
from attnbench.nn.generators import kept_generators, number_of
from attnbench.nn.images import (
    EpochOrder,
    ImageSet,
    eval_batches,
    eval_transform,
    train_batches,
    train_transform,
)
from attnbench.nn.recipes import Recipe
from attnbench.nn.train import Progress, RunOutcome, decays, device_name


@dataclass(frozen=True)
class Place:
    """Where a run takes place. device: of this process, one of `world`. readers: processes that read its images.

    images_at_once: how many of a batch go through the network together, where memory does not hold all of them.
    """

    device: str = "cpu"
    rank: int = 0
    world: int = 1
    readers: int = 0
    images_at_once: int | None = None

    @property
    def gpus(self) -> list[torch.device]:
        """The GPU of this process, if it has one."""
        return [torch.device(self.device)] if self.device.startswith("cuda") else []

    @property
    def name(self) -> str:
        """What stands in the column `device`: one process's, with the number of processes where there are several."""
        name = device_name(self.device)
        return name if self.world == 1 else f"{self.world} x {name}"


def train_full(
    graph: GraphFunction,
    config: BackboneConfig,
    recipe: Recipe,
    seed: int,
    data: Splits,
    place: Place = Place(),
    *,
    checkpoint: Path | None = None,
    identity: Mapping[str, str | int] | None = None,
    report: Callable[[Progress], None] | None = None,
) -> RunOutcome:
    """Train a backbone with attention `graph` and measure it; the test images are read once, after the last epoch.

    The seed fixes initial weights, order and augmentation. checkpoint: file written after each epoch, from which the
    run named by `identity` goes on bit by bit as if it had not been interrupted. report: called after each epoch.
    Raises: ValueError (a batch that does not split, too few images), DataError (broken images or checkpoint),
    DiskFull.
    """
    per_process = share_of(recipe, place, len(data.train))
    with kept_generators(place.gpus):
        training = Training(graph, config, recipe, seed, place)
        identity = {"seed": seed, **(identity or {})}
        progress = training.resume(None if checkpoint is None else load_checkpoint(checkpoint, identity))
        images = ImageSet(data.train, train_transform(recipe, config.image_size), seed)
        order = EpochOrder(images, seed, place.rank, place.world)
        batches = train_batches(images, order, per_process, place.readers, bool(place.gpus))
        val = training.evaluation_of(data.val)
        for epoch in range(len(progress.val_top1), recipe.n_epochs):
            order.set_epoch(epoch)
            start = time.perf_counter()
            train_loss = training.epoch(epoch, batches)
            progress.seconds += time.perf_counter() - start
            if not math.isfinite(train_loss):
                return progress.outcome("diverged", place.name)
            if not progress.add_epoch(train_loss, *training.evaluate(val)):
                return progress.outcome("diverged", place.name)
            if epoch + 1 == recipe.floor_epoch and progress.val_top1[-1] < recipe.floor_top1_percent:
                return progress.outcome("stopped", place.name)
            if checkpoint is not None and place.rank == 0:
                save_checkpoint(checkpoint, identity, training.state(progress))
            if report is not None:
                report(progress)
        return progress.tested(place.name, training.evaluate(training.evaluation_of(data.test)))


def share_of(recipe: Recipe, place: Place, n_images: int) -> int:
    """Images of a global batch that one process takes. Raises: ValueError."""
    per_process = recipe.batch_size // place.world
    if recipe.batch_size % place.world:
        raise ValueError(
            f"the batch of {recipe.batch_size} images does not split over {place.world} processes; start a number of "
            "processes that divides it."
        )
    if per_process % 2 and recipe.mixup + recipe.cutmix > 0:
        raise ValueError(f"mixing pairs images, and {per_process} for each process is odd; start fewer processes.")
    if n_images < recipe.batch_size:
        raise ValueError(
            f"{n_images} training images do not fill one batch of {recipe.batch_size}; use the recipe's data set."
        )
    return per_process


class Training:
    """The network of a run with all that changes while it trains."""

    def __init__(self, graph: GraphFunction, config: BackboneConfig, recipe: Recipe, seed: int, place: Place):
        self.recipe, self.seed, self.place = recipe, seed, place
        self.image_size = config.image_size
        self.model = seeded(seed, lambda: config.build(graph))
        with torch.no_grad():  # gives a `batchnorm` in the graph its size, before anything copies the network
            self.model.eval()(torch.zeros(1, config.n_channels, *config.image_size))
        self.model.to(place.device)
        self.average = None if recipe.ema_decay is None else ModelEmaV3(self.model, decay=recipe.ema_decay)
        undecayed = [name for name, parameter in self.model.named_parameters() if not decays(name, parameter)]
        self.optimiser = torch.optim.AdamW(
            param_groups_weight_decay(self.model, recipe.weight_decay, undecayed),
            lr=recipe.scaled(recipe.learning_rate),
            betas=recipe.betas,
            eps=recipe.eps,
            fused=True,
        )
        self.mix = mixing(recipe)
        self.parallel: nn.Module = self.model
        if place.world > 1:
            # A graph may leave q, k or v out, and what only they depend on then gets no gradient.
            self.parallel = DistributedDataParallel(self.model, place.gpus or None, find_unused_parameters=True)

    def state(self, progress: Progress) -> dict[str, Any]:
        return {
            "progress": asdict(progress),
            "model": self.model.state_dict(),
            "average": None if self.average is None else self.average.module.state_dict(),
            "optimiser": self.optimiser.state_dict(),
        }

    def resume(self, state: dict[str, Any] | None) -> Progress:
        """Take up where a checkpoint ends, or start where there is none."""
        if state is None:
            return Progress()
        self.model.load_state_dict(state["model"])
        if self.average is not None:
            self.average.module.load_state_dict(state["average"])
        self.optimiser.load_state_dict(state["optimiser"])
        return Progress(**state["progress"])

    def epoch(self, epoch: int, batches: DataLoader[Any]) -> float:
        """Train over the images once. Returns: the mean loss of the batches, over all processes."""
        recipe, device = self.recipe, self.place.device
        # What follows a draw starts anew in each epoch, so that a run that was resumed draws the same.
        number = number_of(self.seed, epoch, self.place.rank)
        np.random.seed(number)
        torch.manual_seed(number)
        schedule = learning_rates(self.optimiser, recipe, len(batches))
        self.parallel.train()
        total = torch.zeros((), dtype=torch.float64, device=device)
        for step, (images, labels) in enumerate(batches):
            if recipe.schedule == "epoch":
                schedule.step(epoch)
            else:
                schedule.step_update(epoch * len(batches) + step)
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            if self.mix is not None:
                images, labels = self.mix(images, labels)
            total += self.backward(images, labels)
            if recipe.clip_norm is not None:
                nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip_norm)
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
            if self.average is not None:
                self.average.update(self.model)
        (mean,) = over_processes(total / len(batches), self.place)
        return mean / self.place.world

    def backward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Gradients of the mean loss over this process's batch, a part of it at a time. Returns: that loss."""
        at_once = self.place.images_at_once or len(images)
        parts = list(zip(images.split(at_once), labels.split(at_once), strict=True))
        losses = []
        for i, (some, targets) in enumerate(parts):
            last = i + 1 == len(parts)
            # Processes add their gradients up in the last part only.
            with nullcontext() if last or self.place.world == 1 else self.parallel.no_sync():
                with self.autocast():
                    logits = self.parallel(some)
                smoothing = 0.0 if self.mix is not None else self.recipe.label_smoothing  # mixed labels are smooth
                loss = functional.cross_entropy(logits.float(), targets, label_smoothing=smoothing)
                loss = loss * (len(some) / len(images))
                loss.backward()
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    def autocast(self) -> torch.autocast:
        device_type = torch.device(self.place.device).type
        return torch.autocast(device_type, dtype=torch.bfloat16, enabled=self.recipe.precision == "bf16")

    def evaluation_of(self, labelled: Labelled) -> DataLoader[Any]:
        images = ImageSet(labelled, eval_transform(self.recipe, self.image_size), self.seed)
        return eval_batches(images, self.place.rank, self.place.world, self.place.readers, bool(self.place.gpus))

    @torch.inference_mode()
    def evaluate(self, batches: DataLoader[Any]) -> tuple[float, float]:
        """Top-1 in percent and mean cross-entropy, of the averaged weights where the recipe averages them."""
        model = self.model if self.average is None else self.average.module
        model.eval()
        counts = torch.zeros(3, dtype=torch.float64, device=self.place.device)
        for images, labels in batches:
            images, labels = images.to(self.place.device), labels.to(self.place.device)
            with self.autocast():
                logits = model(images)
            logits = logits.float()
            right = (logits.argmax(-1) == labels).sum()
            loss = functional.cross_entropy(logits, labels, reduction="sum")
            counts += torch.stack([right, loss, torch.tensor(len(labels), device=self.place.device)])
        n_right, loss, n_images = over_processes(counts, self.place)
        return 100.0 * n_right / n_images, loss / n_images


def learning_rates(optimiser: torch.optim.Optimizer, recipe: Recipe, n_steps: int) -> CosineLRScheduler:
    """Linear warm-up, then a cosine to the lowest rate at the end of `recipe.epochs`, and that rate after it.

    n_steps: of one epoch. The cosine counts from the first epoch, so that it joins the warm-up below its top.
    """
    unit = 1 if recipe.schedule == "epoch" else n_steps
    return CosineLRScheduler(
        optimiser,
        t_initial=recipe.epochs * unit,
        lr_min=recipe.scaled(recipe.min_learning_rate),
        warmup_t=recipe.warmup_epochs * unit,
        warmup_lr_init=recipe.scaled(recipe.warmup_learning_rate),
        t_in_epochs=recipe.schedule == "epoch",
    )


def mixing(recipe: Recipe) -> Mixup | None:
    """Mixup and CutMix of one process's batch, with label smoothing; None where the recipe has neither."""
    if not recipe.mixup + recipe.cutmix > 0:
        return None
    return Mixup(
        mixup_alpha=recipe.mixup,
        cutmix_alpha=recipe.cutmix,
        prob=recipe.mix_probability,
        switch_prob=recipe.cutmix_share,
        label_smoothing=recipe.label_smoothing,
        num_classes=recipe.n_classes,
    )


def over_processes(values: Tensor, place: Place) -> list[float]:
    """Numbers summed over all processes."""
    if place.world > 1:
        distributed.all_reduce(values)
    return values.flatten().tolist()
