"""Several seeds of one graph on one backbone, trained in one pass.

A step of a micro model is hundreds of operations too small to fill a GPU; stacked by vmap, all seeds share them, and a
CUDA graph launches them at once. On a CPU it wins nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional

from attnbench.nn.attention import GraphFunction
from attnbench.nn.backbones import build_backbone
from attnbench.nn.data import Split, Splits
from attnbench.nn.protocol import Protocol
from attnbench.nn.train import (
    EVAL_BATCH,
    Progress,
    RunOutcome,
    Status,
    decays,
    device_name,
    epoch_batches,
    learning_rate,
    to_device,
)

Step = Callable[[Tensor, Tensor, float], Tensor]


def train_stacked(
    graph: GraphFunction,
    backbone: str,
    recipe: Protocol,
    seeds: Sequence[int],
    data: Splits,
    *,
    device: str = "cpu",
    cuda_graphs: bool = False,
) -> list[RunOutcome]:
    """What `train_run` measures with each seed, up to the order of sums; in `train_seconds` each seed's share.

    A seed that diverged or stopped is carried along unheeded: no operation mixes seeds.
    cuda_graphs: record the training step once and replay it. Raises: ValueError (CUDA graphs without CUDA).
    """
    on_gpu = torch.device(device).type == "cuda"
    if cuda_graphs and not on_gpu:
        raise ValueError(f"CUDA graphs need a CUDA device; the device is {device!r}. Pass cuda_graphs=False.")
    train, val = to_device(data.train, device), to_device(data.val, device)
    stack = Stack([build_backbone(backbone, graph, seed) for seed in seeds], recipe, device, data.train.images[:1])
    take_step: Step = CapturedStep(stack) if cuda_graphs else stack.step
    n_steps = recipe.epochs * math.ceil(len(train) / recipe.batch_size)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    records = [Record() for _ in seeds]
    eval_batch = 10 * EVAL_BATCH if on_gpu else EVAL_BATCH
    step = 0
    for epoch in range(1, recipe.epochs + 1):
        start = time.perf_counter()
        stack.model.train()
        losses = []
        for batches in zip(*(epoch_batches(train, recipe, generator) for generator in generators), strict=True):
            images, labels = (torch.stack(parts) for parts in zip(*batches, strict=True))
            losses.append(take_step(images, labels, learning_rate(recipe, step, n_steps)))
            step += 1
        # Read once an epoch: a GPU waits for every number that is looked at.
        train_losses = torch.stack(losses).double().mean(0).tolist()
        seconds = (time.perf_counter() - start) / len(seeds)
        evaluated = stack.evaluate(val, eval_batch)
        for record, train_loss, (top1, val_loss) in zip(records, train_losses, evaluated, strict=True):
            if record.status == "ok":
                record.progress.seconds += seconds
                if not record.progress.add_epoch(train_loss, top1, val_loss):  # of losses, the mean tells
                    record.status = "diverged"
                elif epoch == recipe.floor_epoch and top1 < recipe.floor_top1_percent:
                    record.status = "stopped"
        if all(record.status != "ok" for record in records):
            break
    else:
        for record, test in zip(records, stack.evaluate(to_device(data.test, device), eval_batch), strict=True):
            if record.status == "ok":
                record.test = test
    return [record.outcome(device_name(device)) for record in records]


@dataclass
class Record:
    """How far one seed has come; "ok" while it runs."""

    progress: Progress = field(default_factory=Progress)
    status: Status = "ok"
    test: tuple[float, float] | None = None

    def outcome(self, device: str) -> RunOutcome:
        if self.test is not None:
            return self.progress.tested(device, self.test)
        return self.progress.outcome(self.status, device)


class Stack:
    """Models alike but for their values, which lie side by side: every tensor has the models in front.

    The optimiser is `FlatAdamW`'s, over one row a model; each model's gradients are clipped by its own norm.
    """

    def __init__(self, models: Sequence[nn.Module], recipe: Protocol, device: str, example: Tensor):
        for model in models:
            model.eval()
            with torch.no_grad():
                model(example)  # what `batchnorm` keeps has its size from the first images
        self.model = models[0]
        self.max_norm = recipe.clip_norm
        values, buffers = stack_module_state(list(models))
        self.buffers = {name: value.to(device) for name, value in buffers.items()}
        self.params: dict[str, Tensor] = {}
        self.rows: list[Tensor] = []
        groups = []
        for wanted, weight_decay in ((True, recipe.weight_decay), (False, 0.0)):
            named = {name: value for name, value in values.items() if decays(name, value[0]) == wanted}
            row = torch.cat([value.detach().flatten(1) for value in named.values()], dim=1).to(device).requires_grad_()
            row.grad = torch.empty_like(row)
            start = 0
            for name, value in named.items():
                place = slice(start, start := start + value[0].numel())
                self.params[name] = row.detach()[:, place].view_as(value).requires_grad_()
            self.rows.append(row)
            groups.append({"params": [row], "weight_decay": weight_decay})
        # A tensor, so that a recorded step reads the rate of the day.
        self.rate = torch.tensor(recipe.learning_rate, device=device)
        capturable = torch.device(device).type == "cuda"
        self.optimiser = torch.optim.AdamW(
            groups, lr=self.rate, betas=recipe.betas, eps=recipe.eps, fused=True, capturable=capturable
        )

    def step(self, images: Tensor, labels: Tensor, rate: float) -> Tensor:
        """Images (models, B, channels, rows, cols), labels (models, B). Returns: each model's loss before the step."""
        self.rate.fill_(rate)
        return self.update(images, labels)

    def update(self, images: Tensor, labels: Tensor) -> Tensor:
        losses = vmap(self.loss)(self.params, self.buffers, images, labels)
        grads = torch.autograd.grad(losses.sum(), list(self.params.values()), materialize_grads=True)
        flat = torch.cat([grad.flatten(1) for grad in grads], dim=1)
        flat.mul_((self.max_norm / (flat.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1.0))
        for row, part in zip(self.rows, flat.split([row.shape[1] for row in self.rows], dim=1), strict=True):
            row.grad.copy_(part)
        self.optimiser.step()
        return losses.detach()

    def loss(self, params: dict[str, Tensor], buffers: dict[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(functional_call(self.model, (params, buffers), (images,)), labels)

    @torch.no_grad()
    def evaluate(self, split: Split, batch: int) -> list[tuple[float, float]]:
        """Top-1 in percent and mean cross-entropy over a split, of each model."""
        self.model.eval()

        def measured(params: dict[str, Tensor], buffers: dict[str, Tensor], images: Tensor) -> Tensor:
            return functional_call(self.model, (params, buffers), (images,))

        n_right, total_loss = [], []
        for images, labels in zip(split.images.split(batch), split.labels.split(batch), strict=True):
            logits = vmap(measured, in_dims=(0, 0, None))(self.params, self.buffers, images)
            n_right.append((logits.argmax(-1) == labels).sum(1))
            of_each = functional.cross_entropy(logits.mT, labels.expand(len(logits), -1), reduction="none")
            total_loss.append(of_each.sum(1).double())
        top1 = (100.0 * torch.stack(n_right).sum(0).double() / len(split)).tolist()
        return list(zip(top1, (torch.stack(total_loss).sum(0) / len(split)).tolist(), strict=True))


class CapturedStep:
    """A stack's training step, recorded as a CUDA graph after some steps that ran operation by operation.

    A batch of another size than the first's is not in the record and runs operation by operation, too.
    """

    N_WARM_UP = 3  # steps in which libraries choose kernels and the optimiser makes its state

    def __init__(self, stack: Stack):
        self.stack = stack
        self.n_steps = 0
        self.stream = torch.cuda.Stream(stack.rate.device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, images: Tensor, labels: Tensor, rate: float) -> Tensor:
        self.n_steps += 1
        if self.n_steps == 1:
            self.images, self.labels = images.clone(), labels.clone()
        if self.n_steps <= self.N_WARM_UP or images.shape != self.images.shape:
            # On a stream of its own, as recording wants it.
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                losses = self.stack.step(images, labels, rate)
            torch.cuda.current_stream().wait_stream(self.stream)
            return losses
        self.images.copy_(images)
        self.labels.copy_(labels)
        self.stack.rate.fill_(rate)
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.losses = self.stack.update(self.images, self.labels)
        self.graph.replay()
        return self.losses.clone()
