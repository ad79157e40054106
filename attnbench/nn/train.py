"""One training run of one attention graph on one backbone, as a protocol says."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from attnbench.nn.attention import GraphFunction
from attnbench.nn.backbones import build_backbone
from attnbench.nn.data import Split, Splits
from attnbench.nn.protocol import Protocol

EVAL_BATCH = 250
Status = Literal["ok", "stopped", "diverged"]


@dataclass(frozen=True)
class RunOutcome:
    """What one run measured; the names are the columns of `runs`. Curves have one value per finished epoch.

    status: "ok"; "stopped" (validation top-1 under the protocol's floor; no test value); "diverged" (a loss was NaN
    or infinite; no final values). `train_seconds` leaves evaluation out.
    """

    status: Status
    val_curve: tuple[float, ...]
    val_loss_curve: tuple[float, ...]
    train_loss_curve: tuple[float, ...]
    val_top1_percent: float | None
    val_loss: float | None
    test_top1_percent: float | None
    test_loss: float | None
    train_seconds: float
    device: str
    torch_version: str


@dataclass
class Progress:
    """What a run has measured so far: one value for each finished epoch, percent and nats."""

    seconds: float = 0.0
    train_losses: list[float] = field(default_factory=list)
    val_losses: list[float] = field(default_factory=list)
    val_top1: list[float] = field(default_factory=list)

    def add_epoch(self, train_loss: float, top1: float, val_loss: float) -> bool:
        """Whether it is kept: an epoch with a loss that is not finite ends the run and leaves nothing behind."""
        if not (math.isfinite(train_loss) and math.isfinite(val_loss)):
            return False
        self.train_losses.append(train_loss)
        self.val_losses.append(val_loss)
        self.val_top1.append(top1)
        return True

    def outcome(
        self, status: Status, device: str, test: tuple[float | None, float | None] = (None, None)
    ) -> RunOutcome:
        """What a run comes to that ended so. device: as in the column; test: top-1 and loss."""
        kept = self.val_top1 and status != "diverged"
        return RunOutcome(
            status=status,
            val_curve=tuple(self.val_top1),
            val_loss_curve=tuple(self.val_losses),
            train_loss_curve=tuple(self.train_losses),
            val_top1_percent=self.val_top1[-1] if kept else None,
            val_loss=self.val_losses[-1] if kept else None,
            test_top1_percent=test[0],
            test_loss=test[1],
            train_seconds=self.seconds,
            device=device,
            torch_version=torch.__version__,
        )

    def tested(self, device: str, test: tuple[float, float]) -> RunOutcome:
        """What a run comes to that reached its end."""
        return self.outcome("ok", device, test) if math.isfinite(test[1]) else self.outcome("diverged", device)


def train_run(
    graph: GraphFunction, backbone: str, recipe: Protocol, seed: int, data: Splits, *, device: str = "cpu"
) -> RunOutcome:
    """Train `backbone` with attention `graph` and measure it; the test images are read once, at the end.

    The seed fixes initial weights, order and flips, all drawn on the CPU, the same for every graph and device.
    Set torch.set_num_threads(1) before, as published rows were measured: the threads change the order of sums.
    """
    return train_model(build_backbone(backbone, graph, seed), recipe, seed, data, device=device)


def train_model(model: nn.Module, recipe: Protocol, seed: int, data: Splits, *, device: str = "cpu") -> RunOutcome:
    """As `train_run`, of a model that has its weights; it is trained in place, and the seed fixes order and flips."""
    model = model.to(device)
    train, val = to_device(data.train, device), to_device(data.val, device)
    optimiser = FlatAdamW(model, recipe)
    n_steps = recipe.epochs * math.ceil(len(train) / recipe.batch_size)
    generator = torch.Generator().manual_seed(seed)
    progress, name, step = Progress(), device_name(device), 0
    for epoch in range(1, recipe.epochs + 1):
        start = time.perf_counter()
        model.train()
        losses = []
        for images, labels in epoch_batches(train, recipe, generator):
            loss = functional.cross_entropy(model(images), labels)
            losses.append(loss.item())
            if not math.isfinite(losses[-1]):
                progress.seconds += time.perf_counter() - start
                return progress.outcome("diverged", name)
            loss.backward()
            optimiser.step(learning_rate(recipe, step, n_steps))
            step += 1
        progress.seconds += time.perf_counter() - start
        top1, val_loss = evaluate(model, val)
        if not progress.add_epoch(sum(losses) / len(losses), top1, val_loss):
            return progress.outcome("diverged", name)
        if epoch == recipe.floor_epoch and top1 < recipe.floor_top1_percent:
            return progress.outcome("stopped", name)
    return progress.tested(name, evaluate(model, to_device(data.test, device)))


def epoch_batches(train: Split, recipe: Protocol, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """One epoch in a drawn order, each image flipped left to right with the recipe's probability."""
    order = torch.randperm(len(train), generator=generator)
    flipped = torch.rand(len(train), generator=generator) < recipe.flip_probability
    device = train.images.device
    images, labels, flipped = train.images[order.to(device)], train.labels[order.to(device)], flipped.to(device)
    images[flipped] = images[flipped].flip(-1)
    return zip(images.split(recipe.batch_size), labels.split(recipe.batch_size), strict=True)


