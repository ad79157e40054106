"""Static program checks: what a graph must satisfy to be sampled, told from its expression alone.

A graph that exists is well-shaped already. What is checked here bars it from the sampled spaces, never from being
queried. What needs numbers (gradients, token mixing, overflow) is checked in `nn/checks.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from attnbench.space.cost import FOLLOWED
from attnbench.space.graph import Graph, Node
from attnbench.space.operators import INPUTS
from attnbench.space.printing import to_text


class Reason(NamedTuple):
    """Why a graph fails: the check's name, a sentence, and the sub-expression at fault."""

    check: str
    message: str
    expression: str

    def __str__(self) -> str:
        return f"{self.check}: {self.message}: {self.expression}"


class CheckReport(NamedTuple):
    """The reasons why a graph fails, cheapest check first; none when it passes."""

    reasons: tuple[Reason, ...]

    @property
    def ok(self) -> bool:
        return not self.reasons

    @property
    def failed_checks(self) -> tuple[str, ...]:
        """Names of the failed checks, each once."""
        return tuple(dict.fromkeys(reason.check for reason in self.reasons))


PASSED = CheckReport(())


def check(graph: Graph) -> CheckReport:
    """The static checks: `linear` (nothing grows with N squared) and `inputs` (q, k and v are all used)."""
    quadratic, inputs = scan(graph.root)
    if quadratic is None and len(inputs) == len(INPUTS):
        return PASSED
    reasons = []
    if quadratic is not None:
        message = "time and memory grow with the square of the number of tokens"
        reasons.append(Reason("linear", message, to_text(quadratic)))
    missing = [name for name in INPUTS if name not in inputs]
    if missing:
        reasons.append(Reason("inputs", f"{' and '.join(missing)} not used", graph.text))
    return CheckReport(tuple(reasons))


def scan(root: Node) -> tuple[Node | None, set[str]]:
    """The first (N, N) value that no order of products avoids, if any, and the inputs that are used.

    A product of (N, N) inside a longer product is avoided by another order, since d and 1 lie between any two N, also
    where only signs, `scale` or `.T` stand between them; any other (N, N) value has to be computed. `graph.complexity`
    says the same, at the price of the whole polynomial.
    """
    quadratic = None
    inputs: set[str] = set()
    stack = [(root, False)]
    seen: set[tuple[int, bool]] = set()
    while stack:
        item = stack.pop()
        node, in_product = item
        args = node.args
        if not args:
            inputs.add(node.op)
            continue
        if len(args) == 2:
            # A value can be shared by reference; only binaries make that exponential.
            mark = (id(node), in_product)
            if mark in seen:
                continue
            seen.add(mark)
        product = node.op == "matmul"
        followed = in_product and node.op in FOLLOWED
        if node.shape == "NN" and quadratic is None and not (in_product and (product or followed)):
            quadratic = node
        for arg in args:
            stack.append((arg, product or followed))
    return quadratic, inputs
