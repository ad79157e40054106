"""Reading formulas: what is the language, and that everything else is refused with the place."""

import ast
import contextlib
import random
import sys
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnbench.errors import AttnBenchError, InvalidGraph
from attnbench.space import parse as parser
from attnbench.space.graph import Graph, K, Q, V, build
from attnbench.space.operators import OPERATORS
from attnbench.space.parse import MAX_LENGTH, parse
from attnbench.space.shunting import read_plain
from tests.space.random_graphs import random_graph

KT = build("T", K)


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("q", Q),
        ("  q\n", Q),
        ("((q))", Q),
        ("-q", build("neg", Q)),
        ("--q", build("neg", build("neg", Q))),
        ("-q.T.T", build("neg", build("T", build("T", Q)))),
        ("q + k * v", build("add", Q, build("mul", K, V))),
        ("(q + k) * v", build("mul", build("add", Q, K), V)),
        ("q - k - v", build("add", build("add", Q, build("neg", K)), build("neg", V))),
        ("q * -k", build("mul", Q, build("neg", K))),
        ("q / k", build("mul", Q, build("recip", K))),
        ("q / sqrt(d)", build("scale", Q)),
        ("q/sqrt(d)", build("scale", Q)),
        ("q / ( sqrt (d) )", build("scale", Q)),
        ("q * k / sqrt(d) + v", build("add", build("scale", build("mul", Q, K)), V)),
        ("-q / sqrt(d)", build("scale", build("neg", Q))),
        ("q @ k.T @ v", build("matmul", build("matmul", Q, KT), V)),
        ("q @ (k.T @ v)", build("matmul", Q, build("matmul", KT, V))),
        ("softmax(q)", build("softmax", Q, axis=-1)),
        ("softmax(q, axis=-1)", build("softmax", Q)),
        ("softmax(q, axis=-2)", build("softmax", Q, axis=-2)),
        ("softmax(q, axis = - 2)", build("softmax", Q, axis=-2)),
        ("maximum(q, k)", build("maximum", Q, K)),
        ("maximum(\n  q,\n  k,\n)", build("maximum", Q, K)),
        ("sqrt(q)", build("sqrt", Q)),
        ("q * distance(q, k)", build("mul", Q, build("distance", Q, K))),
    ],
)
def test_syntax(text, root):
    assert parse(text).root == root


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_a_spelling(name):
    graph = parse(OPERATORS[name].example)
    assert name in str([node.op for node in nodes(graph.root)])
    assert parse(graph.text) == graph


def nodes(node):
    return [node] + [inner for arg in node.args for inner in nodes(arg)]


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("relo(q)", "unknown operator 'relo'; did you mean relu?", "relo"),
        ("zzzzzz(q)", "unknown operator 'zzzzzz'; known: abs, batchnorm", "zzzzzz"),
        ("__import__('os')", 'character "\'" is not part of the language', "'"),
        ("__import__(q)", "unknown operator '__import__'", "__import__"),
        ("q.shape @ k", "unknown attribute .shape; the only one is .T", "q.shape"),
        ("(q).T(k)", "only operators can be called, by their plain name", "(q).T"),
        ("x + q", "unknown name 'x'; the inputs are q, k and v", "x"),
        ("relu * q", "relu is an operator: write relu(q)", "relu"),
        ("q + 1", "there are no numbers in the language, got 1", "1"),
        ("28", "there are no numbers in the language, got 28", "28"),
        ("q ** k", "the binary signs are + - * / and @", "q ** k"),
        ("q // k", "the binary signs are + - * / and @", "q // k"),
        ("+q", "this unary sign is not part of the language", "+q"),
        ("q, k", "a tuple is not part of the language", "q, k"),
        ("q if k else v", "a Python ifexp is not part of the language", "q if k else v"),
        ("relu(q, k)", "relu takes 1 operand, got 2", "relu(q, k)"),
        ("maximum(q)", "maximum takes 2 operands, got 1", "maximum(q)"),
        ("relu(q, axis=-2)", "relu takes no keywords, got axis", "axis=-2"),
        ("softmax(q, dim=-2)", "softmax takes only axis, got dim", "dim=-2"),
        ("softmax(q, axis=-3)", "axis must be -1 (features) or -2 (rows)", "-3"),
        ("softmax(q, axis=0)", "axis must be -1 (features) or -2 (rows)", "0"),
        ("softmax(q, -2)", "softmax takes 1 operand, got 2", "softmax(q, -2)"),
        ("maximum(*q)", "maximum takes 2 operands, got 1", "maximum(*q)"),
        ("softmax(*q)", "* is not part of the language", "*q"),
        ("softmax(q, **k)", "softmax takes only axis, got **", "**k"),
        ("q @ k", "matmul: (N, d) @ (N, d) does not contract: d columns meet N rows; transpose one with .T", "q @ k"),
        ("v * (q + k.T)", "add: (N, d) and (d, N) do not broadcast: only 1 stretches", "q + k.T"),
        ("q.T", "the result must be (N, d), one row of head width per token; it is (d, N)", "q.T"),
        ("k.T @ q", "the result must be (N, d), one row of head width per token; it is (d, d)", "k.T @ q"),
        ("sum(q)", "it is (N, 1)", "sum(q)"),
        ("q @", "not an expression of the language: invalid syntax", ""),
        ("relu(q", "not an expression of the language: '(' was never closed", "("),
        ("q = k", "not an expression of the language: invalid syntax", "="),
        ("q q", "not an expression of the language: invalid syntax", ""),
        ("q # comment", "character '#' is not part of the language", "#"),
        ("ｑ", "character 'ｑ' is not part of the language: ASCII names", "?"),
        ("q\n+ k", "not an expression of the language: invalid syntax", ""),
        ("q.T = \\", "character '\\\\' is not part of the language", "\\"),
    ],
)
def test_what_is_wrong_and_where(text, message, marked):
    with pytest.raises(InvalidGraph) as caught:
        parse(text)
    error = caught.value
    assert message in str(error)
    assert isinstance(error, ValueError)
    assert isinstance(error, AttnBenchError)
    _, shown, arrows = str(error).split("\n")[-3:]
    assert marked in "".join(c for c, arrow in zip(shown.ljust(len(arrows)), arrows, strict=False) if arrow == "^")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "a formula is a string, got NoneType: 'None'"),
        (28, "a formula is a string, got int: '28'"),
        (b"q", "a formula is a string, got bytes"),
        ("", "the formula is empty; write an expression over q, k and v, such as 'softmax(q) @ (k.T @ v)'"),
        ("   ", "the formula is empty"),
        ("q" + " " * MAX_LENGTH, "the formula has 2001 characters; at most 2000 are allowed"),
        ("-" * 1900 + "q", "40 levels"),
        ("(" * 900 + "q" + ")" * 900, "at most 40 levels are allowed"),
        ("(" * 1000, "at most 40 levels are allowed"),
        ("q" + ".T" * 990, "40 "),
        ("relu(" * 150 + "q" + ")" * 150, "40 "),
        ("-" * 40 + "q", "40 "),
        ("q" + " + q" * 400, "40 "),
        ("softmax(" * 250, "at most 40 levels are allowed"),
    ],
)
def test_limits(value, message):
    with pytest.raises(InvalidGraph) as caught:
        parse(value)
    assert message in str(caught.value)


