"""AttnZero's genotypes: reading them in every spelling, turning them into graphs and back, refusing the rest."""

import json

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from attnbench.errors import InvalidGraph
from attnbench.space.genotype import Genotype
from attnbench.space.graph import Graph
from attnbench.space.grid import cell_graph, cells
from attnbench.space.parse import parse
from attnbench.space.upstream import BINARY_NAMES, GRAPH_TYPES, UNARY_NAMES, slot_count

TRIAL_105 = Genotype("i3n303", [[16], [0, 13], [0, 25], [6], [0], [25, 0]], [6, 3, 2])


def genotypes() -> st.SearchStrategy[Genotype]:
    """Genotypes with sparse slots, so that a good part of them are well-typed."""
    op = st.one_of(st.just(0), st.just(0), st.integers(0, 27))
    slot = st.lists(op, min_size=1, max_size=2)
    return st.sampled_from(sorted(GRAPH_TYPES)).flatmap(
        lambda name: st.builds(
            Genotype,
            st.just(name),
            st.tuples(*[slot] * slot_count(name)),
            st.tuples(*[st.sampled_from((0, 2, 3, 5, 6, 1, 4, 7))] * len(GRAPH_TYPES[name])),
        )
    )


@pytest.mark.parametrize(
    "source",
    [
        TRIAL_105,
        TRIAL_105.to_dict(),
        TRIAL_105.to_json(),
        {"binary_op": [6, 3, 2], "unary_op": TRIAL_105.to_dict()["unary_op"], "graph_type": "i3n303"},
        {"AT": {"GRAPH_TYPE": "i3n303", "UNARY_OP": TRIAL_105.unary_ops, "BINARY_OP": (6, 3, 2)}},
        {"MODEL": {"AT": {"GRAPH_TYPE": "I3N303", "UNARY_OP": TRIAL_105.unary_ops, "BINARY_OP": (6, 3, 2)}}},
        {"AT.graph_type": "i3n303", "AT.unary_op": TRIAL_105.unary_ops, "AT.binary_op": np.array([6, 3, 2])},
        {
            "graph_type": "i3n303",
            "unary_ops": [[np.int64(op) for op in slot] for slot in TRIAL_105.unary_ops],
            "binary_ops": [np.uint8(6), np.int32(3), 2],
        },
        "AT:\n  GRAPH_TYPE: i3n303  # the best one\n  UNARY_OP: [[16], [0, 13], [0, 25],\n    [6], [0], [25, 0]]\n"
        "  BINARY_OP: [6, 3, 2]\nDATA:\n  NAME: cifar100\n",
        yaml.safe_dump({"AT": TRIAL_105.to_dict()}),
        yaml.safe_dump({"MODEL": {"AT": TRIAL_105.to_dict(), "DROP": 0.1}, "TAG": "x y"}, default_flow_style=True),
        "graph_type: 'i3n303'\nunary_op:\n- [16]\n- - 0\n  - 13\n-\n  - 0\n  - 25\n- - 6\n- [0]\n- [25, 0,]\n"
        "binary_op:\n  - 6\n  - 3\n  - 2\n",
    ],
    ids=range(12),
)
def test_every_spelling_of_a_genotype_reads_the_same(source):
    assert Genotype.read(source) == TRIAL_105


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb:\n  c: [1, 2]\n  d: word\ne:\nf: -3\n",
        "- 1\n- - 2\n  - 3\n-\n  - 4\n",
        "- a: 1\n  b: 2\n- a: 3\n  b: [4]\n",
        '{"a": [[0], [1, 2]]}',
        "{a: [[0], [1, 2,]], b c: 'x', d: null}",
        "---\n# nothing\na: '7'\n",
    ],
)
def test_the_yaml_corner_agrees_with_a_yaml_library(text):
    from attnbench.space.yaml_subset import read_yaml

    assert read_yaml(text) == yaml.safe_load(text)


def test_padding_with_no_op_changes_no_function():
    padded = Genotype("i3n303", [[16, 0, 0], [0, 13], [25], [0, 6], [], [25]], (6, 3, 2))
    assert padded.unary_ops[4] == (0,)
    assert padded.to_graph().key == TRIAL_105.to_graph().key


def test_json_names_the_operators():
    written = json.loads(TRIAL_105.to_json())
    assert written["unary_names"][1] == ["no_op", "min_max_normalize"]
    assert written["binary_names"] == ["einsum2", "matrix_multiplication", "element_wise_product"]
    assert written["version"] == 1
    assert (len(UNARY_NAMES), len(BINARY_NAMES)) == (28, 10)


