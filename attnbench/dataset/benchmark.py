"""`load()` and `Benchmark`: from an architecture, however it is given, to what was measured."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnbench.dataset.columns import Columns
from attnbench.dataset.download import resolve
from attnbench.dataset.files import Manifest, read_manifest, read_table
from attnbench.dataset.lookup import Lookup
from attnbench.dataset.records import Result, Run, Scores, chance_percent, summarise
from attnbench.dataset.schema import TABLES
from attnbench.errors import InvalidGraph, NoSuchRun
from attnbench.space.graph import Graph

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa


def load(source: str | os.PathLike[str] | None = None) -> Benchmark:
    """The benchmark: the tables that came with the package, or a release by path or URL (kept in a cache).

    Raises: DataError (no release there, files missing or cut, other schema version).
    """
    return Benchmark(resolve(source))


class Benchmark:
    """The tables of one release, read when first needed. Reads are pure; what they return is immutable or a copy.

    Architectures are given as a Graph, a formula, a genotype (Genotype or AttnZero's dictionary), a key
    (`ag1-…`), a name (`softmax`, `Trial 105`) or the six coordinates of a grid cell.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest: Manifest = read_manifest(directory)
        self._results: dict[tuple[str, str, str, int | None], Result] = {}

    def query(
        self, arch: Any, *, backbone: str = "deit", protocol: str = "fmnist-micro", seed: int | None = None
    ) -> Result:
        """What was measured of an architecture: the mean over seeds, or one seed's run.

        Raises: InvalidGraph (no architecture), NotInBenchmark (no row; the nearest ones), NoSuchRun (a row, but
        no such run; what is stored).
        """
        # A stored spelling is resolved here, without a call in between: searches ask the same thing many times.
        key = self._lookup.known.get(arch) if type(arch) is str else None
        if key is None:
            key = self._lookup.key(arch)
        try:
            found = self._results.get((key, backbone, protocol, seed))
        except TypeError:  # a list of seeds, say
            raise NoSuchRun(_one_of_each(backbone, protocol, seed)) from None
        if found is None:
            found = self._results[key, backbone, protocol, seed] = self._result(key, backbone, protocol, seed)
        return found

    def query_many(
        self,
        archs: Iterable[Any],
        *,
        backbone: str = "deit",
        protocol: str = "fmnist-micro",
        seed: int | None = None,
        missing: str = "raise",
    ) -> list[Result | None]:
        """`query` for each architecture, in order.

        missing: "raise", or "none" for None in place of an architecture that has no row or no such run.
        Raises: as `query`, for the first that fails; InvalidGraph always.
        """
        if missing not in ("raise", "none"):
            raise ValueError(f"missing is 'raise' or 'none', got {missing!r}")
        results: list[Result | None] = []
        for arch in archs:
            try:
                known = missing == "raise" or self._lookup.find(arch) is not None  # no need for rows like it
                found = self.query(arch, backbone=backbone, protocol=protocol, seed=seed) if known else None
            except NoSuchRun:
                if missing == "raise":
                    raise
                found = None
            results.append(found)
        return results

    def top(
        self,
        n: int = 10,
        *,
        backbone: str = "deit",
        protocol: str = "fmnist-micro",
        sound: bool = False,
        named: bool = False,
        min_seeds: int = 1,
    ) -> list[Result]:
        """The `n` best by mean validation top-1, ties by key; test is shown and never selects.

        sound: only graphs that pass every check; named: only named graphs; min_seeds: only those with as many runs.
        Raises: NoSuchRun where not one run has this backbone and protocol.
        """
        stored = sorted(set(zip(self._runs["backbone"], self._runs["protocol"], strict=True)))
        if (backbone, protocol) not in stored:
            known = "; ".join(f"backbone {b!r}, protocol {p!r}" for b, p in stored) or "none"
            raise NoSuchRun(f"no run has backbone {backbone!r:.80}, protocol {protocol!r:.80}. Stored: {known}.")
        kept = [
            key
            for key, sound_here, named_here in zip(
                self._architectures["key"],
                self._architectures["is_sound"],
                self._architectures["is_named"],
                strict=True,
            )
            if (sound_here or not sound) and (named_here or not named)
        ]
        results = [r for r in self.query_many(kept, backbone=backbone, protocol=protocol, missing="none") if r]
        results = [r for r in results if r.n_seeds >= min_seeds]
        return sorted(results, key=lambda r: (-r.val_top1_percent, r.key))[: max(n, 0)]

    def graph(self, arch: Any) -> Graph:
        """The graph of an architecture of the benchmark, in its stored spelling: from a key back to a formula.

        Raises: InvalidGraph, NotInBenchmark.
        """
        from attnbench.space.parse import parse

        return parse(self._architectures["text"][self._row(self._lookup.key(arch))])

    def table(self, name: str) -> pd.DataFrame:
        """A fresh pandas frame of a whole table: architectures, cells, costs, runs, proxies, rejections.

        Raises: LookupError for another name.
        """
        return self._arrow(name).to_pandas()

    def sql(self, statement: str, parameters: Any = None) -> pd.DataFrame:
        """The answer of one SELECT over the tables, in a DuckDB that reaches neither files nor the network.

        parameters: values for `?` or `$name` in the statement. Raises: InvalidSQL.
        """
        from attnbench.dataset.sql import select

        return select(self._database, statement, parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that `query` takes, sorted; upper and lower case are the same to it."""
        return self._lookup.names

    @property
    def tables(self) -> dict[str, int]:
        """Rows of each table of this release."""
        return {name: info.rows for name, info in self.manifest.tables.items()}

    def __contains__(self, arch: object) -> bool:
        """Whether the architecture has a row; False too for what is no architecture at all."""
        try:
            return self._lookup.find(arch) is not None
        except InvalidGraph:
            return False

    def __len__(self) -> int:
        return len(self._architectures["key"])

    def __iter__(self) -> Iterator[str]:
        """The keys of all architectures, sorted."""
        return iter(self._architectures["key"])

    def __repr__(self) -> str:
        rows = ", ".join(f"{rows} {name}" for name, rows in self.tables.items())
        return f"Benchmark(data {self.manifest.data_version}: {rows})"

    def __reduce__(self) -> tuple[type[Benchmark], tuple[Path]]:
        return Benchmark, (self.directory,)

    # -- from a key to a result

    def _row(self, key: str) -> int:
        return self._architectures.rows_of("key")[key][0]

    def _result(self, key: str, backbone: str, protocol: str, seed: int | None) -> Result:
        if not _is_seed(seed):
            raise NoSuchRun(_one_of_each(backbone, protocol, seed))
        rows = self._runs.rows_of("key", "backbone", "protocol").get((key, backbone, protocol), ())
        made = [run for run in map(self._run, rows) if seed is None or run.seed == seed]
        if not made:
            raise NoSuchRun(self._what_is_stored(key, backbone, protocol, seed))
        runs = tuple(sorted(made, key=lambda run: run.seed))
        mean, spread, test, status = summarise(runs)
        row = self._row(key)
        params, macs, step_ms = self._cost(key, backbone)
        return Result(
            key=key,
            text=self._architectures["text"][row],
            names=self._architectures["names"][row],
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

    def _run(self, row: int) -> Run:
        run = Run(*[column[row] for column in self._run_columns])
        if run.status == "diverged":
            return replace(run, val_top1_percent=chance_percent(self._runs["protocol"][row]))
        return run

    @cached_property
    def _run_columns(self) -> tuple[Sequence[Any], ...]:
        return self._runs.several(*(field.name for field in fields(Run)))

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

    def _what_is_stored(self, key: str, backbone: str, protocol: str, seed: int | None) -> str:
        runs = self._runs
        seeds: dict[tuple[str, str], list[int]] = {}
        for row in runs.rows_of("key").get(key, ()):
            seeds.setdefault((runs["backbone"][row], runs["protocol"][row]), []).append(runs["seed"][row])
        text = self._architectures["text"][self._row(key)]
        if not seeds:
            return (
                f"{text!r} ({key}) is in the benchmark, but no run of it is stored. Train it: "
                f"attnbench measure \"{text}\" (needs torch: pip install 'attnbench[nn]')."
            )
        stored = "; ".join(
            f"backbone {b!r}, protocol {p!r}, seeds {', '.join(map(str, sorted(s)))}"
            for (b, p), s in sorted(seeds.items())
        )
        asked = f"backbone {backbone!r}, protocol {protocol!r}" + ("" if seed is None else f", seed {seed!r}")
        return f"{text!r} ({key}) has no run with {asked}. Stored: {stored}. Leave seed out for the mean of all."

    # -- tables, each read once, when first needed

    def _arrow(self, name: str) -> pa.Table:
        if name not in TABLES:
            raise LookupError(f"no table {name!r}; tables: {', '.join(TABLES)}")
        return read_table(self.directory, name, self.manifest)

    @cached_property
    def _architectures(self) -> Columns:
        return Columns(self._arrow("architectures"))

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self._architectures, lambda: Columns(self._arrow("cells")))

    @cached_property
    def _runs(self) -> Columns:
        return Columns(self._arrow("runs"))

    @cached_property
    def _costs(self) -> Columns:
        return Columns(self._arrow("costs"))

    @cached_property
    def _proxies(self) -> Columns:
        return Columns(self._arrow("proxies"))

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        from attnbench.dataset.sql import sealed

        return sealed(self._arrow)


def _is_seed(seed: object) -> bool:
    """None, or a number of Python's, numpy's or a frame's."""
    return seed is None or isinstance(seed, Real)


def _one_of_each(backbone: object, protocol: object, seed: object) -> str:
    return (
        f"expected one backbone, one protocol and one seed (a whole number, or None for all), got backbone "
        f"{backbone!r:.80}, protocol {protocol!r:.80}, seed {seed!r:.80}. Ask for several one by one."
    )
