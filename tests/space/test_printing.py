"""Text parses back to the same spelling; LaTeX is what a paper would print."""

import random

import pytest

from attnbench.space.parse import parse
from tests.space.random_graphs import random_graph


def test_text_parses_back():
    rng = random.Random(11)
    for _ in range(800):
        graph = random_graph(rng, rng.randint(1, 25))
        assert parse(graph.text) == graph


@pytest.mark.parametrize(
    "text",
    [
        "q - k - v",
        "q - (k - v)",
        "q - (k + v)",
        "-(q + k)",
        "-(q * k)",
        "-q * k",
        "--q",
        "q * (k * v)",
        "q * k * v",
        "(q + k).T.T",
        "(-q).T.T",
        "-q.T.T",
        "q @ (k.T @ v)",
        "q @ k.T @ v",
        "q * (k @ (v.T @ v))",
        "q * k @ (v.T @ v)",
        "scale(q)",
        "softmax(q, axis=-2) * maximum(k, v)",
        "q + -k.T.T",
    ],
)
def test_text_has_just_the_parentheses_it_needs(text):
    assert parse(text).text in (text, text.replace("+ -", "- "))


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("q @ (k.T @ v)", r"\mathbf{Q} \left(\mathbf{K}^{\top} \mathbf{V}\right)"),
        ("q * k - v", r"\mathbf{Q} \odot \mathbf{K} - \mathbf{V}"),
        ("-(q + k)", r"-\left(\mathbf{Q} + \mathbf{K}\right)"),
        ("q / sqrt(d)", r"\frac{\mathbf{Q}}{\sqrt{d}}"),
        ("q / k", r"\mathbf{Q} \odot \frac{1}{\mathbf{K}}"),
        ("abs(q)", r"\left| \mathbf{Q} \right|"),
        ("softmax(k, axis=-2)", r"\operatorname{softmax}_{\mathrm{rows}}\left(\mathbf{K}\right)"),
        ("elu1(q)", r"\operatorname{elu}_{+1}\left(\mathbf{Q}\right)"),
        ("maximum(q, k)", r"\max\left(\mathbf{Q}, \mathbf{K}\right)"),
        ("exp(q)", r"e^{\mathbf{Q}}"),
    ],
)
def test_latex(text, latex):
    assert parse(text).latex == latex


def test_latex_of_every_graph_balances():
    rng = random.Random(12)
    for _ in range(200):
        latex = random_graph(rng, 12).latex
        assert latex.count("{") == latex.count("}")
        assert latex.count(r"\left") == latex.count(r"\right")