@pytest.mark.parametrize(
    ("genotype", "formula"),
    [
        (TRIAL_105, "q * l2norm(l2norm(q) @ standardize(minmax(v).T @ elu1(k)))"),
        (Genotype("i3n2", [[0], [0], [0], [0]], [5, 6]), "v @ (q.T @ k).T"),
        (Genotype("i3n2", [[1], [1], [0], [0]], [5, 5]), "(q.T.T @ k.T).T @ v"),
        (Genotype("i3n301", [[0], [0], [0], [5], [2], [0]], [5, 6, 3]), "(v @ abs(q.T @ k).T) @ softmax(q.T @ k)"),
        (Genotype("i3n302", [[0], [0], [0], [26], [0], [0]], [6, 3, 0]), "q + v @ sigmoid(-(v.T @ k))"),
        (Genotype("i3n304", [[17], [0], [0], [0], [0], [20]], [2, 2, 0]), None),
        (Genotype("i3n305", [[0], [0], [0], [0], [17], [0]], [2, 0, 2]), "sum(k * v, axis=-2) * (q + v)"),
        (
            Genotype("i3n305", [[0], [17], [0], [0], [17, 17], [0]], [2, 0, 2]),
            "sum(sum(k * sum(v, axis=-2), axis=-2)) * (q + v)",
        ),
    ],
)
def test_dataflow(genotype, formula):
    graph = genotype.to_graph()
    if formula is None:
        formula = "v + l2norm(q * (sum(k, axis=-2) * v), axis=-2)"
    assert graph == parse(formula)


def test_shared_values_are_not_changed_in_place():
    """i3n301's last operand is the first result before slot 3, whatever slot 3 does."""
    genotype = Genotype("i3n301", [[0], [0], [0], [4, 11, 27], [0], [0]], [5, 6, 3])
    assert genotype.to_graph() == parse("(v @ sumnorm(sqrt(logabs(q.T @ k))).T) @ (q.T @ k)")


def test_notes_say_where_upstream_differs():
    notes = Genotype("i3n2", [[6, 3], [13, 18], [1, 15, 1], [0]], [4, 0]).to_graph().notes
    assert [note.split()[0] for note in notes] == [
        "normalize:",
        "element_wise_log",
        "min_max_normalize:",
        "unsqz1",
        "cosine_similarity",
        "scale",
    ]
    assert Genotype("i3n2", [[0]] * 4, [0, 0]).to_graph().notes == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("i3n9", [], []), r"unknown graph type 'i3n9'; known: i3n2, i3n301"),
        ((None, [], []), "unknown graph type None"),
        (("i3n303", [[0]] * 5, [0, 0, 0]), "five slots for i3n303; it has six"),
        (("i3n303", [[0]] * 6, [0, 0]), "two binaries for i3n303; it has three"),
        (("i3n2", [[0], [0, 28], [0], [0]], [0, 0]), "slot 1, position 1: unary operator 28 does not exist.*0 to 27"),
        (("i3n2", [[0], [-1], [0], [0]], [0, 0]), "slot 1, position 0: unary operator -1"),
        (("i3n2", [[0]] * 4, [0, 10]), "binary 1: binary operator 10 does not exist; indices run from 0 to 9"),
        (("i3n2", [[0], [2.0], [0], [0]], [0, 0]), "slot 1, position 0: an operator index is an integer, got 2.0"),
        (("i3n2", [[0], [True], [0], [0]], [0, 0]), "is an integer, got True"),
        (("i3n2", [[0], None, [0], [0]], [0, 0]), "slot 1 must be a list of operator indices, got None"),
        (("i3n2", [[0], 5, [0], [0]], [0, 0]), "slot 1 must be a list"),
        (("i3n2", None, [0, 0]), "unary_ops must be a list of operator indices for each slot, got None"),
        (("i3n2", [[0]] * 4, "00"), "binary_ops must be one operator index for each join, got '00'"),
    ],
)
def test_bad_genotypes_name_the_place(arguments, message):
    with pytest.raises(InvalidGraph, match=message):
        Genotype(*arguments)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "a genotype is a mapping .* got NoneType"),
        (7, "got int"),
        ({}, "lacks graph_type, unary_op, binary_op"),
        ({"graph_type": "i3n2", "unary_op": []}, "lacks binary_op; it has 'graph_type', 'unary_op'"),
        ("", "the configuration is empty"),
        ("just words", "a genotype is a mapping"),
        ("a: 1\nwords\n", "line 2 is no 'key: value': 'words'"),
        ("a:\n    b: 1\n  c: 2\n", "line 3 is indented otherwise"),
        ("graph_type: i3n2\nunary_op: [[0], [__import__]\n", "line 2 is no list or mapping"),
        ("[" * 5000, "line 1 is no list or mapping"),
        ("- " * 500 + "1", "nested too deeply"),
        ("x" * 100_001, "the configuration has 100001 characters"),
    ],
)
def test_bad_sources_say_what_is_wrong(source, message):
    with pytest.raises(InvalidGraph, match=message):
        Genotype.read(source)


