"""Graph -> Genotype: matching a formula against the dataflow of AttnZero's types."""

from __future__ import annotations

from collections.abc import Iterator

from attnbench.errors import InvalidGraph
from attnbench.space.genotype import Genotype
from attnbench.space.graph import Graph, Node, build
from attnbench.space.upstream import GRAPH_TYPES, INPUT_NODES, NO_OP, TOKEN_SUM, TRANSPOSE, Operand, slot_count

# operator -> upstream index, for operators that mean the same whatever the shape
_INDEX = {
    ("T", None): 1,
    ("logabs", None): 4,
    ("abs", None): 5,
    ("standardize", None): 6,
    ("softsign", None): 7,
    ("recip", None): 8,
    ("sigmoid", None): 9,
    ("sqrt", None): 11,
    ("neg", None): 12,
    ("minmax", None): 13,
    ("sign", None): 14,
    ("scale", None): 15,
    ("elu1", None): 16,
    ("relu", None): 19,
    ("exp", None): 21,
    ("identity", None): 0,
    ("softmax", -1): 2,
    ("log_softmax", -1): 10,
    ("l2norm", -1): 25,
    ("l2norm", -2): 20,
    ("sumnorm", -1): 27,
}
_BINARIES = {"add": 0, "distance": 1, "mul": 2, "matmul": 3, "cosine": 4}
_COMMUTATIVE = ("add", "distance", "mul", "cosine")

Slots = dict[int, tuple[int, ...]]


def encode(graph: Graph) -> Genotype:
    """A genotype whose function is the graph's, in the first type that can say it. Raises: InvalidGraph."""
    failure = _outside(graph.root)
    if failure is None:
        for graph_type in GRAPH_TYPES:
            for genotype in _matches(graph.root, graph_type):
                if genotype.to_graph().key == graph.key:
                    return genotype
        failure = "its products and joins follow none of the graph types"
    raise InvalidGraph(f"{graph.text} is no AttnZero genotype: {failure}; types: {', '.join(GRAPH_TYPES)}")


def _outside(root: Node) -> str | None:
    """The first operator that no upstream index means."""
    stack, seen = [root], set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack += node.args
        if node.op in INPUT_NODES or node.op in _BINARIES or node.op == "sum":
            continue
        if (node.op, node.axis) not in _INDEX and (node.op, -1) not in _INDEX:
            return f"{node.op} is none of its operators"
    return None


def _peel(node: Node) -> tuple[Node, tuple[int, ...]] | None:
    """The binary or input under a chain of unary operators, and the chain as upstream indices, innermost first."""
    chain: tuple[int, ...] = ()
    while len(node.args) == 1:
        (x,) = node.args
        step = _unary_indices(node, x)
        if step is None:
            return None
        chain, node = step + chain, x
    return node, chain or (NO_OP,)


def _unary_indices(node: Node, x: Node) -> tuple[int, ...] | None:
    if node.op == "sum":
        if node.shape == x.shape:
            return (NO_OP,)
        token_sum = (x.shape[0] != "1") == (node.axis == -2)
        return (TOKEN_SUM,) if token_sum else (TRANSPOSE, TOKEN_SUM, TRANSPOSE)
    index = _INDEX.get((node.op, node.axis))
    if index is not None:
        return (index,)
    # Upstream's row-wise operators reach the columns between two transposes.
    index = _INDEX.get((node.op, -1))
    return None if index is None else (TRANSPOSE, index, TRANSPOSE)


def _matches(root: Node, graph_type: str) -> Iterator[Genotype]:
    """Candidates: the type's last binary is the root, its operands' sources follow, backwards."""
    joins = GRAPH_TYPES[graph_type]

    def solve(number: int, results: dict[int, Node], slots: Slots, binaries: dict[int, int]) -> Iterator[Genotype]:
        if number < 0:
            unary = tuple(slots.get(i, (NO_OP,)) for i in range(slot_count(graph_type)))
            yield Genotype(graph_type, unary, tuple(binaries[i] for i in range(len(joins))))
            return
        if number not in results:
            return
        for index, (left, right) in _operands(results[number]):
            for half in _bindings(joins[number][0], left, results, slots):
                for known in _bindings(joins[number][1], right, *half):
                    yield from solve(number - 1, *known, binaries | {number: index})

    yield from solve(len(joins) - 1, {len(joins) - 1: root}, {}, {})


def _bindings(
    operand: Operand, side: Node, results: dict[int, Node], slots: Slots
) -> Iterator[tuple[dict[int, Node], Slots]]:
    """Ways to fit an operand's source and slots to an expression, with what is known of results and slots extended."""
    peeled = _peel(side)
    if peeled is None:
        return
    base, chain = peeled
    if isinstance(operand.source, str):
        if base != INPUT_NODES[operand.source]:
            return
    else:
        if results.get(operand.source, base) != base:
            return
        results = results | {operand.source: base}
    first, *second = operand.slots
    # Only i3n402 has an operand of two slots. The first acts for another operand too: any start of the chain may be it.
    for cut in range(len(chain) + 1) if second else (len(chain),):
        filled = {first: chain[:cut] or (NO_OP,)} | dict.fromkeys(second, chain[cut:] or (NO_OP,))
        if all(slots.get(slot, ops) == ops for slot, ops in filled.items()):
            yield results, slots | filled


def _operands(node: Node) -> Iterator[tuple[int, tuple[Node, Node]]]:
    """Upstream's ways to say this binary: index and operands in upstream's order."""
    if node.op not in _BINARIES:
        return
    a, b = node.args
    yield _BINARIES[node.op], (a, b)
    if node.op in _COMMUTATIVE:
        yield _BINARIES[node.op], (b, a)
    if node.op == "matmul":
        # einsum2 takes its operands in the other order; the static shapes choose which one it transposes.
        if a.shape[1] == _transposed(b).shape[1] and a.shape[0] != b.shape[1]:
            yield 5, (a, _transposed(b))
            yield 6, (_transposed(b), a)
        if _transposed(a).shape[0] == b.shape[0]:
            yield 5, (_transposed(a), b)
            yield 6, (b, _transposed(a))


def _transposed(node: Node) -> Node:
    return node.args[0] if node.op == "T" else build("T", node)
