"""Cost of a graph as polynomials in N and d, per head, with every chain of products in its cheapest order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from attnbench.space.graph import Node, Step, build, program
from attnbench.space.operators import INPUTS, Shape

Degree = tuple[int, int]  # powers of N and of d
Split: TypeAlias = "int | tuple[Split, Split]"  # a place in a chain of products, or the two parts multiplied last


@dataclass(frozen=True, slots=True)
class Polynomial:
    """Sum of coefficient · N^i · d^j; `terms` maps (i, j) to a positive coefficient, highest order first."""

    terms: tuple[tuple[Degree, int], ...] = ()

    @staticmethod
    def of(terms: dict[Degree, int]) -> Polynomial:
        return Polynomial(tuple(sorted(terms.items(), reverse=True)))

    def __call__(self, tokens: int, head_width: int) -> int:
        """The value at N = `tokens` and d = `head_width`."""
        return sum(c * tokens**i * head_width**j for (i, j), c in self.terms)

    def __str__(self) -> str:
        return " + ".join(_monomial(degree, c) for degree, c in self.terms) or "0"

    def __add__(self, other: Polynomial) -> Polynomial:
        total = dict(self.terms)
        for degree, c in other.terms:
            total[degree] = total.get(degree, 0) + c
        return Polynomial.of(total)

    @property
    def order(self) -> int:
        """Highest power of N."""
        return self.terms[0][0][0] if self.terms else 0


def _monomial(degree: Degree, c: int) -> str:
    powers = [symbol + (f"^{p}" if p > 1 else "") for symbol, p in zip("Nd", degree, strict=True) if p]
    return " ".join(([str(c)] if c > 1 or not powers else []) + powers)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one head does for one sample.

    `macs`: multiply-adds of the matrix products. `elements`: entries read by everything else. `peak`: entries of the
    largest intermediate. Each is a polynomial in N (tokens) and d (head width).
    """

    macs: Polynomial
    elements: Polynomial
    peak: Polynomial

    @property
    def order(self) -> int:
        """Power of N in time and memory."""
        return max(self.macs.order, self.elements.order, self.peak.order)

    @property
    def complexity(self) -> str:
        return ("O(1)", "O(N)")[self.order] if self.order < 2 else f"O(N^{self.order})"


def degree(letters: str) -> Degree:
    """Powers of N and d in a product of sizes, such as a shape."""
    return letters.count("N"), letters.count("d")


def step_macs(step: Step, steps: list[Step]) -> Degree | None:
    """Multiply-adds of one matrix product, rows · inner · columns; None for any other operator."""
    return degree(step.shape + steps[step.args[0]].shape[1]) if step.op == "matmul" else None


def cost_of(root: Node) -> Cost:
    """Cost of the expression: equal sub-expressions counted once, products in their cheapest order."""
    macs: dict[Degree, int] = {}
    elements: dict[Degree, int] = {}
    sizes: set[Degree] = set()
    steps = program(best_order(root))
    for step in steps:
        product = step_macs(step, steps)
        if product is not None:
            macs[product] = macs.get(product, 0) + 1
        elif step.op not in INPUTS and step.op not in ("T", "identity"):
            read = max([degree(steps[a].shape) for a in step.args] + [degree(step.shape)])
            elements[read] = elements.get(read, 0) + 1
        sizes.add(degree(step.shape))
    return Cost(Polynomial.of(macs), Polynomial.of(elements), Polynomial.of({max(sizes): 1}))


def best_order(root: Node) -> Node:
    """The expression with every chain of matrix products in its cheapest order, N large first, then d.

    The same function to rounding: `(q @ k.T) @ v` becomes `q @ (k.T @ v)`, while `softmax(q @ k.T) @ v` stays. Where
    that leaves an (N, N) value, chains are also followed through `.T`, signs and `scale`: `scale(q @ k.T) @ v` is
    `scale(q @ (k.T @ v))`.
    """
    ordered = _ordered(root, follow=False)
    if any(step.shape == "NN" for step in program(ordered)):
        return _ordered(root, follow=True)
    return ordered


# Linear operators that a product can be taken through.
FOLLOWED = ("T", "scale", "neg", "identity")


def _ordered(root: Node, follow: bool) -> Node:
    if not root.args:
        return root
    if root.op != "matmul":
        args = tuple([_ordered(a, follow) for a in root.args])
        return root if args == root.args else root._replace(args=args)
    chain, outer = _chain(root, follow)
    links = [_ordered(link, follow) for link in chain]
    if len(links) == 2:
        product = build("matmul", *links)
    else:
        product = _associate(links, split_points(tuple([link.shape for link in links])))
    for op in outer:
        product = build(op, product)
    return product


def _chain(node: Node, follow: bool) -> tuple[list[Node], list[str]]:
    """Operands of a chain of products, left to right, and the operators met on the way, to be applied to the whole."""
    if node.op == "matmul":
        left, outer = _chain(node.args[0], follow)
        right, more = _chain(node.args[1], follow)
        return left + right, outer + more
    if not follow or node.op not in FOLLOWED:
        return [node], []
    links, outer = _chain(node.args[0], follow)
    if len(links) == 1:
        return [node], []
    if node.op == "T":
        return [build("T", link) for link in reversed(links)], outer
    return links, [*outer, node.op]


@lru_cache(maxsize=4096)
def split_points(shapes: tuple[Shape, ...]) -> Split:
    """Cheapest order of a chain of these shapes, as nested pairs of positions."""
    best: dict[tuple[int, int], tuple[Polynomial, Split]] = {(i, i + 1): (Polynomial(), i) for i in range(len(shapes))}
    for length in range(2, len(shapes) + 1):
        for i in range(len(shapes) - length + 1):
            j = i + length
            candidates = []
            for m in range(i + 1, j):
                product = Polynomial(((degree(shapes[i][0] + shapes[m][0] + shapes[j - 1][1]), 1),))
                total = best[i, m][0] + best[m, j][0] + product
                candidates.append((total, (best[i, m][1], best[m, j][1])))
            best[i, j] = min(candidates, key=lambda found: found[0].terms)
    return best[0, len(shapes)][1]


def _associate(links: list[Node], order: Split) -> Node:
    if isinstance(order, int):
        return links[order]
    return build("matmul", _associate(links, order[0]), _associate(links, order[1]))
