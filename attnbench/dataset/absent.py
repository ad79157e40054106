"""What is said of an architecture that has no row: the rows most like it, and how to measure it."""

from __future__ import annotations

from collections.abc import Sequence

from attnbench.dataset.nearest import nearest, nearest_subnets
from attnbench.errors import NotInBenchmark
from attnbench.space.graph import Graph
from attnbench.space.subnet import Subnet

NEEDS_TORCH = "(needs torch: pip install 'attnbench[nn]')"


def absent_key(key: str, n_keys: int) -> NotInBenchmark:
    """The error for a key of no row."""
    return NotInBenchmark(
        f"no row has the key {key}. The {n_keys} keys are list(bench); pass the formula, or a subnet's text, instead "
        "to see the rows most like it."
    )


def absent_graph(graph: Graph, formulas: Sequence[str]) -> NotInBenchmark:
    """The error for a graph that no row computes; formulas: those of all rows."""
    like = nearest(graph.text, formulas)
    return NotInBenchmark(
        f"no row computes {graph.text!r} (key {graph.key}). Nearest rows:\n{_lines(like)}{how_to_measure(graph.text)}",
        like,
    )


def absent_subnet(subnet: Subnet, subnets: Sequence[str]) -> NotInBenchmark:
    """The error for a subnet without a row; subnets: the texts of all rows that are subnets."""
    from attnbench.space.subnet_cost import subnet_cost
    from attnbench.space.subnet_named import SPACES, space_of

    space = space_of(subnet)
    if space is None:
        where = f"It lies in none of the spaces {', '.join(SPACES)}."
    else:
        cost = subnet_cost(subnet, space.frame)
        where = (
            f"In the space {space.name} it has {cost.params:,} parameters and {cost.macs:,} multiply-adds, by formula."
        )
    like = nearest_subnets(subnet, subnets)
    rows = f"Nearest rows of its space:\n{_lines(like)}" if like else "No row is of its space.\n"
    return NotInBenchmark(
        f"no row is {subnet.text!r} (key {subnet.key}). {where} {rows}{how_to_measure(subnet.text)}", like
    )


def how_to_measure(text: str) -> str:
    """The way to an architecture's own run: a command, or for a subnet of full size its network."""
    from attnbench.space.architecture import read_architecture
    from attnbench.space.subnet_named import space_of

    read = read_architecture(text)
    space = space_of(read) if isinstance(read, Subnet) else None
    if isinstance(read, Graph) or (space is not None and space.name.endswith("-micro")):
        return f'Measure it with the same protocol: attnbench measure "{text}" {NEEDS_TORCH}.'
    return f"No protocol here trains its size; attnbench.nn.subnet.build_subnet gives the network {NEEDS_TORCH}."


def _lines(texts: Sequence[str]) -> str:
    return "".join(f"  {text}\n" for text in texts)
