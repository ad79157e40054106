"""Units of work on a Ray cluster, started here or joined by its address; a fraction of a GPU for each if wanted."""

from __future__ import annotations

import math
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from builders.engine import MAX_TRIES, Cluster, Done, SetupFailed, Unit, time_for

OBJECT_STORE_BYTES = 80 * 2**20  # about the least that Ray takes; units and rows are small
# In a worker process: what the setup of a series of units came to, once it has run here.
_setups: dict[str, Exception | None] = {}


def run_on_ray(
    units: Iterable[Unit],
    work: Callable[[Unit], Any],
    workers: int,
    setup: Callable[..., None] | None,
    setup_args: tuple[Any, ...],
    until: float | None,
    cluster: Cluster,
) -> Iterator[Done[Unit]]:
    """What `run_units` does, on Ray. workers: units in flight at once, as far as the cluster holds them.

    Ray itself runs a unit again whose worker or node was lost. Raises: SetupFailed, ValueError (no workers).
    """
    if workers < 1:
        raise ValueError(f"Ray runs units on workers of its own; it was given {workers}, pass 1 or more.")
    # Read when Ray is imported: by itself it tries for a quarter of an hour to join what listens but is no cluster.
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "2")
    try:
        import ray
    except ImportError:
        raise SetupFailed("Ray is not installed; `pip install 'attnbench[cluster]'`, or leave --engine out.") from None
    ours = not ray.is_initialized()
    if ours:
        start(cluster, workers)
    try:
        require_room(cluster)
        # max_calls: a process that ran a unit on a GPU would end with it, and the next unit load all of torch again.
        task = ray.remote(num_cpus=cluster.cpus, num_gpus=cluster.gpus, max_retries=MAX_TRIES - 1, max_calls=0)(_run)
        series = uuid.uuid4().hex
        waiting = iter(units)
        running: dict[Any, tuple[Unit, float]] = {}
        longest = 0.0
        while True:
            while len(running) < workers and time_for(longest, until):
                unit = next(waiting, None)
                if unit is None:
                    break
                running[task.remote(series, work, unit, setup, setup_args)] = unit, time.monotonic()
            if not running:
                return
            (ended,), _ = ray.wait(list(running), num_returns=1)
            unit, started = running.pop(ended)
            seconds = time.monotonic() - started
            longest = max(longest, seconds)
            result, error = None, None
            try:
                result = ray.get(ended)
            except ray.exceptions.RayTaskError as raised:
                error = raised.cause
            except ray.exceptions.RayError as lost:
                error = lost
            if isinstance(error, SetupFailed):
                raise error
            yield Done(unit, result, error, seconds)
    finally:
        if ours:
            ray.shutdown()


def start(cluster: Cluster, workers: int) -> None:
    """Joins the cluster at the address, or starts one here with room for the workers.

    A cluster is sent the code of this checkout. Raises: SetupFailed where none can be joined at the address.
    """
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if cluster.address is None:
        options |= {
            "address": "local",  # without it, Ray joins whatever cluster it finds on this machine
            "num_cpus": math.ceil(workers * cluster.cpus),
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            # Ray's own value, 15, leaves nearly nothing to a unit beside any other busy process.
            "_system_config": {"worker_niceness": 0},
        }
    else:
        root = Path(__file__).resolve().parent.parent
        options |= {
            "address": cluster.address,
            "runtime_env": {"py_modules": [str(root / "attnbench"), str(root / "builders")]},
        }
        require_answer(cluster.address)
    try:
        ray.init(**options)
    except ConnectionError as error:
        if cluster.address is None:
            raise
        raise SetupFailed(
            f"the Ray cluster at {cluster.address} cannot be joined: {error}. The address is the one that `ray start "
            f"--head` printed, not the dashboard's; it must run this version of Ray, {ray.__version__}; one that was "
            "started with token authentication wants RAY_AUTH_MODE=token here, too."
        ) from None


def require_answer(address: str) -> None:
    """Raises: SetupFailed where nothing listens at "host:port", for which Ray itself would wait for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError, OverflowError) as error:
        raise SetupFailed(
            f"no Ray cluster answers at {address!r} ({error}). Pass the host:port that `ray start --head` printed, or "
            "leave --address out to start Ray on this machine."
        ) from None


def require_room(cluster: Cluster) -> None:
    """Raises: SetupFailed where no node could ever hold a unit, for which Ray would wait without end."""
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= cluster.cpus and node.get("GPU", 0) >= cluster.gpus for node in nodes):
        have = "; ".join(f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs" for node in nodes)
        raise SetupFailed(
            f"a unit asks for {cluster.cpus:g} CPUs and {cluster.gpus:g} GPUs, which no node of the cluster has "
            f"({have}). Ask for less, or add a node."
        )


def _run(
    series: str,
    work: Callable[[Unit], Any],
    unit: Unit,
    setup: Callable[..., None] | None,
    setup_args: tuple[Any, ...],
) -> Any:
    if series not in _setups:
        _setups[series] = _attempt(setup, setup_args)
    failure = _setups[series]
    if failure is not None:
        raise SetupFailed(f"{type(failure).__name__}: {failure}")
    return work(unit)


def _attempt(setup: Callable[..., None] | None, setup_args: tuple[Any, ...]) -> Exception | None:
    try:
        if setup:
            setup(*setup_args)
    except Exception as error:
        return error
    return None
