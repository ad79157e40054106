"""Scores of one model by any of the proxies, and the batch that some of them look at."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from attnbench.nn.data import Split
from attnbench.nn.proxies.layers import classifiers
from attnbench.nn.proxies.registry import PROXIES, Proxy, proxy

BATCH_SIZE = 32
BATCH_SEED = 0


@dataclass(frozen=True)
class Score:
    """One value of one proxy or of a part of it, as a row of `proxies` holds it.

    value: None where status is "nonfinite": NaN or infinite. seconds: of the whole proxy, for its parts too.
    """

    proxy: str
    value: float | None
    seconds: float
    status: Literal["ok", "nonfinite"]


def score(
    model: nn.Module,
    image_shape: tuple[int, int, int],
    *,
    batch: Split | None = None,
    names: Iterable[str | Proxy] = tuple(PROXIES),
    dtype: torch.dtype = torch.float64,
) -> list[Score]:
    """Every value of these proxies on one model, which stays as it was.

    names: of the registry, or proxies of the caller's own. image_shape: channels, rows, cols. batch: what the proxies
    that need data look at; the others never do. dtype: what they compute in, torch.float64 or torch.float32.
    Raises: ValueError (an unknown proxy; no batch for a proxy that needs one, or one that is not of such images and
    labels; a model without parameters; another dtype; see `layers_by_role`).
    """
    if dtype not in (torch.float64, torch.float32):
        raise ValueError(f"dtype is {dtype!r}; proxies compute in torch.float64 or torch.float32.")
    if next(model.parameters(), None) is None:
        raise ValueError(f"{type(model).__name__} has no parameters; proxies score the weights of a network.")
    if batch is not None:
        require_images(batch, image_shape)
    scores = []
    for name in (names,) if isinstance(names, str) else names:
        entry = name if isinstance(name, Proxy) else proxy(name)
        inputs: tuple[object, ...] = (image_shape,)
        if entry.data != "none":
            if batch is None:
                raise ValueError(f"proxy {entry.name!r} needs {entry.data}, but no batch was given; pass batch=….")
            inputs = (batch.images,)
            if entry.data == "labelled images":
                require_classes(batch, model)
                inputs = (batch.images, batch.labels)
        start = time.perf_counter()
        values = entry.function(model, *inputs, dtype=dtype)
        seconds = time.perf_counter() - start
        for column in entry.columns:
            finite = math.isfinite(values[column])
            scores.append(Score(column, values[column] if finite else None, seconds, "ok" if finite else "nonfinite"))
    return scores


def require_images(batch: Split, image_shape: tuple[int, int, int]) -> None:
    """Raises: ValueError where a batch is empty, has a label too many or too few, or images of another shape."""
    shape = tuple(batch.images.shape)
    if not len(batch) or shape != (len(batch), *image_shape):
        raise ValueError(
            f"the batch has images {shape} and {len(batch)} labels; expected one or more images of {image_shape} "
            "(channels, rows, cols), and a label for each."
        )


def require_classes(batch: Split, model: nn.Module) -> None:
    """Raises: ValueError for a label that is no class of the model."""
    heads = classifiers(model)
    if not heads:
        return  # its own outputs are the classes, how many only a pass would tell
    n_classes = min(len(head.weight) for head in heads)  # type: ignore[arg-type]
    if batch.labels.min() < 0 or batch.labels.max() >= n_classes:
        raise ValueError(
            f"the batch has labels from {batch.labels.min()} to {batch.labels.max()}; this model has the classes 0 to "
            f"{n_classes - 1}."
        )


def balanced_batch(split: Split, n: int = BATCH_SIZE, seed: int = BATCH_SEED) -> Split:
    """`n` images drawn by a seed, every class as often as any other, and the first n mod classes once more.

    In order of drawing: one of each class, then one of each again. Not flipped or otherwise augmented.
    Raises: ValueError where a class has too few images, or n is not positive.
    """
    if n < 1 or not len(split):
        raise ValueError(f"cannot draw {n} of {len(split)} images; expected a number from 1 to as many as there are.")
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(split), generator=generator)
    classes = split.labels.unique().tolist()
    drawn = [order[split.labels[order] == label] for label in classes]
    each = -(-n // len(classes))
    if min(map(len, drawn)) < each:
        raise ValueError(
            f"{n} images of {len(classes)} classes take up to {each} of each; the rarest has {min(map(len, drawn))}. "
            "Draw fewer."
        )
    chosen = torch.stack([places[:each] for places in drawn], 1).flatten()[:n]
    return Split(split.images[chosen], split.labels[chosen])