@pytest.mark.parametrize(
    ("genotype", "message"),
    [
        (Genotype("i3n2", [[0], [22], [0], [0]], [0, 0]), r"i3n2 slot 1, position 0 \(22, unsqz2\): .*across samples"),
        (Genotype("i3n2", [[0, 23], [0], [0], [0]], [0, 0]), r"slot 0, position 1 \(23, axis_sum2\): .*heads"),
        (Genotype("i3n2", [[0], [0], [24], [0]], [0, 0]), r"slot 2, position 0 \(24, repeat\): .*192"),
        (Genotype("i3n2", [[0]] * 4, [8, 0]), r"binary 0 \(8, einsum4\)"),
        (Genotype("i3n2", [[0]] * 4, [0, 9]), r"binary 1 \(9, cat\): .*doubles the features"),
        (Genotype("i3n2", [[0]] * 4, [3, 0]), r"binary 0 \(3, matrix_multiplication\): .*does not contract"),
        (Genotype("i3n2", [[1], [0], [0], [0]], [5, 0]), r"binary 0 \(5, einsum1\): .*share neither"),
        (Genotype("i3n2", [[0], [0], [0], [17]], [0, 5]), r"i3n2: the result must be \(N, d\).*it is \(1, N\)"),
    ],
)
def test_what_means_nothing_here_is_refused_with_the_place(genotype, message):
    with pytest.raises(InvalidGraph, match=message):
        genotype.to_graph()


@given(genotypes())
def test_genotypes_that_convert_come_back_as_the_same_function(genotype):
    try:
        graph = genotype.to_graph()
    except InvalidGraph:
        return
    back = Genotype.from_graph(graph)
    assert back.to_graph().key == graph.key
    assert Genotype.read(json.loads(genotype.to_json())) == genotype


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), st.lists))
def test_anything_else_is_refused_by_name(value):
    for arguments in ((value, [], []), ("i3n2", value, [0, 0]), ("i3n2", [[0]] * 4, value)):
        with pytest.raises(InvalidGraph):
            Genotype(*arguments)
    with pytest.raises(InvalidGraph):
        Genotype.read(value)


def test_grid_cells_of_the_six_types_are_genotypes():
    for cell in cells()[::7]:
        if cell.family == "linear":
            with pytest.raises(InvalidGraph, match="follow none of the graph types"):
                Genotype.from_graph(cell_graph(cell))
        else:
            genotype = Genotype.from_graph(cell_graph(cell))
            assert genotype.to_graph().key == cell_graph(cell).key


def test_operators_outside_the_28_are_named():
    with pytest.raises(InvalidGraph, match="gelu is none of its operators"):
        Genotype.from_graph(parse("gelu(q + k) * v"))


def test_a_row_operator_reaches_columns_between_transposes():
    genotype = Genotype.from_graph(parse("sumnorm(q + k, axis=-2) * v"))
    assert genotype.unary_ops[3] == (1, 27, 1)
    assert isinstance(genotype.to_graph(), Graph)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (np.array([3]), "slot 0, position 0: an operator index is an integer, got array"),
        (10**5000, "slot 0, position 0: unary operator of more than nine digits does not exist"),
    ],
    ids=["array", "huge"],
)
def test_what_only_looks_like_an_index(index, message):
    with pytest.raises(InvalidGraph, match=message):
        Genotype("i3n2", [[index], [0], [0], [0]], [2, 2])


def test_nesting_has_a_limit():
    endless: dict[str, object] = {}
    endless["AT"] = endless
    for source in (endless, '{"AT": ' * 100 + "1" + "}" * 100):
        with pytest.raises(InvalidGraph, match="nested too deeply"):
            Genotype.read(source)


def test_spaces_inside_a_key_are_kept_and_around_it_dropped():
    assert (
        Genotype.read("my  key : 1\nGRAPH_TYPE  : i3n2\nUNARY_OP: [[0],[0],[0],[0]]\nBINARY_OP: [2, 2]").graph_type
        == "i3n2"
    )
