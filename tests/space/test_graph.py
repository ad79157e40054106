"""Graphs are frozen values; nodes are shape-checked; programs share what is equal."""

import copy
import pickle
import random

import pytest

from attnbench.errors import InvalidGraph
from attnbench.space.graph import Graph, K, Q, V, build, program, subexpressions
from attnbench.space.parse import parse
from tests.space.random_graphs import random_graph


@pytest.mark.parametrize(
    ("op", "args", "axis", "message"),
    [
        ("relo", (Q,), None, "unknown operator 'relo'; known: T, abs, add, batchnorm"),
        ("relu", (Q, K), None, "relu takes 1 operand, got 2"),
        ("add", (Q,), None, "add takes 2 operands, got 1"),
        ("relu", (), None, "relu takes 1 operand, got 0"),
        ("relu", (Q,), -1, "relu has no axis, got axis=-1"),
        ("softmax", (Q,), 0, "axis must be -1 (features) or -2 (rows), got axis=0"),
        ("matmul", (Q, K), None, "matmul: (N, d) @ (N, d) does not contract: d columns meet N rows"),
        ("mul", (Q, build("T", K)), None, "mul: (N, d) and (d, N) do not broadcast: only 1 stretches"),
    ],
)
def test_build_refuses(op, args, axis, message):
    with pytest.raises(InvalidGraph) as caught:
        build(op, *args, axis=axis)
    assert message in str(caught.value)


def test_axis_defaults_to_features():
    assert build("softmax", Q) == build("softmax", Q, axis=-1) != build("softmax", Q, axis=-2)
    assert build("relu", Q).axis is None


def test_a_graph_gives_one_row_per_token():
    with pytest.raises(
        InvalidGraph, match=r"the result must be \(N, d\), one row of head width per token; it is \(d, d\)"
    ):
        Graph(build("matmul", build("T", K), V))
    deep = Q
    for _ in range(40):
        deep = build("neg", deep)
    with pytest.raises(InvalidGraph, match="the expression is 41 deep; at most 40 is allowed"):
        Graph(deep)


def test_frozen():
    graph = parse("q + k")
    with pytest.raises(AttributeError, match="Graph is frozen: cannot set 'root'; build another graph"):
        graph.root = Q
    with pytest.raises(AttributeError, match="Graph is frozen: cannot delete 'root'"):
        del graph.root


def test_equal_spellings_are_equal_and_equal_functions_share_a_key():
    a, b, c = parse("q + k"), parse("(q) + k"), parse("k + q")
    assert a == b
    assert hash(a) == hash(b)
    assert len({a, b}) == 1
    assert a != c
    assert a.key == c.key
    assert a != "q + k"


def test_text_repr_inputs_and_notes():
    graph = Graph(parse("softmax(q, axis=-2) @ (k.T @ v)").root, notes=("as published",))
    assert str(graph) == graph.text == "softmax(q, axis=-2) @ (k.T @ v)"
    assert repr(graph) == "Graph('softmax(q, axis=-2) @ (k.T @ v)')"
    assert graph._repr_latex_() == f"${graph.latex}$"
    assert graph.inputs == {"q", "k", "v"}
    assert parse("v").inputs == {"v"}
    assert graph.notes == ("as published",)
    assert graph == parse(graph.text)


def test_copies_and_pickles_are_equal():
    graph = Graph(parse("relu(q) * v").root, notes=("a note",))
    graph.key  # noqa: B018  cached values do not travel
    for other in (copy.copy(graph), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):  # noqa: S301  our own
        assert other == graph
        assert other.notes == graph.notes
        assert other.key == graph.key


def test_same_function_finds_what_no_rule_knows():
    a, b = parse("q * sigmoid(-q)"), parse("q - q * sigmoid(q)")
    assert a.key != b.key
    assert a.same_function(b)
    assert not a.same_function(parse("q * sigmoid(q)"))


def test_a_program_runs_equal_sub_expressions_once():
    graph = parse("(relu(q) @ k.T) * (relu(q) @ k.T) @ v")
    steps = program(graph.root)
    assert [step.op for step in steps] == ["q", "relu", "k", "T", "matmul", "mul", "v", "matmul"]
    assert steps[5].args == (4, 4)
    assert steps[-1].shape == "Nd"
    rng = random.Random(0)
    for _ in range(50):
        for i, step in enumerate(program(random_graph(rng, 15).root)):
            assert all(arg < i for arg in step.args)


def test_sub_expressions_come_before_their_use():
    assert [node.op for node in subexpressions(parse("relu(q) + q").root)] == ["q", "relu", "q", "add"]
