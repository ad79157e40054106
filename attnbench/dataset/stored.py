"""`Stored`: the tables of one release by key, each read when first needed, and the records made of their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attnbench.dataset.columns import Columns
from attnbench.dataset.records import Costs, Result, Run, Scores, chance_percent, summarise
from attnbench.dataset.schema import DEFAULT_BACKBONE
from attnbench.errors import InvalidSubnet, NoSuchRun

if TYPE_CHECKING:
    import pyarrow as pa


class Stored:
    """read: gives a table of the release by its name."""

    def __init__(self, read: Callable[[str], pa.Table]) -> None:
        self._read = read

    @cached_property
    def architectures(self) -> Columns:
        return Columns(self._read("architectures"))

    @cached_property
    def runs(self) -> Columns:
        return Columns(self._read("runs"))

    @cached_property
    def _costs(self) -> Columns:
        return Columns(self._read("costs"))

    @cached_property
    def _proxies(self) -> Columns:
        return Columns(self._read("proxies"))

    @cached_property
    def _published(self) -> Columns:
        return Columns(self._read("published"))

    def text(self, key: str) -> str:
        """The stored spelling of a key that has a row."""
        return str(self.architectures["text"][self._row(key)])

    def backbone(self, key: str) -> str:
        """Where an architecture is looked up when nothing is said: deit, or a subnet's space."""
        if not key.startswith("sn"):
            return DEFAULT_BACKBONE
        from attnbench.dataset.defaults import default_backbone
        from attnbench.space.subnet_text import parse_subnet

        try:
            return default_backbone(parse_subnet(self.text(key)))
        except InvalidSubnet:
            # A subnet of a space that has no name here can still be found where its rows are.
            everywhere = [name for table in (self.runs, self._costs, self._proxies) for name in _backbones(table, key)]
            return everywhere[0] if everywhere else "none"

    def has_runs(self, key: str, backbone: str, protocol: str) -> bool:
        """Whether some seed was trained; True also for what is no backbone or protocol, which `result` refuses."""
        try:
            return (key, backbone, protocol) in self.runs.rows_of("key", "backbone", "protocol")
        except TypeError:  # a list of protocols, say
            return True

    def result(self, key: str, backbone: str, protocol: str, seed: int | None) -> Result:
        """All that is known of an architecture under one protocol. Raises: NoSuchRun (what is stored)."""
        rows = self.runs.rows_of("key", "backbone", "protocol").get((key, backbone, protocol), ())
        made = [run for run in map(self._run, rows) if seed is None or run.seed == seed]
        if not made:
            raise NoSuchRun(self._what_is_stored(key, backbone, protocol, seed))
        runs = tuple(sorted(made, key=lambda run: run.seed))
        mean, spread, test, status = summarise(runs)
        row = self._row(key)
        params, macs, step_ms = self._cost(key, backbone)
        return Result(
            key=key,
            text=self.architectures["text"][row],
            names=self.architectures["names"][row],
            backbone=backbone,
            protocol=protocol,
            val_top1_percent=mean,
            val_top1_sd_percent=spread,
            test_top1_percent=test,
            n_seeds=len(runs),
            status=status,
            runs=runs,
            proxies=self._scores(key, backbone),
            params=params,
            macs=macs,
            step_ms=step_ms,
        )

    def costs(self, key: str, backbone: str) -> Costs:
        """Raises: NoSuchRun (the backbones on which a cost is stored)."""
        params, macs, step_ms = self._cost(key, backbone)
        if params is None or macs is None:
            raise NoSuchRun(self._only_on("costs", self._costs, key, backbone))
        return Costs(key, backbone, params, macs, step_ms)

    def proxies(self, key: str, backbone: str) -> Scores:
        """Raises: NoSuchRun (the backbones on which scores are stored)."""
        if (key, backbone) not in self._proxies.rows_of("key", "backbone"):
            raise NoSuchRun(self._only_on("zero-cost scores", self._proxies, key, backbone))
        return self._scores(key, backbone)

    def _row(self, key: str) -> int:
        return self.architectures.rows_of("key")[key][0]

    def _run(self, row: int) -> Run:
        run = Run(*[column[row] for column in self._run_columns])
        if run.status == "diverged":
            return replace(run, val_top1_percent=chance_percent(self.runs["protocol"][row]))
        return run

    @cached_property
    def _run_columns(self) -> tuple[Sequence[Any], ...]:
        return self.runs.several(*(field.name for field in fields(Run)))

    def _cost(self, key: str, backbone: str) -> tuple[int | None, int | None, float | None]:
        rows = self._costs.rows_of("key", "backbone").get((key, backbone))
        if rows is None:
            return None, None, None
        params, macs, step_ms = self._costs.several("params", "macs", "step_ms")
        return params[rows[0]], macs[rows[0]], step_ms[rows[0]]

    def _scores(self, key: str, backbone: str) -> Scores:
        rows = self._proxies.rows_of("key", "backbone").get((key, backbone))
        if rows is None:
            return Scores()
        name, value = self._proxies.several("proxy", "value")
        totals: dict[str, float] = {}
        counts: dict[str, int] = {}
        for row in rows:
            score = value[row]
            totals[name[row]] = totals.get(name[row], 0.0) + (math.nan if score is None else score)
            counts[name[row]] = counts.get(name[row], 0) + 1
        return Scores({name: total / counts[name] for name, total in totals.items() if math.isfinite(total)})

    # -- what to say where there is no row

    def _what_is_stored(self, key: str, backbone: str, protocol: str, seed: int | None) -> str:
        runs = self.runs
        seeds: dict[tuple[str, str], list[int]] = {}
        for row in runs.rows_of("key").get(key, ()):
            seeds.setdefault((runs["backbone"][row], runs["protocol"][row]), []).append(runs["seed"][row])
        text = self.text(key)
        if not seeds:
            from attnbench.dataset.absent import how_to_measure

            return (
                f"{text!r} ({key}) is in the benchmark, but no run of it is stored. {self._besides_runs(key)}"
                f"{how_to_measure(text)}"
            )
        stored = "; ".join(
            f"backbone {b!r}, protocol {p!r}, seeds {', '.join(map(str, sorted(s)))}"
            for (b, p), s in sorted(seeds.items())
        )
        asked = f"backbone {backbone!r}, protocol {protocol!r}" + ("" if seed is None else f", seed {seed!r}")
        return f"{text!r} ({key}) has no run with {asked}. Stored: {stored}. Leave seed out for the mean of all."

    def _besides_runs(self, key: str) -> str:
        """What is known of an architecture that was never trained, and how to get it."""
        ways = ((self._costs, "costs", "bench.costs(arch)"), (self._proxies, "zero-cost scores", "bench.proxies(arch)"))
        known = [f"{what} on {', '.join(on)}: {way}" for table, what, way in ways if (on := _backbones(table, key))]
        names = self.architectures["names"][self._row(key)]
        if set(names) & set(self._published["model"]):
            known.append("published figures: bench.table('published')")
        return f"Stored are its {' and its '.join(known)}. " if known else ""

    def _only_on(self, what: str, table: Columns, key: str, backbone: str) -> str:
        stored = ", ".join(_backbones(table, key)) or "none"
        return f"{self.text(key)!r} ({key}) has no {what} on backbone {backbone!r:.80}. Stored backbones: {stored}."


def _backbones(table: Columns, key: str) -> list[str]:
    return sorted({table["backbone"][row] for row in table.rows_of("key").get(key, ())})
