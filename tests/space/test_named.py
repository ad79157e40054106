"""Named graphs: every one parses, is a different spelling or a known alias, and the papers' identities hold."""

from collections import defaultdict

from attnbench.space.grid import Cell, cell_key
from attnbench.space.named import NAMED, named_graphs
from attnbench.space.parse import parse

QUADRATIC = {"softmax", "cosine softmax", "sigmoid attention"}


def test_every_named_formula_is_a_graph_with_a_source():
    graphs = named_graphs()
    assert len({named.name for named in NAMED}) == len(NAMED)
    for named in NAMED:
        assert graphs[named.name] == parse(named.formula)
        assert named.source
        expected = "O(N^2)" if named.name in QUADRATIC else "O(N)"
        assert graphs[named.name].complexity == expected, named.name


def test_controls_and_trials_are_there():
    graphs = named_graphs()
    assert {n.name: n.formula for n in NAMED if n.is_control} == {
        "v": "v",
        "zeros": "zeros(v)",
        "uniform": "zeros(q) + mean(v, axis=-2)",
    }
    trials = {name for name in graphs if name.startswith("Trial")}
    assert trials == {f"Trial {n}" for n in (25, 34, 76, 80, 105, 140, 174, 228, 240, 272)}
    assert graphs["Trial 105"] == parse("q * l2norm(l2norm(q) @ standardize(minmax(v).T @ elu1(k)))")


def test_only_the_denominator_form_has_two_names():
    names = defaultdict(list)
    for name, graph in named_graphs().items():
        names[graph.key].append(name)
    assert [group for group in names.values() if len(group) > 1] == [["kernel linear elu1", "ImageNet default"]]


def test_xca_is_a_grid_cell():
    cell = Cell("i3n2", "none", "l2norm_tokens", "none", "l2norm_tokens", "softmax")
    assert named_graphs()["xca"].key == cell_key(cell)
