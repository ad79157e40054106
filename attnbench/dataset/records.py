"""What a query answers: frozen records. Nothing here reads a file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from attnbench.dataset.schema import PROTOCOL_CLASSES, STATUSES
from attnbench.errors import DataError


class Scores(Mapping[str, float]):
    """A read-only mapping of proxy name to score; hashable and picklable, unlike mappingproxy."""

    __slots__ = ("_items",)
    _items: tuple[tuple[str, float], ...]

    def __init__(self, scores: Mapping[str, float] | None = None) -> None:
        object.__setattr__(self, "_items", tuple(sorted(scores.items())) if scores else ())

    def __getitem__(self, name: str) -> float:
        for key, value in self._items:
            if key == name:
                return value
        raise KeyError(f"no proxy {name!r} is stored; stored: {', '.join(self) or 'none'}")

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(self._items)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("scores are read-only; copy them with dict(scores)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("scores are read-only; copy them with dict(scores)")

    def __reduce__(self) -> tuple[type[Scores], tuple[dict[str, float]]]:
        return Scores, (dict(self._items),)

    def __repr__(self) -> str:
        return repr(dict(self._items))


@dataclass(frozen=True, slots=True)
class Run:
    """One training run, as one row of `runs`.

    `val_top1_percent` is the validation top-1 after the last epoch that ran; a run with status "diverged"
    counts as chance there (10.0 on ten classes), while its curves stay as measured. Test values are None
    unless status is "ok". Units and meanings of every field: `dataset/schema.py`, table `runs`.
    """

    seed: int
    status: str
    val_curve: tuple[float, ...]
    val_loss_curve: tuple[float, ...]
    train_loss_curve: tuple[float, ...]
    val_top1_percent: float
    val_loss: float | None
    test_top1_percent: float | None
    test_loss: float | None
    train_seconds: float
    text: str
    protocol_hash: str
    device: str
    torch_version: str
    code_version: str
    finished_at: str


@dataclass(frozen=True, slots=True)
class Costs:
    """What one architecture costs on one backbone, as one row of `costs`: counts, and ms where it was timed."""

    key: str
    backbone: str
    params: int
    macs: int
    step_ms: float | None


@dataclass(frozen=True, slots=True)
class Result:
    """What the table knows of one architecture on one backbone under one protocol.

    val_top1_percent: mean over the runs; val_top1_sd_percent: their sample standard deviation (n - 1),
    None with one run. test_top1_percent: mean test top-1, None unless every run reached the last epoch, so
    that no survivors are averaged. status: "ok" if every run is, else the worst of the runs ("diverged" is
    worse than "stopped"). proxies: mean over weight seeds of the scores that are finite for every seed.
    params, macs and step_ms are None where they were not measured.
    """

    key: str
    text: str
    names: tuple[str, ...]
    backbone: str
    protocol: str
    val_top1_percent: float
    val_top1_sd_percent: float | None
    test_top1_percent: float | None
    n_seeds: int
    status: str
    runs: tuple[Run, ...]
    proxies: Scores
    params: int | None
    macs: int | None
    step_ms: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers, ready for JSON: what is not finite (after a divergence) is None."""
        return _plain(self)


def _plain(value: Any) -> Any:
    if isinstance(value, (Result, Run)):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Scores):
        return dict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def chance_percent(protocol: str) -> float:
    """Top-1 of guessing under a protocol, in percent.

    Raises: DataError for a protocol whose number of classes is not known.
    """
    if protocol not in PROTOCOL_CLASSES:
        raise DataError(
            f"the number of classes of protocol {protocol!r} is not known, so a diverged run has no chance level; "
            f"known protocols: {', '.join(sorted(PROTOCOL_CLASSES))}. Add it to PROTOCOL_CLASSES in dataset/schema.py."
        )
    return 100.0 / PROTOCOL_CLASSES[protocol]


def summarise(runs: tuple[Run, ...]) -> tuple[float, float | None, float | None, str]:
    """Mean validation, its sample sd, mean test and status of some runs, by the rules of `Result`."""
    values = [run.val_top1_percent for run in runs]
    mean = math.fsum(values) / len(values)  # exact sums: no order of rows changes a digit
    spread = None
    if len(values) > 1:
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    tests = [run.test_top1_percent for run in runs]
    test = None if any(value is None for value in tests) else math.fsum(tests) / len(tests)  # type: ignore[arg-type]
    return mean, spread, test, max((run.status for run in runs), key=STATUSES.index)
