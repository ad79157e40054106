"""Validation of many subnets with a supernet's weights, computing what they have in common once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import torch
from torch.nn import functional

from attnbench.nn.data import Split
from attnbench.nn.subnet import AutoFormer
from attnbench.nn.supernet import Supernet
from attnbench.nn.train import EVAL_BATCH
from attnbench.space.subnet import AutoFormerSubnet
from attnbench.space.subnet_spaces import require_in

Layer = tuple[int, float]  # heads and MLP ratio


@torch.inference_mode()
def inherited(supernet: Supernet, subnets: Sequence[AutoFormerSubnet], split: Split) -> list[tuple[float, float]]:
    """Top-1 in percent and mean cross-entropy of each subnet over a split, on the split's device.

    Subnets of one width that agree in their first layers give the same values there, in either sharing; taken in
    order, each batch runs through every such beginning once. Of a thousand micro subnets that is 2.5 times as fast.
    Raises: InvalidSubnet for a subnet outside the space.
    """
    for subnet in subnets:
        require_in(supernet.space, subnet)
    order = sorted(range(len(subnets)), key=lambda i: (subnets[i].embed_dim, _layers(subnets[i])))
    networks: dict[tuple[int, Layer], AutoFormer] = {}
    for subnet in subnets:
        for layer in _layers(subnet):
            if (subnet.embed_dim, layer) not in networks:
                networks[subnet.embed_dim, layer] = _even_network(supernet, subnet.embed_dim, layer)
    right, losses = [0] * len(subnets), [0.0] * len(subnets)
    for images, labels in zip(split.images.split(EVAL_BATCH), split.labels.split(EVAL_BATCH), strict=True):
        width, values = 0, [images]  # of the last subnet: its width, its layers, and what each of them was given
        done: tuple[Layer, ...] = ()
        for i in order:
            layers = _layers(subnets[i])
            stem = networks[subnets[i].embed_dim, layers[0]]
            if subnets[i].embed_dim != width:
                width, values, done = subnets[i].embed_dim, [stem.tokens(images)], ()
            shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(done, layers, strict=False))))
            del values[shared + 1 :]
            for number in range(shared, len(layers)):
                network = networks[width, layers[number]]
                values.append(network.blocks[number](values[-1], network.places))
            logits = stem.classify(values[-1])
            right[i] += int((logits.argmax(-1) == labels).sum())
            losses[i] += float(functional.cross_entropy(logits, labels, reduction="sum"))
            done = layers
    return [(100 * n / len(split), total / len(split)) for n, total in zip(right, losses, strict=True)]


def _layers(subnet: AutoFormerSubnet) -> tuple[Layer, ...]:
    return tuple(zip(subnet.heads, subnet.mlp_ratios, strict=True))


def _even_network(supernet: Supernet, width: int, layer: Layer) -> AutoFormer:
    """The deepest subnet that is the same in every layer: it holds the blocks that any subnet has of this kind."""
    depth = max(supernet.space.depths)
    heads, ratio = layer
    subnet = AutoFormerSubnet(width, (heads,) * depth, (ratio,) * depth, supernet.space.head_dim)
    return supernet.extract(subnet).eval()