def learning_rate(recipe: Protocol, step: int, n_steps: int) -> float:
    """Linear warm-up over the first steps, then a cosine that would reach zero one step after the last."""
    n_warmup = round(recipe.warmup_fraction * n_steps)
    if step < n_warmup:
        return recipe.learning_rate * (step + 1) / n_warmup
    return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - n_warmup) / (n_steps - n_warmup)))


@torch.inference_mode()
def evaluate(model: nn.Module, split: Split) -> tuple[float, float]:
    """Top-1 in percent and mean cross-entropy over a split."""
    model.eval()
    n_right, total_loss = 0, 0.0
    for images, labels in zip(split.images.split(EVAL_BATCH), split.labels.split(EVAL_BATCH), strict=True):
        logits = model(images)
        n_right += (logits.argmax(-1) == labels).sum().item()
        total_loss += functional.cross_entropy(logits, labels, reduction="sum").item()
    return 100.0 * n_right / len(split), total_loss / len(split)


class FlatAdamW:
    """AdamW with clipping of the global gradient norm, over one flat buffer instead of one tensor a parameter.

    The same arithmetic as torch.optim.AdamW on the model's parameters; micro models spend a sixth of a step on the
    bookkeeping that this leaves out. Parameters and gradients become views of the buffers: 1-D parameters and
    tokens, which do not decay, lie behind the others. A parameter that no loss reaches has gradient zero.
    """

    def __init__(self, model: nn.Module, recipe: Protocol):
        named = sorted(model.named_parameters(), key=lambda item: not decays(*item))
        n_decayed = sum(parameter.numel() for name, parameter in named if decays(name, parameter))
        self.max_norm = recipe.clip_norm
        self.values = torch.cat([parameter.detach().flatten() for _, parameter in named])
        self.grads = torch.zeros_like(self.values)
        start = 0
        for _, parameter in named:
            place = slice(start, start := start + parameter.numel())
            parameter.data = self.values[place].view_as(parameter)
            parameter.grad = self.grads[place].view_as(parameter)
        groups = []
        for place, weight_decay in ((slice(0, n_decayed), recipe.weight_decay), (slice(n_decayed, None), 0.0)):
            flat = self.values[place].requires_grad_()
            flat.grad = self.grads[place]
            groups.append({"params": [flat], "weight_decay": weight_decay})
        self.optimiser = torch.optim.AdamW(
            groups, lr=recipe.learning_rate, betas=recipe.betas, eps=recipe.eps, fused=True
        )

    def step(self, learning_rate: float) -> None:
        """Clip, update, and clear the gradients for the next backward pass."""
        self.grads.mul_((self.max_norm / (self.grads.norm() + 1e-6)).clamp(max=1.0))
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate
        self.optimiser.step()
        self.grads.zero_()


# What has more than one dimension and is no weight of a layer: tokens, positions, tables of relative positions.
SPARED = (
    "cls_token",
    "class_token",
    "dist_token",
    "pos_embed",
    "positions",
    "relative_position_bias_table",
    "key_tables",
    "value_tables",
)


def decays(name: str, parameter: Tensor) -> bool:
    """Weight decay is for matrices and filters; not for 1-D parameters, tokens, positions and tables of positions."""
    return parameter.ndim > 1 and not any(spared in name.rpartition(".")[2] for spared in SPARED)


def to_device(split: Split, device: str) -> Split:
    return Split(split.images.to(device), split.labels.to(device))


def require_device(device: str) -> None:
    """Raises: ValueError for a name that is none of torch's, or a GPU that it does not see."""
    try:
        torch.device(device)
    except RuntimeError:
        raise ValueError(f"there is no device {device!r}; expected cpu, cuda or cuda:1.") from None
    if device.startswith("cuda") and (torch.device(device).index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"{device} is not here: torch {torch.__version__} sees {torch.cuda.device_count()} GPUs. Use cpu, or "
            "install a driver and a torch that fit the GPU."
        )


def device_name(device: str) -> str:
    """What stands in the column `device`: "cpu", or the accelerator's name."""
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device
