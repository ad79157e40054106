"""How fast one run trains, beside a plain timm model, DataLoader and loop on the same graph and core.

    python benchmarks/train.py [--backbone pvt] [--formula TEXT] [--steps 25] [--profile]

Both are timed in turns in one process on one thread, so that a busy machine slows both alike; the ratio is the figure.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from timm.models.swin_transformer import window_partition, window_reverse
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from attnbench.nn.attention import FrameAttention, Grid
from attnbench.nn.backbones import ViTConfig, backbone_config, build_backbone
from attnbench.nn.cswin import CrossFrame
from attnbench.nn.data import Splits, load_splits
from attnbench.nn.operators import compile_graph
from attnbench.nn.protocol import Protocol, protocol
from attnbench.nn.train import FlatAdamW, epoch_batches, evaluate
from attnbench.space.graph import Graph
from attnbench.space.parse import parse

TRIED = """What was tried, and kept where it paid (measured on deit):
  kept: parameters and gradients as views of one flat buffer, clipping and AdamW in a few calls
  kept: the last norm after the class token is picked, the same function at 1/N of the work
  kept: q, k, v split and merged by one function with a backward pass of its own
  kept: softmax over rows narrower than 16 down the columns of the transpose: 274 instead of 1,095 us at width 8
  left: torch.compile of the parts around the graph: 8.3 instead of 8.9 ms a step for `v`, nothing for Trial 105,
        12 s to start
  left: three seeds stacked by vmap: 9.7 ms a seed for `v`, 15 for others, no faster than one by one
  left: allocator settings; a hand-written backward pass of l2norm: no difference"""


class PlainAttention(nn.Module):
    """The frame as one would write it first: views, a convolution, no thought for copies."""

    def __init__(self, frame: FrameAttention, graph: Graph):
        super().__init__()
        width = frame.proj.in_features
        self.heads, self.grid = frame.n_heads, frame.grid
        self.graph = compile_graph(graph)
        self.qkv = nn.Linear(width, 3 * width)
        self.local = None if frame.local is None else nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor, *_: object, **__: object) -> Tensor:
        return self.proj(self.attend(self.qkv(x), self.heads, self.grid, self.local))

    def attend(self, qkv: Tensor, heads: int, grid: Grid, local: nn.Module | None) -> Tensor:
        batch, tokens, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
        q, k, v = qkv.reshape(batch, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4)
        out = self.graph(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
        if local is not None:
            patches = v.transpose(1, 2).reshape(batch, tokens, width)[:, grid.prefix :]
            image = patches.transpose(1, 2).reshape(batch, width, grid.rows, grid.cols)
            out[:, grid.prefix :] = out[:, grid.prefix :] + local(image).flatten(2).transpose(1, 2)
        return out


class PlainCross(PlainAttention):
    """The same over the cross-shaped windows of CSwin, each half of the heads by itself."""

    def __init__(self, frame: CrossFrame, graph: Graph):
        super().__init__(frame, graph)
        self.windows = frame.windows
        width = frame.proj.in_features // len(self.windows)
        self.locals = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1, groups=width) for _ in self.windows)
        self.local = None

    def forward(self, x: Tensor, *_: object, **__: object) -> Tensor:
        rows, cols, branches = self.grid.rows, self.grid.cols, len(self.windows)
        parts = self.qkv(x).reshape(len(x), rows, cols, 3, branches, -1).unbind(4)
        out = []
        for part, size, local in zip(parts, self.windows, self.locals, strict=True):
            cut = window_partition(part.flatten(3), size).flatten(1, 2)
            done = self.attend(cut, self.heads // branches, Grid(*size), local)
            out.append(window_reverse(done, size, rows, cols).flatten(1, 2))
        return self.proj(torch.cat(out, dim=2))


def plain_model(backbone: str, graph: Graph) -> nn.Module:
    """timm's model, or ours where timm has none, with the plain frame in place of ours."""
    config = backbone_config(backbone)
    ours = model = config.build(compile_graph(graph))
    if isinstance(config, ViTConfig):
        model = VisionTransformer(
            img_size=config.image_size,
            patch_size=config.patch_size,
            in_chans=config.n_channels,
            num_classes=config.n_classes,
            embed_dim=config.width,
            depth=config.depth,
            num_heads=config.n_heads,
            mlp_ratio=config.mlp_ratio,
        )
    frames = [(name, module) for name, module in ours.named_modules() if isinstance(module, FrameAttention)]
    for name, frame in frames:
        in_stripes = isinstance(frame, CrossFrame) and len(frame.windows) > 1
        plain = PlainCross(frame, graph) if in_stripes else PlainAttention(frame, graph)
        model.set_submodule(name, plain)
    return model


