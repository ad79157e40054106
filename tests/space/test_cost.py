"""Cost polynomials against counting by hand, and products in their cheapest order."""

from __future__ import annotations

import itertools

import pytest

from attnbench.space.check import scan
from attnbench.space.cost import Polynomial, best_order, cost_of, split_points
from attnbench.space.parse import parse
from attnbench.space.printing import to_text


@pytest.mark.parametrize(
    ("formula", "macs", "elements", "peak", "complexity"),
    [
        ("v", "0", "0", "N d", "O(N)"),
        ("softmax(q @ k.T / sqrt(d)) @ v", "2 N^2 d", "2 N^2", "N^2", "O(N^2)"),
        ("(q @ k.T) @ v", "2 N d^2", "0", "N d", "O(N)"),
        ("softmax(q) @ (softmax(k, axis=-2).T @ v)", "2 N d^2", "2 N d", "N d", "O(N)"),
        ("(v @ softmax(q.T @ k).T) @ l2norm(q.T @ k)", "2 N d^2 + d^3", "2 d^2", "N d", "O(N)"),
        ("q * sum(k * v, axis=-2)", "0", "3 N d", "N d", "O(N)"),
        ("q @ k.T @ v @ q.T @ k @ k.T @ v", "3 N d^2 + 2 d^3", "0", "N d", "O(N)"),
        ("sigmoid(q @ k.T) @ sigmoid(k @ q.T) @ v", "4 N^2 d", "2 N^2", "N^2", "O(N^2)"),
        ("(sum(q) @ mean(k, axis=-2)) * v", "N d", "3 N d", "N d", "O(N)"),
    ],
)
def test_cost_of_formulas_counted_by_hand(formula: str, macs: str, elements: str, peak: str, complexity: str) -> None:
    cost = parse(formula).cost
    assert (str(cost.macs), str(cost.elements), str(cost.peak)) == (macs, elements, peak)
    assert parse(formula).complexity == complexity


def brute_force_chain(shapes: list[str]) -> Polynomial:
    """Cheapest total over every order of a chain of products, N large first, then d."""

    def totals(i: int, j: int) -> list[Polynomial]:
        if j - i == 1:
            return [Polynomial()]
        found = []
        for m in range(i + 1, j):
            letters = shapes[i][0] + shapes[m][0] + shapes[j - 1][1]
            step = Polynomial((((letters.count("N"), letters.count("d")), 1),))
            found += [a + b + step for a, b in itertools.product(totals(i, m), totals(m, j))]
        return found

    return min(totals(0, len(shapes)), key=lambda p: p.terms)


@pytest.mark.parametrize("letters", ["Nd1", "dN1N", "NdNdN", "Nd1dNd", "1NdNd1N", "dNd1Nd"])
def test_chains_are_associated_as_cheaply_as_any_order_allows(letters: str) -> None:
    shapes = [a + b for a, b in itertools.pairwise(letters)]

    def total(order: object) -> tuple[str, Polynomial]:
        if isinstance(order, int):
            return shapes[order], Polynomial()
        (a, left), (b, right) = total(order[0]), total(order[1])
        size = a[0] + a[1] + b[1]
        return a[0] + b[1], left + right + Polynomial((((size.count("N"), size.count("d")), 1),))

    assert total(split_points(tuple(shapes)))[1] == brute_force_chain(shapes)


def test_order_of_a_chain_is_chosen_for_many_tokens() -> None:
    assert to_text(best_order(parse("q @ k.T @ v").root)) == "q @ (k.T @ v)"
    assert to_text(best_order(parse("softmax(q @ k.T) @ v").root)) == "softmax(q @ k.T) @ v"
    untouched = parse("q * relu(k)").root
    assert best_order(untouched) is untouched


@pytest.mark.parametrize(
    ("formula", "ordered"),
    [
        ("(q @ k.T / sqrt(d)) @ v", "scale(q @ (k.T @ v))"),
        ("-(k @ q.T).T @ v", "-(q.T.T @ (k.T @ v))"),
        ("scale(relu(q @ k.T)) @ v", "scale(relu(q @ k.T)) @ v"),
        ("v @ scale((q.T @ k).T)", "v @ scale((q.T @ k).T)"),
    ],
)
def test_chains_are_followed_through_linear_operators_where_n_by_n_is_at_stake(formula: str, ordered: str) -> None:
    assert to_text(best_order(parse(formula).root)) == ordered


def test_repeated_parts_are_counted_once() -> None:
    once, twice = parse("relu(q) @ (k.T @ v)"), parse("relu(q) @ (k.T @ v) + relu(q) @ (k.T @ v)")
    assert once.cost.macs == twice.cost.macs


@pytest.mark.parametrize(
    "formula", ["q", "softmax(q @ k.T) @ v", "q @ k.T @ v", "scale(-(k @ q.T).T) @ v", "(q @ k.T) * (k @ q.T) @ v"]
)
def test_the_static_check_says_of_the_order_what_the_polynomials_say(formula: str) -> None:
    root = parse(formula).root
    assert (scan(root)[0] is not None) == (cost_of(root).order > 1)


def test_a_polynomial_is_evaluated_and_printed() -> None:
    p = Polynomial.of({(2, 1): 2, (1, 2): 1, (0, 0): 3})
    assert p(10, 3) == 2 * 100 * 3 + 10 * 9 + 3
    assert str(p) == "2 N^2 d + N d^2 + 3"
    assert (p.order, Polynomial().order, str(Polynomial())) == (2, 0, "0")
