"""Small models of every kind that a proxy can score: backbones with graph and softmax blocks, subnets, timm's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

import timm
from torch import nn

from attnbench.nn.backbones import BACKBONES, seeded
from attnbench.nn.cswin import CSwinConfig
from attnbench.nn.operators import compile_graph
from attnbench.nn.pvt2 import PVT2Config
from attnbench.nn.subnet import network
from attnbench.nn.swin import SwinConfig
from attnbench.nn.vit import DeepViTConfig
from attnbench.space.parse import parse
from attnbench.space.subnet_named import SPACES

TRIAL = "q * l2norm(l2norm(q) @ softmax(elu1(k).T @ v))"
SIDE = 32


def mixed(name: str) -> nn.Module:
    """A micro pyramid whose first stage is searched and whose second keeps its own softmax attention.

    Swin and CSwin pool by the mean, as at full size.
    """
    pooled = {"swin": SwinConfig, "cswin": CSwinConfig}.get(name, type(BACKBONES[name]))
    return replace(pooled(**asdict(BACKBONES[name])), searched="AB").build(compile_graph(parse(TRIAL)))  # type: ignore[type-var]


def subnet(space: str) -> nn.Module:
    return network(SPACES[space].smallest, SPACES[space].frame)


def timms(name: str, **arguments: object) -> nn.Module:
    return timm.create_model(name, num_classes=7, **arguments)


DEEP = DeepViTConfig((28, 28), (7, 7), width=16, n_heads=2, depth=3, mlp_ratio=2.0, searched="M1")
PVT2 = PVT2Config(
    (SIDE, SIDE), (8, 16), n_heads=(1, 2), depths=(2, 1), mlp_ratios=(2.0, 2.0), searched="M1B", reductions=(2, 1)
)
VIT = {"img_size": SIDE, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 3}
# Pyramids halve the image five times, and one token alone would have no use for q and k.
PYRAMID = {
    "embed_dims": (8, 8, 16, 16),
    "depths": (1, 1, 1, 1),
    "num_heads": (1, 1, 2, 2),
    "mlp_ratios": (2, 2, 2, 2),
}

# The images' shape, and how the model comes about.
MODELS: dict[str, tuple[tuple[int, int, int], Callable[[], nn.Module]]] = {
    "deit": ((1, 28, 28), lambda: DEEP.build(compile_graph(parse(TRIAL)))),
    "pvt": ((1, 28, 28), lambda: mixed("pvt")),
    "swin": ((1, 28, 28), lambda: mixed("swin")),
    "cswin": ((1, 28, 28), lambda: mixed("cswin")),
    "pvt2": ((1, SIDE, SIDE), lambda: PVT2.build(compile_graph(parse(TRIAL)))),
    "autoformer": ((1, 28, 28), lambda: subnet("autoformer-micro")),
    "pit": ((1, 28, 28), lambda: subnet("pit-micro")),
    "timm vit": ((3, SIDE, SIDE), lambda: timms("vit_tiny_patch16_224", **VIT)),
    "timm deit, distilled": ((3, SIDE, SIDE), lambda: timms("deit_tiny_distilled_patch16_224", **VIT)),
    "timm swin": (
        (3, SIDE, SIDE),
        lambda: timms(
            "swin_tiny_patch4_window7_224", img_size=SIDE, embed_dim=12, depths=(1, 2), num_heads=(1, 2), window_size=4
        ),
    ),
    "timm pvt_v2": ((3, 64, 64), lambda: timms("pvt_v2_b0", **PYRAMID)),
    "timm twins": ((3, 64, 64), lambda: timms("twins_svt_small", img_size=64, wss=(4, 4, 2, 1), **PYRAMID)),
    "timm pit": (
        (3, SIDE, SIDE),
        lambda: timms(
            "pit_ti_224", img_size=SIDE, patch_size=8, stride=4, base_dims=(8, 8, 8), depth=(1, 1, 1), heads=(1, 2, 4)
        ),
    ),
}


def model_of(kind: str, seed: int = 0) -> nn.Module:
    """A model with fresh weights that a seed decides."""
    return seeded(seed, MODELS[kind][1])


def shape_of(kind: str) -> tuple[int, int, int]:
    return MODELS[kind][0]
