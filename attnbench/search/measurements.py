"""What a simulated search is answered from: one seed's validation, what a run costs, and a sealed test column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from attnbench.dataset.schema import PROTOCOL_CLASSES

if TYPE_CHECKING:
    from attnbench.search.simulation import Simulation


class MeasuredRun(NamedTuple):
    """One training run: what `Measurements` needs of a row of `runs`.

    seconds: simulated price of the run, steps × step_ms / 1000; None where the step was not timed.
    """

    key: str
    seed: int
    val_top1_percent: float
    test_top1_percent: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Reference:
    """What regret is taken against: the best mean validation accuracy over the reference seeds.

    definition: "other seeds" (every function the shown seed covers has at least one run with another seed; the shown
    seed is left out, so the search cannot win by its luck), "shown seed" (some function has no other seed; regret is
    taken on the very values the searcher saw, and is too kind), or "truth" (runs of another kind than those shown, such
    as training from scratch where a supernet's accuracy was shown; over the functions that have them).
    The best of many noisy means is itself partly lucky, so even a perfect choice has a small positive regret.
    """

    definition: str
    seeds: tuple[int, ...]
    best_key: str
    best_val_top1_percent: float
    n: int


class Tables(Protocol):
    """The part of a `Benchmark` that is read: a table by name, as a frame or an arrow table."""

    def table(self, name: str) -> object: ...


class Measurements:
    """The runs of one backbone under one protocol, indexed once for any number of simulated searches.

    The searcher's side sees `value` and `seconds` of the shown seed. Accuracies of other seeds serve regret, test
    accuracies the final report: both are given out by `reveal` alone, for a finished simulation.
    truth: runs by which regret and test accuracy are taken instead, for any part of the functions.
    """

    def __init__(self, runs: Iterable[MeasuredRun], *, shown_seed: int = 0, truth: Iterable[MeasuredRun] | None = None):
        by_key = _by_key(runs)
        shown = {key: by_key[key][shown_seed] for key in sorted(by_key) if shown_seed in by_key[key]}
        if not shown:
            seeds = sorted({seed for runs_of in by_key.values() for seed in runs_of})
            raise ValueError(f"no run has seed {shown_seed}; stored seeds: {seeds}. Show the searcher one of them.")
        self.shown_seed = shown_seed
        self.value: Mapping[str, float] = {key: run.val_top1_percent for key, run in shown.items()}
        self.seconds: Mapping[str, float | None] = {key: run.seconds for key, run in shown.items()}
        self.has_other_seeds: frozenset[str] = frozenset(key for key in shown if len(by_key[key]) > 1)
        hidden = None if truth is None else _by_key(truth)
        # Which functions can be judged is no secret; how well they did is.
        self.is_judged: frozenset[str] = self.has_other_seeds if hidden is None else frozenset(hidden)
        self.reveal = _sealed({key: by_key[key] for key in shown}, shown_seed, hidden)

    def __len__(self) -> int:
        return len(self.value)

    @classmethod
    def from_benchmark(
        cls,
        bench: Tables,
        *,
        backbone: str = "deit",
        protocol: str = "fmnist-micro",
        shown_seed: int = 0,
        truth_protocol: str | None = None,
        n_epochs: int = 5,
        steps_per_epoch: int = 200,
    ) -> Measurements:
        """The runs of one backbone, read from the tables `runs` and `costs`.

        A diverged run counts as chance in validation and is charged the epoch in which it diverged; a stopped run
        counts with its last validation value and is charged the epochs that it ran.
        truth_protocol: whose runs say what the choice is worth, such as "micro-scratch" where "micro-entangled" is
        shown; by default the other seeds do. n_epochs, steps_per_epoch: of the protocol, for the simulated clock.
        Raises: ValueError (no such runs; versions of a protocol mixed; no run with the shown seed).
        """
        columns = columns_of(bench.table("runs"))
        costs = columns_of(bench.table("costs"))
        step_ms = {
            key: ms for key, of, ms in zip(costs["key"], costs["backbone"], costs["step_ms"], strict=True)
            if of == backbone and _known(ms)
        }  # fmt: skip
        clock = _Clock(step_ms, n_epochs, steps_per_epoch)
        truth = None if truth_protocol is None else _runs_of(columns, backbone, truth_protocol, clock)
        return cls(_runs_of(columns, backbone, protocol, clock), shown_seed=shown_seed, truth=truth)


class _Clock(NamedTuple):
    """What prices a run: milliseconds of a step by key, and the protocol's length."""

    step_ms: Mapping[str, float]
    n_epochs: int
    steps_per_epoch: int


def _runs_of(runs: Mapping[str, Sequence[Any]], backbone: str, protocol: str, clock: _Clock) -> list[MeasuredRun]:
    """Raises: ValueError where there are none, or two versions of the protocol."""
    names = ("key", "backbone", "protocol", "protocol_hash", "seed", "status", "val_curve")
    values = ("val_top1_percent", "test_top1_percent")
    measured, versions = [], set()
    for row in zip(*(runs[name] for name in names + values), strict=True):
        key, of, recipe, version, seed, status, curve, val, test = row
        if of != backbone or recipe != protocol:
            continue
        versions.add(version)
        diverged = status == "diverged"
        # A curve holds finished epochs; a run may also diverge in its last evaluation, when all are finished.
        n_run = min((0 if curve is None else len(curve)) + diverged, clock.n_epochs)
        step_ms = clock.step_ms.get(key)
        seconds = None if step_ms is None else n_run * clock.steps_per_epoch * step_ms / 1000
        val = 100 / PROTOCOL_CLASSES[protocol] if diverged else float(val)
        measured.append(MeasuredRun(key, int(seed), val, float(test) if _known(test) else None, seconds))
    if not measured:
        have = sorted({f"{b} {p}" for b, p in zip(runs["backbone"], runs["protocol"], strict=True)})
        raise ValueError(f"no runs of {protocol!r} on {backbone!r}; stored: {', '.join(have) or 'none'}.")
    if len(versions) > 1:
        raise ValueError(
            f"runs of {protocol!r} on {backbone!r} come from {len(versions)} versions of the protocol "
            f"({', '.join(sorted(versions))}), which must not be compared. Keep one protocol_hash."
        )
    return measured


def _by_key(runs: Iterable[MeasuredRun]) -> dict[str, dict[int, MeasuredRun]]:
    """Each function's runs by seed. Raises: ValueError (two runs of one seed; no accuracy; no price)."""
    by_key: dict[str, dict[int, MeasuredRun]] = {}
    for run in runs:
        if run.seed in by_key.setdefault(run.key, {}):
            raise ValueError(f"{run.key} has two runs with seed {run.seed}; keep one row per key and seed.")
        if not isfinite(run.val_top1_percent):
            raise ValueError(
                f"{run.key}, seed {run.seed}: val_top1_percent is {run.val_top1_percent!r}; "
                "give a number, chance for a run that diverged."
            )
        if run.seconds is not None and not 0 <= run.seconds < inf:
            raise ValueError(
                f"{run.key}, seed {run.seed}: seconds is {run.seconds!r}; "
                "give a number from 0, None where the step was not timed."
            )
        by_key[run.key][run.seed] = run
    return by_key


class Revealed(NamedTuple):
    """What a finished search may know: the reference, each key's mean over its seeds, and the choice's test runs."""

    reference: Reference | None
    mean: Mapping[str, float]
    test_top1_percent: tuple[float, ...]


def _sealed(
    runs: dict[str, dict[int, MeasuredRun]], shown_seed: int, truth: dict[str, dict[int, MeasuredRun]] | None
) -> Callable[[Simulation[Any]], Revealed]:
    """A function that alone holds the hidden columns, and opens for finished simulations only."""
    hidden = {
        "shown seed": {key: {shown_seed: of[shown_seed]} for key, of in runs.items()},
        "other seeds": {key: {seed: of[seed] for seed in of if seed != shown_seed} for key, of in runs.items()},
        "truth": truth or {},
    }
    mean_of = {
        definition: {key: fmean(run.val_top1_percent for run in of.values()) for key, of in rows.items() if of}
        for definition, rows in hidden.items()
    }

    def reveal(simulation: Simulation[Any]) -> Revealed:
        """Raises: ValueError before the simulation is finished."""
        if not simulation.is_finished:
            raise ValueError("the search is not finished; finish() it, which ends its budget, to see what was hidden.")
        rows = runs if truth is None else truth
        keys = [key for key in simulation.space.keys if key in rows]
        definition = "truth"
        if truth is None:
            definition = "other seeds" if all(hidden["other seeds"][key] for key in keys) else "shown seed"
        mean = mean_of[definition]
        reference = None
        if keys:
            best = max(map(mean.__getitem__, keys))
            seeds = set().union(*(hidden[definition][key] for key in keys))
            # Ties go to the first key in sorted order, so that the reference does not depend on row order.
            best_key = min(key for key in keys if mean[key] == best)
            reference = Reference(definition, tuple(sorted(seeds)), best_key, best, len(keys))
        chosen = rows.get(simulation.best_key or "", {})
        tests = [run.test_top1_percent for _, run in sorted(chosen.items())]
        # All or none: a mean over the runs that reached the end would praise a choice that fails with some seeds.
        known = tuple(value for value in tests if value is not None)
        return Revealed(reference, mean, known if len(known) == len(tests) else ())

    return reveal


def columns_of(table: object) -> Mapping[str, Sequence[Any]]:
    """Columns as lists, of an arrow table, a frame, or a mapping."""
    if isinstance(table, Mapping):
        return table
    if hasattr(table, "to_pydict"):
        return table.to_pydict()
    return table.to_dict("list")  # type: ignore[attr-defined]


def _known(value: object) -> bool:
    """Neither null nor NaN."""
    return value is not None and value == value
