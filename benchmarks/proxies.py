"""What each proxy costs, DSS beside its floor, and the gradients of single images beside a loop over them.

    python benchmarks/proxies.py [--subnet AutoFormer-T] [--images 32] [--turns 5] [--threads 1]

Prints Markdown. Milliseconds are of processor time, of all threads together. What is compared is timed in turns in one
process, so that a busy machine slows both alike; the ratios are the figures.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import chain

import torch
from torch import Tensor, nn

from attnbench.nn.backbones import build_backbone
from attnbench.nn.cost import image_shape
from attnbench.nn.data import Split
from attnbench.nn.operators import compile_graph
from attnbench.nn.proxies.dss import REPORTED, by_projection, dss
from attnbench.nn.proxies.layers import layers_by_role
from attnbench.nn.proxies.ntk import by_layer, by_loop, ntk
from attnbench.nn.proxies.passes import gradients, linearise, ones_output, standalone
from attnbench.nn.proxies.registry import PROXIES
from attnbench.nn.proxies.score import score
from attnbench.nn.subnet import build_subnet
from attnbench.space.parse import parse
from attnbench.space.subnet_cost import subnet_cost
from attnbench.space.subnet_named import PUBLISHED_SUBNETS, SPACES

Shape = tuple[int, int, int]


def ms(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return 1e3 * (time.process_time() - start)


def in_turns(turns: int, *calls: Callable[[], object]) -> list[float]:
    """The least milliseconds of each call; every turn runs all of them."""
    times = [[ms(call) for call in calls] for _ in range(turns)]
    return [min(found) for found in zip(*times, strict=True)]


def floor_of_dss(model: nn.Module, shape: Shape, dtype: torch.dtype) -> tuple[Callable[[], object], ...]:
    """What no way to compute DSS can leave out: forward and backward pass, and the singular values.

    The copy, its absolute values and the sums are not in it.
    """
    net = standalone(model, dtype)
    linearise(net)
    weights = {role: [layer.weight for layer in layers] for role, layers in layers_by_role(net).items()}
    counted = list(chain.from_iterable(weights[role] for role in REPORTED))

    def passes() -> tuple[Tensor, ...]:
        return gradients(ones_output(net, shape), counted)

    found = iter(passes())
    grads = {role: [next(found) for _ in weights[role]] for role in REPORTED}
    matrices = [
        matrix.detach()
        for values in (grads, weights)
        for matrix in (*by_projection(net, values["qkv"], "separate"), *values["proj"])
    ]

    def singular_values() -> None:
        for matrix in matrices:
            torch.linalg.svdvals(matrix)

    return passes, singular_values


def print_dss(model: nn.Module, shape: Shape, turns: int) -> None:
    print("| DSS in | forward and backward, ms | singular values, ms | floor, ms | dss, ms | ratio |")
    print("|---|---|---|---|---|---|")
    for dtype in (torch.float64, torch.float32):
        calls: tuple[Callable[[], object], ...] = (
            *floor_of_dss(model, shape, dtype),
            partial(dss, model, shape, dtype=dtype),
        )
        passes, values, whole = in_turns(turns, *calls)
        floor = passes + values
        name = str(dtype).removeprefix("torch.")
        print(f"| {name} | {passes:.0f} | {values:.0f} | {floor:.0f} | {whole:.0f} | {whole / floor:.2f} |")


def print_proxies(model: nn.Module, shape: Shape, n_images: int) -> None:
    generator = torch.Generator().manual_seed(0)
    batch = Split(torch.randn(n_images, *shape, generator=generator), torch.arange(n_images) % 10)
    print("| proxy | looks at | ms |")
    print("|---|---|---|")
    for name, entry in PROXIES.items():
        time_ms = ms(partial(score, model, shape, batch=batch, names=[name], dtype=torch.float32))
        looks_at = "nothing" if entry.data == "none" else f"{n_images} {entry.data}"
        print(f"| {name} | {looks_at} | {time_ms:,.0f} |", flush=True)


def print_ntk(formula: str, backbone: str, n_images: int, turns: int) -> None:
    net = standalone(build_backbone(backbone, compile_graph(parse(formula)), seed=0))
    shape = image_shape(backbone)
    images = torch.randn(n_images, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    whole, loop = in_turns(turns, *(partial(ntk, net, images, per_sample) for per_sample in (by_layer, by_loop)))
    one, other = (ntk(net, images, per_sample) for per_sample in (by_layer, by_loop))
    difference = ((one - other).abs().max() / other.abs().max()).item()
    print("| kernel of single images' gradients | all at once, ms | loop, ms | ratio | relative difference |")
    print("|---|---|---|---|---|")
    print(f"| `{formula}` on micro {backbone} | {whole:.1f} | {loop:.1f} | {loop / whole:.1f} | {difference:.0e} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subnet", default="AutoFormer-T", choices=PUBLISHED_SUBNETS)
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--formula", default="q * l2norm(l2norm(q) @ standardize(minmax(v).T @ elu1(k)))")
    parser.add_argument("--backbone", default="deit", help="a micro one, for the kernel")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    row = PUBLISHED_SUBNETS[args.subnet]
    frame = SPACES[row.space].frame
    model, cost = build_subnet(row.subnet, frame, seed=0), subnet_cost(row.subnet, frame)
    shape = (frame.n_channels, frame.image_size, frame.image_size)
    threads = f"{args.threads} thread" + "s" * (args.threads > 1)
    size = f"{cost.params:,} parameters, {cost.macs / 1e9:.2f} billion multiply-adds"
    print(f"torch {torch.__version__}, {threads}. {args.subnet} at {frame.image_size} px: {size}.\n")
    print_dss(model, shape, args.turns)
    print()
    print_ntk(args.formula, args.backbone, args.images, args.turns)
    print("\nIn float32, once each:\n")
    print_proxies(model, shape, args.images)


if __name__ == "__main__":
    main()