def test_a_long_formula_is_cut_around_the_place():
    text = " + ".join(["q"] * 12) + " + relo(q) + " + " + ".join(["k"] * 20)
    with pytest.raises(InvalidGraph) as caught:
        parse(text)
    _, shown, arrows = str(caught.value).split("\n")
    assert shown.strip().startswith("...")
    assert shown.endswith("...")
    assert shown[arrows.index("^") :].startswith("relo")
    assert (caught.value.start, caught.value.end) == (text.index("relo"), text.index("relo") + 4)
    assert caught.value.reason.startswith("unknown operator 'relo'")


def test_the_deepest_allowed():
    assert parse("-" * 39 + "q").root.depth == 40
    assert parse("(" * 60 + "q" + ")" * 60).root == Q


def test_recursion_is_bounded_whatever_the_stack():
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(400)
        for text in ("-" * 1900 + "q", "(" * 150 + "q" + ")" * 150, "q" + ".T" * 990):
            with pytest.raises(InvalidGraph) if "(" not in text else contextlib.nullcontext():
                parse(text)
    finally:
        sys.setrecursionlimit(limit)


WORDS = [
    "q",
    "k",
    "v",
    "relu",
    "softmax",
    "maximum",
    "sqrt",
    "d",
    "(",
    ")",
    ",",
    "axis",
    "=",
    "-1",
    "-2",
    "-",
    "+",
    "*",
]
WORDS += ["@", "/", ".T", " ", "\n", "1", "9e999", "lambda", "#", "'", "**", ".", ":=", "[", "]", "\\", "\0", "é", "０"]


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=30).map("".join)))
@example("1and q")
@example("0777")
@example("1_000__0")
@example("q" * 5000)
@settings(max_examples=400)
def test_only_invalid_graph_ever(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = None
        with contextlib.suppress(InvalidGraph):
            graph = parse(text)
    if graph is not None:
        assert parse(graph.text) == graph
        assert graph.key.startswith("ag1-")


@given(st.one_of(st.none(), st.integers(), st.binary(), st.lists(st.text()), st.dictionaries(st.text(), st.text())))
def test_only_strings_are_formulas(value):
    with pytest.raises(InvalidGraph, match="a formula is a string, got"):
        parse(value)


def read_with_ast(text):
    try:
        return Graph(parser._Reader(text).node(ast.parse(text, mode="eval").body, 1)).root
    except (InvalidGraph, SyntaxError, ValueError):
        return None


PIECES = ["q", "k", "v", "-", "+", "*", "@", "/", " / sqrt(d)", "(", ")", "relu(", "softmax(", ", axis=-2", "axis=-1"]
PIECES += [".T", ",", "maximum(", " ", "q.T", "sum(", "d", "1", "("]


def test_the_shunting_yard_reads_as_python_does():
    """Whatever it takes, it reads alike; formulas as they are printed it always takes."""
    rng = random.Random(3)
    printed = [random_graph(rng, rng.randint(1, 20)).text for _ in range(600)]
    damaged = []
    for text in printed:
        at = rng.randrange(len(text))
        damaged.append(text[:at] + rng.choice(PIECES) + text[at + rng.randint(0, 1) :])
    noise = ["".join(rng.choices(PIECES, k=rng.randint(1, 9))).strip() for _ in range(6000)]
    taken = 0
    for text in printed + damaged + noise:
        root = read_plain(text, parser._INPUTS, parser._PLAIN_CALLS)
        if root is not None and root.shape == "Nd" and root.depth <= 40:
            taken += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert root == read_with_ast(text), text
        else:
            assert text not in printed
    assert taken > 700
