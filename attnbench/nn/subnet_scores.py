"""Proxies on the networks of subnets: which weights and images they see, and what was scored before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import nn
from torch.nn import functional

from attnbench.dataset.score_log import Question, ScoreLog
from attnbench.nn.data import Split, load_splits
from attnbench.nn.protocol import protocol
from attnbench.nn.proxies.dss import dss
from attnbench.nn.proxies.registry import PROXIES, Direction, Proxy
from attnbench.nn.proxies.score import BATCH_SEED, BATCH_SIZE, balanced_batch, score
from attnbench.nn.subnet import NETWORKS_VERSION, build_subnet
from attnbench.nn.supernet import Supernet, build_supernet
from attnbench.space.subnet import Subnet
from attnbench.space.subnet_cost import Frame, SubnetCost, subnet_cost
from attnbench.space.subnet_spaces import SubnetSpace, require_in

Weights = Literal["own", "shared"]
Images = Literal["noise", "fashion-mnist"]
Precision = Literal["float64", "float32"]


def dss_released(model: nn.Module, image_shape: tuple[int, int, int], *, dtype: torch.dtype) -> dict[str, float]:
    """DSS as TF-TAS's released code arrives at it, under names of its own; see `dss`."""
    return {_released(name): value for name, value in dss(model, image_shape, form="released", dtype=dtype).items()}


def _released(name: str) -> str:
    return name.replace("dss", "dss-released")


def subnet_proxies() -> dict[str, Proxy]:
    """The registry, and beside it `dss-released`."""
    known = PROXIES["dss"]
    columns = {_released(name): direction for name, direction in known.columns.items()}
    return PROXIES | {"dss-released": replace(known, name="dss-released", function=dss_released, columns=columns)}


def columns_of_proxies(names: Iterable[str]) -> dict[str, Direction]:
    """The columns that names of proxies mean, and which end of each is better.

    A proxy's own value, or its parts where it has none; a part such as "dss.mlp" means itself; "all" is every proxy.
    Raises: ValueError for an unknown name.
    """
    known = subnet_proxies()
    columns = {column: direction for entry in known.values() for column, direction in entry.columns.items()}
    chosen: dict[str, Direction] = {}
    for name in names:
        for one in known if name == "all" else (name,):
            own = [one] if one in columns else list(known[one].columns) if one in known else []
            if not own:
                raise ValueError(f"unknown proxy {one!r}; known: {', '.join(known)}, parts such as dss.mlp, and all.")
            chosen |= {column: columns[column] for column in own}
    return chosen


@dataclass(frozen=True)
class Scoring:
    """What a score depends on beside subnet and proxy.

    weights: "own", each subnet is initialised by itself with `weight_seed`; "shared", as in TF-TAS, all are slices of
    one supernet that is. images: for the proxies that look at some; "noise" is N(0, 1) as TF-TAS has it, with random
    labels; "fashion-mnist" is training images, resized, as many of each class. precision: what is computed in.
    n_images: how many of them, two or more.
    """

    space: SubnetSpace
    weights: Weights = "own"
    weight_seed: int = 0
    images: Images = "noise"
    precision: Precision = "float64"
    n_images: int = BATCH_SIZE

    def __post_init__(self) -> None:
        if self.n_images < 2:
            raise ValueError(f"n_images: expected two or more, which proxies can compare, got {self.n_images}.")
        for name, choices in (("weights", Weights), ("images", Images), ("precision", Precision)):
            if getattr(self, name) not in get_args(choices):
                words = " or ".join(map(repr, get_args(choices)))
                raise ValueError(f"{name}: expected {words}, got {getattr(self, name)!r}.")


class SubnetScorer:
    """Scores subnets by columns of proxies, "params" and "macs" among them, and logs what it computed.

    dataset: folder of Fashion-MNIST's files, for `images="fashion-mnist"`. code_version: of the package; scores of
    another one are not taken from the log.
    """

    def __init__(self, scoring: Scoring, log: ScoreLog, *, dataset: Path | None = None, code_version: str = ""):
        self.scoring, self.log, self.dataset, self.code_version = scoring, log, dataset, code_version
        self._entries = {column: entry for entry in subnet_proxies().values() for column in entry.columns}

    def __call__(self, subnet: Subnet, columns: Iterable[str]) -> dict[str, float | None]:
        """Each column's value; None where it is NaN or infinite.

        Raises: KeyError for an unknown column, see `columns_of_proxies`; InvalidSubnet for a subnet outside the space.
        """
        require_in(self.scoring.space, subnet)
        columns = list(columns)
        lacking = {self._entries[name].name: self._entries[name] for name in columns if not self.is_known(subnet, name)}
        if lacking:
            self._compute(subnet, lacking.values())
        costs = subnet_cost(subnet, self.scoring.space.frame)._asdict()
        return {
            name: float(costs[name]) if name in costs else self.log[self._question(subnet, name)].value
            for name in columns
        }

    def is_known(self, subnet: Subnet, column: str) -> bool:
        """Whether a value needs no computing."""
        return column in SubnetCost._fields or self.log.get(self._question(subnet, column)) is not None

    @cached_property
    def batch(self) -> Split:
        """The images that proxies look at, in the space's frame."""
        return _batch(self.scoring.images, self.scoring.n_images, self.scoring.space.frame, self.dataset)

    @cached_property
    def _supernet(self) -> Supernet:
        return build_supernet(self.scoring.space, self.scoring.weight_seed)  # type: ignore[arg-type]

    def _model(self, subnet: Subnet) -> nn.Module:
        if self.scoring.weights == "shared":
            return self._supernet.extract(subnet)  # type: ignore[arg-type]
        return build_subnet(subnet, self.scoring.space.frame, self.scoring.weight_seed)

    def _compute(self, subnet: Subnet, entries: Iterable[Proxy]) -> None:
        model, frame = self._model(subnet), self.scoring.space.frame
        shape = (frame.n_channels, frame.image_size, frame.image_size)
        for entry in entries:
            batch = None if entry.data == "none" else self.batch
            dtype = getattr(torch, self.scoring.precision)
            for found in score(model, shape, batch=batch, names=[entry], dtype=dtype):
                self.log.add(self._question(subnet, found.proxy), found.value, found.seconds)

    def _question(self, subnet: Subnet, column: str) -> Question:
        scoring = self.scoring
        seen = {} if self._entries[column].data == "none" else {"n_images": scoring.n_images}
        return seen | {
            "key": subnet.key,
            "text": subnet.text,
            "space": scoring.space.name,
            "proxy": column,
            "weights": scoring.weights,
            "weight_seed": scoring.weight_seed,
            "images": None if self._entries[column].data == "none" else scoring.images,
            "precision": scoring.precision,
            "networks": NETWORKS_VERSION,
            "version": self.code_version,
        }


def _batch(images: Images, n: int, frame: Frame, dataset: Path | None) -> Split:
    size = (frame.image_size, frame.image_size)
    if images == "noise":
        generator = torch.Generator().manual_seed(BATCH_SEED)
        pixels = torch.randn(n, frame.n_channels, *size, generator=generator)
        return Split(pixels, torch.randint(frame.n_classes, (n,), generator=generator))
    batch = balanced_batch(load_splits(protocol("fmnist-micro"), dataset).train, n)
    pixels = functional.interpolate(batch.images, size, mode="bilinear", align_corners=False)
    return Split(pixels.expand(-1, frame.n_channels, -1, -1).contiguous(), batch.labels)
