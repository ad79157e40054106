"""`load()` and `Benchmark`: from an architecture, however it is given, to what was measured."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnbench.dataset.columns import Columns
from attnbench.dataset.download import resolve
from attnbench.dataset.files import Manifest, read_manifest, read_table
from attnbench.dataset.lookup import Lookup
from attnbench.dataset.records import Costs, Result, Scores
from attnbench.dataset.schema import DEFAULT_BACKBONE, DEFAULT_PROTOCOL, TABLES
from attnbench.dataset.stored import Stored
from attnbench.errors import InvalidGraph, InvalidSubnet, NoSuchRun
from attnbench.space.graph import Graph
from attnbench.space.subnet import Subnet

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

    Attention is given as a Graph, a formula, a genotype (Genotype or AttnZero's dictionary), a key (`ag1-…`), a name
    (`softmax`, `Trial 105`) or the six coordinates of a grid cell; a subnet as a Subnet, its text `autoformer(…)` or
    `pit(…)`, the published code's dictionary, a key (`sn1-…`) or a published name (`AutoFormer-T`). Where nothing else
    is said, attention is looked up on `deit` under `fmnist-micro`, a subnet in its space under `micro-scratch`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest: Manifest = read_manifest(directory)
        self._results: dict[tuple[str, str | None, str | None, int | None], Result] = {}

    def query(
        self, arch: Any, *, backbone: str | None = None, protocol: str | None = None, seed: int | None = None
    ) -> Result:
        """What was measured of an architecture: the mean over seeds, or one seed's run.

        Raises: InvalidGraph, InvalidSubnet (no architecture), NotInBenchmark (no row; the nearest ones), NoSuchRun
        (a row, but no such run; what is stored).
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
        backbone: str | None = None,
        protocol: str | None = None,
        seed: int | None = None,
        missing: str = "raise",
    ) -> list[Result | None]:
        """`query` for each architecture, in order.

        missing: "raise", or "none" for None in place of an architecture that has no row or no such run.
        Raises: as `query`, for the first that fails; InvalidGraph and InvalidSubnet always.
        """
        if missing not in ("raise", "none"):
            raise ValueError(f"missing is 'raise' or 'none', got {missing!r}")
        results: list[Result | None] = []
        for arch in archs:
            try:
                known = missing == "raise" or self._has_runs(arch, backbone, protocol)
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
        backbone: str = DEFAULT_BACKBONE,
        protocol: str | None = None,
        sound: bool = False,
        named: bool = False,
        min_seeds: int = 1,
    ) -> list[Result]:
        """The `n` best by mean validation top-1, ties by key; test is shown and never selects.

        A backbone holds attention variants, a space such as `autoformer-micro` holds subnets. sound: only graphs that
        pass every check; named: only named ones; min_seeds: only those with as many runs.
        Raises: NoSuchRun where not one run has this backbone and protocol.
        """
        protocol = _default_protocol(backbone) if protocol is None else protocol
        stored = sorted(set(zip(self._stored.runs["backbone"], self._stored.runs["protocol"], strict=True)))
        if (backbone, protocol) not in stored:
            known = "; ".join(f"backbone {b!r}, protocol {p!r}" for b, p in stored) or "none"
            raise NoSuchRun(f"no run has backbone {backbone!r:.80}, protocol {protocol!r:.80}. Stored: {known}.")
        kept = [
            key
            for key, sound_here, named_here in zip(
                self._stored.architectures["key"],
                self._stored.architectures["is_sound"],
                self._stored.architectures["is_named"],
                strict=True,
            )
            if (sound_here or not sound)
            and (named_here or not named)
            and self._stored.has_runs(key, backbone, protocol)
        ]
        results = [self.query(key, backbone=backbone, protocol=protocol) for key in kept]
        results = [r for r in results if r.n_seeds >= min_seeds]
        return sorted(results, key=lambda r: (-r.val_top1_percent, r.key))[: max(n, 0)]

    def graph(self, arch: Any) -> Graph:
        """The graph of an architecture of the benchmark, in its stored spelling: from a key back to a formula.

        Raises: InvalidGraph (also for a subnet), NotInBenchmark.
        """
        found = self._architecture(arch)
        if isinstance(found, Subnet):
            raise InvalidGraph(f"{found.text!r} is a subnet and no graph; take subnet(…) in place of graph(…).")
        return found

    def subnet(self, arch: Any) -> Subnet:
        """The subnet of an architecture of the benchmark: from a key or name back to widths, depths and heads.

        Raises: InvalidSubnet (also for a graph), NotInBenchmark.
        """
        found = self._architecture(arch)
        if isinstance(found, Graph):
            raise InvalidSubnet(f"{found.text!r} is a graph and no subnet; take graph(…) in place of subnet(…).")
        return found

    def costs(self, arch: Any, *, backbone: str | None = None) -> Costs:
        """What an architecture costs, trained or not.

        Raises: as `query`; NoSuchRun where no cost is stored on this backbone.
        """
        return self._stored.costs(*self._on(arch, backbone))

    def proxies(self, arch: Any, *, backbone: str | None = None) -> Scores:
        """The zero-cost scores of an architecture, trained or not: means over weight seeds, finite ones only.

        Raises: as `query`; NoSuchRun where no score is stored on this backbone.
        """
        return self._stored.proxies(*self._on(arch, backbone))

    def table(self, name: str) -> pd.DataFrame:
        """A fresh pandas frame of a whole table; `tables` names them.

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
        except (InvalidGraph, InvalidSubnet):
            return False

    def __len__(self) -> int:
        return len(self._stored.architectures["key"])

    def __iter__(self) -> Iterator[str]:
        """The keys of all architectures, sorted."""
        return iter(self._stored.architectures["key"])

    def __repr__(self) -> str:
        rows = ", ".join(f"{rows} {name}" for name, rows in self.tables.items())
        return f"Benchmark(data {self.manifest.data_version}: {rows})"

    def __reduce__(self) -> tuple[type[Benchmark], tuple[Path]]:
        return Benchmark, (self.directory,)

    def _architecture(self, arch: Any) -> Graph | Subnet:
        from attnbench.space.architecture import read_architecture

        return read_architecture(self._stored.text(self._lookup.key(arch)))

    def _on(self, arch: Any, backbone: str | None) -> tuple[str, str]:
        key = self._lookup.key(arch)
        return key, self._stored.backbone(key) if backbone is None else backbone

    def _result(self, key: str, backbone: str | None, protocol: str | None, seed: int | None) -> Result:
        """Where nothing was said, the defaults; one record however it was asked for."""
        if not _is_seed(seed):
            raise NoSuchRun(_one_of_each(backbone, protocol, seed))
        backbone, protocol = self._usual(key, backbone, protocol)
        found = self._results.get((key, backbone, protocol, seed))
        if found is None:
            found = self._results[key, backbone, protocol, seed] = self._stored.result(key, backbone, protocol, seed)
        return found

    def _usual(self, key: str, backbone: str | None, protocol: str | None) -> tuple[str, str]:
        return (
            self._stored.backbone(key) if backbone is None else backbone,
            DEFAULT_PROTOCOL[_kind(key)] if protocol is None else protocol,
        )

    def _has_runs(self, arch: Any, backbone: str | None, protocol: str | None) -> bool:
        """Whether a query may find something: cheaper than an error that says what is stored, and then is dropped."""
        key = self._lookup.find(arch)
        return key is not None and self._stored.has_runs(key, *self._usual(key, backbone, protocol))

    def _arrow(self, name: str) -> pa.Table:
        if name not in TABLES:
            raise LookupError(f"no table {name!r}; tables: {', '.join(TABLES)}")
        return read_table(self.directory, name, self.manifest)

    @cached_property
    def _stored(self) -> Stored:
        return Stored(self._arrow)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self._stored.architectures, lambda: Columns(self._arrow("cells")))

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        from attnbench.dataset.sql import sealed

        return sealed(self._arrow)


def _kind(key: str) -> str:
    return "subnet" if key.startswith("sn") else "attention"


def _default_protocol(backbone: object) -> str:
    """That of attention on a backbone, or of subnets in a space."""
    from attnbench.space.subnet_named import SPACES

    return DEFAULT_PROTOCOL["subnet" if isinstance(backbone, str) and backbone in SPACES else "attention"]


def _is_seed(seed: object) -> bool:
    """None, or a number of Python's, numpy's or a frame's."""
    return seed is None or isinstance(seed, Real)


def _one_of_each(backbone: object, protocol: object, seed: object) -> str:
    return (
        f"expected one backbone, one protocol and one seed (a whole number, or None for all), got backbone "
        f"{backbone!r:.80}, protocol {protocol!r:.80}, seed {seed!r:.80}. Ask for several one by one."
    )