Trainer = Callable[[int], None]


def plain_trainer(backbone: str, graph: Graph, recipe: Protocol, data: Splits) -> tuple[Trainer, nn.Module]:
    """AdamW, clip_grad_norm_ and a DataLoader with a flip in its collation, as in many a training script."""
    model = plain_model(backbone, graph)
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 1000)

    def collate(items: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        images = [image.flip(-1) if torch.rand(()) < recipe.flip_probability else image for image, _ in items]
        return torch.stack(images), torch.stack([label for _, label in items])

    dataset = TensorDataset(data.train.images, data.train.labels)
    loader = DataLoader(dataset, recipe.batch_size, shuffle=True, collate_fn=collate)

    def train(steps: int) -> None:
        model.train()
        for _, (images, labels) in zip(range(steps), loader, strict=False):
            loss = functional.cross_entropy(model(images), labels)
            loss.item()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
            optimiser.step()
            schedule.step()

    return train, model


def our_trainer(backbone: str, graph: Graph, recipe: Protocol, data: Splits) -> tuple[Trainer, nn.Module]:
    """The loop of attnbench.nn.train, cut to a number of steps."""
    model = build_backbone(backbone, compile_graph(graph), seed=0)
    optimiser = FlatAdamW(model, recipe)
    generator = torch.Generator().manual_seed(0)

    def train(steps: int) -> None:
        model.train()
        for _, (images, labels) in zip(range(steps), epoch_batches(data.train, recipe, generator), strict=False):
            loss = functional.cross_entropy(model(images), labels)
            loss.item()
            loss.backward()
            optimiser.step(recipe.learning_rate)

    return train, model


def core_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formula", default="softmax(q @ k.T / sqrt(d)) @ v")
    parser.add_argument("--backbone", default="deit")
    parser.add_argument("--steps", type=int, default=25, help="training steps in one turn")
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--profile", action="store_true", help="print where our step's time goes")
    args = parser.parse_args()
    torch.set_num_threads(1)
    recipe, graph = protocol("fmnist-micro"), parse(args.formula)
    data = load_splits(recipe)
    ours, model = our_trainer(args.backbone, graph, recipe, data)
    plain, plain_net = plain_trainer(args.backbone, graph, recipe, data)
    for train in (ours, plain):
        train(5)
    turns = [
        (core_seconds(lambda: ours(args.steps)), core_seconds(lambda: plain(args.steps))) for _ in range(args.turns)
    ]
    n_steps = recipe.epochs * len(data.train) // recipe.batch_size
    ours_train, plain_train = (n_steps / args.steps * median(times) for times in zip(*turns, strict=True))
    evaluations = [(model, data.val), (plain_net, data.val), (model, data.test), (plain_net, data.test)]
    val, plain_val, test, plain_test = (
        core_seconds(lambda net=net, split=split: evaluate(net, split)) for net, split in evaluations
    )
    ours_run = ours_train + recipe.epochs * val + test
    plain_run = plain_train + recipe.epochs * plain_val + plain_test
    print(f"{graph.text} on {args.backbone}, torch {torch.__version__}, one thread")
    step, plain_step = 1e3 * ours_train / n_steps, 1e3 * plain_train / n_steps
    print(f"  a run here:          {ours_run:6.1f} core-seconds, {step:.2f} ms a step")
    print(f"  plain timm and loop: {plain_run:6.1f} core-seconds, {plain_step:.2f} ms a step")
    print(f"  ratio, plain to ours: {plain_run / ours_run:.2f}")
    print(TRIED)
    if args.profile:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU]) as found:
            ours(50)
        print(found.key_averages().table(sort_by="self_cpu_time_total", row_limit=15, max_name_column_width=40))


if __name__ == "__main__":
    main()
