"""A row on the spot: what the table would hold of an architecture that it lacks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from attnbench.dataset.defaults import default_backbone, default_protocol
from attnbench.nn.data import load_splits
from attnbench.nn.operators import compile_graph
from attnbench.nn.protocol import protocol as protocol_of
from attnbench.nn.subnet_train import require_small_images, train_subnet
from attnbench.nn.train import RunOutcome, require_device, train_run
from attnbench.space.architecture import read_architecture
from attnbench.space.graph import Graph
from attnbench.space.subnet import Subnet


def measure(
    arch: Graph | Subnet | str,
    *,
    backbone: str | None = None,
    protocol: str | None = None,
    seed: int = 0,
    dataset: str | os.PathLike[str] | None = None,
    device: str = "cpu",
) -> RunOutcome:
    """Trains one graph or subnet with the table's protocol, as its rows were trained: half a minute for fmnist-micro.

    backbone and protocol: by default those of a query. dataset: directory of Fashion-MNIST's files; by default the
    system's, else they are downloaded once.
    Raises: InvalidGraph, InvalidSubnet, DataError, ValueError (unknown protocol or backbone; a space whose networks
    take other images; a device that is not here).
    """
    read = read_architecture(arch) if isinstance(arch, str) else arch
    recipe = protocol_of(default_protocol(read) if protocol is None else protocol)
    backbone = default_backbone(read) if backbone is None else backbone
    if isinstance(read, Subnet):
        require_small_images(backbone)
        train = partial(train_subnet, read)
    else:
        train = partial(train_run, compile_graph(read))
    require_device(device)
    splits = load_splits(recipe, None if dataset is None else Path(dataset))
    with one_thread():
        return train(backbone, recipe, seed, splits, device=device)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, as for the published rows: the number of threads changes the order of sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
