"""A row on the spot: what the table would hold of a graph that it lacks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from attnbench.nn.data import load_splits
from attnbench.nn.operators import compile_graph
from attnbench.nn.protocol import protocol as protocol_of
from attnbench.nn.train import RunOutcome, train_run
from attnbench.space.graph import Graph
from attnbench.space.parse import parse


def measure(
    graph: Graph | str,
    *,
    backbone: str = "deit",
    protocol: str = "fmnist-micro",
    seed: int = 0,
    dataset: str | os.PathLike[str] | None = None,
    device: str = "cpu",
) -> RunOutcome:
    """Trains one graph with the table's protocol, as its rows were trained: half a minute for fmnist-micro.

    dataset: directory of Fashion-MNIST's files; by default the system's, else they are downloaded once.
    Raises: InvalidGraph, DataError, ValueError (unknown protocol or backbone).
    """
    recipe = protocol_of(protocol)
    module = compile_graph(parse(graph) if isinstance(graph, str) else graph)
    splits = load_splits(recipe, None if dataset is None else Path(dataset))
    with one_thread():
        return train_run(module, backbone, recipe, seed, splits, device=device)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, as for the published rows: the number of threads changes the order of sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
