"""Measured attention variants and vision-transformer subnets, looked up by formula.

>>> import attnbench
>>> bench = attnbench.load()
>>> bench.query("softmax(q) @ (softmax(k, axis=-2).T @ v)").val_top1_percent  # doctest: +SKIP
"""

__version__ = "0.1.0"

# Each public name and the module that defines it. Names are resolved when first used, so that `import attnbench`
# costs next to nothing and a user of the graph language never loads the tables' libraries.
_HOME = {
    "load": "attnbench.dataset.benchmark",
    "Benchmark": "attnbench.dataset.benchmark",
    "Result": "attnbench.dataset.records",
    "Run": "attnbench.dataset.records",
    "Graph": "attnbench.space.graph",
    "parse": "attnbench.space.parse",
    "Genotype": "attnbench.space.genotype",
    "check": "attnbench.space.check",
    "AutoFormerSubnet": "attnbench.space.subnet",
    "PiTSubnet": "attnbench.space.subnet",
    "AttnBenchError": "attnbench.errors",
    "InvalidGraph": "attnbench.errors",
    "InvalidSubnet": "attnbench.errors",
    "NotInBenchmark": "attnbench.errors",
    "NoSuchRun": "attnbench.errors",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from attnbench.dataset.benchmark import Benchmark as Benchmark
    from attnbench.dataset.benchmark import load as load
    from attnbench.dataset.records import Result as Result
    from attnbench.dataset.records import Run as Run
    from attnbench.errors import AttnBenchError as AttnBenchError
    from attnbench.errors import InvalidGraph as InvalidGraph
    from attnbench.errors import InvalidSubnet as InvalidSubnet
    from attnbench.errors import NoSuchRun as NoSuchRun
    from attnbench.errors import NotInBenchmark as NotInBenchmark
    from attnbench.space.check import check as check
    from attnbench.space.genotype import Genotype as Genotype
    from attnbench.space.graph import Graph as Graph
    from attnbench.space.parse import parse as parse
    from attnbench.space.subnet import AutoFormerSubnet as AutoFormerSubnet
    from attnbench.space.subnet import PiTSubnet as PiTSubnet


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"attnbench has no name {name!r}; it offers {', '.join(_HOME)}.")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
