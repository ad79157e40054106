"""Units of work in this process, on local processes, or on a Ray cluster.

Whoever asks for them takes each result as it comes, so that a kill at any moment loses at most the units in flight.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Unit = TypeVar("Unit")
MAX_TRIES = 3
ENGINES = ("processes", "ray")
# What went wrong in this worker's setup.
_failed_setups: list[Exception] = []


class SetupFailed(Exception):
    """A worker could not be made ready; no unit can run."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where Ray runs, and what each unit takes of it.

    address: of a cluster that runs already, such as "10.0.0.1:6379"; None starts one here.
    cpus, gpus: of one unit; fractions share a core or a GPU. Raises: ValueError unless cpus > 0 and gpus >= 0.
    """

    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.cpus < math.inf and 0 <= self.gpus < math.inf):
            raise ValueError(
                f"a unit asks for {self.cpus:g} CPUs and {self.gpus:g} GPUs; expected more than 0 CPUs, such as 1 or "
                "0.5, and 0 GPUs or more."
            )


@dataclass(frozen=True, slots=True)
class Done(Generic[Unit]):
    """One unit's outcome: what the work returned, or why it failed."""

    unit: Unit
    result: Any
    error: BaseException | None
    seconds: float


def run_units(
    units: Iterable[Unit],
    work: Callable[[Unit], Any],
    *,
    workers: int,
    setup: Callable[..., None] | None = None,
    setup_args: tuple[Any, ...] = (),
    until: float | None = None,
    engine: str = "processes",
    cluster: Cluster | None = None,
) -> Iterator[Done[Unit]]:
    """Runs `work(unit)` for every unit, in order of start, and yields each as it ends.

    workers: processes; 0 runs in this one. setup: called once in each process before its first unit.
    until: a `time.monotonic()` after which no unit starts that, by the longest so far, would end later.
    engine: one of ENGINES; cluster: Ray's, by default one that is started here for these units.
    A unit whose worker died is tried again; one that raised is done. `work` and `setup` must be top-level functions.
    Raises: SetupFailed, ValueError (unknown engine, Ray without workers).
    """
    if engine not in ENGINES:
        raise ValueError(f"unknown engine {engine!r}; known: {', '.join(ENGINES)}.")
    if engine == "ray":
        from builders.engine_ray import run_on_ray  # Ray is an optional dependency

        yield from run_on_ray(units, work, workers, setup, setup_args, until, cluster or Cluster())
        return
    if workers == 0:
        yield from _in_process(units, work, setup, setup_args, until)
        return
    waiting = iter(units)
    again: list[tuple[Unit, int]] = []
    longest = 0.0
    while True:
        pool = ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_prepare,
            initargs=(setup, setup_args),
        )
        running: dict[Future[Any], tuple[Unit, int, float]] = {}
        broken = False
        try:
            while not broken:
                while len(running) < workers and time_for(longest, until):
                    unit, tries = again.pop(0) if again else (next(waiting, None), 0)
                    if unit is None:
                        break
                    try:
                        future = pool.submit(_run, work, unit)
                    except BrokenProcessPool:  # a worker died since the last look
                        again.append((unit, tries))
                        broken = True
                        break
                    running[future] = (unit, tries, time.monotonic())
                if broken:
                    break
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    unit, tries, started = running.pop(future)
                    seconds = time.monotonic() - started
                    error = future.exception()
                    if isinstance(error, SetupFailed):
                        raise error
                    if isinstance(error, BrokenProcessPool):
                        broken = True
                        if tries + 1 < MAX_TRIES:
                            again.append((unit, tries + 1))
                            continue
                    longest = max(longest, seconds)
                    yield Done(unit, None if error else future.result(), error, seconds)
            # Every unit in flight went down with the pool; each gets another try in a fresh one.
            for unit, tries, _ in running.values():
                again.append((unit, tries + 1))
        finally:
            _stop(pool)


def _in_process(
    units: Iterable[Unit],
    work: Callable[[Unit], Any],
    setup: Callable[..., None] | None,
    setup_args: tuple[Any, ...],
    until: float | None,
) -> Iterator[Done[Unit]]:
    if setup:
        try:
            setup(*setup_args)
        except Exception as failure:
            raise SetupFailed(f"{type(failure).__name__}: {failure}") from failure
    longest = 0.0
    for unit in units:
        if not time_for(longest, until):
            return
        started = time.monotonic()
        result: Any = None
        error: BaseException | None = None
        try:
            result = work(unit)
        except Exception as raised:
            error = raised
        seconds = time.monotonic() - started
        longest = max(longest, seconds)
        yield Done(unit, result, error, seconds)


def time_for(longest: float, until: float | None) -> bool:
    return until is None or time.monotonic() + longest < until


def _prepare(setup: Callable[..., None] | None, setup_args: tuple[Any, ...]) -> None:
    """In each worker: dies with its parent, however that dies, then does the caller's setup."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
    if setup:
        try:
            setup(*setup_args)
        except Exception as error:  # an initializer that raises would only break the pool, without saying why
            _failed_setups.append(error)


def _run(work: Callable[[Unit], Any], unit: Unit) -> Any:
    if _failed_setups:
        raise SetupFailed(f"{type(_failed_setups[0]).__name__}: {_failed_setups[0]}")
    return work(unit)


def _die_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _stop(pool: ProcessPoolExecutor) -> None:
    """Ends a pool at once: units in flight are lost, as with a kill."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()
