"""Learning curves: one colour a name, one line a run, whatever its length."""

from attnbench.analysis.plot import plot_curves


def test_runs_of_a_name_share_a_colour_and_a_label() -> None:
    axes = plot_curves({"softmax": [[50.0, 60.0, 70.0], [51.0, 61.0, 71.0]], "v": [[10.0, 10.0]]})
    first, second, stopped = axes.get_lines()
    assert first.get_color() == second.get_color() != stopped.get_color()
    assert list(stopped.get_xdata()) == [1, 2]
    assert list(second.get_ydata()) == [51.0, 61.0, 71.0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["softmax", "v"]
    assert list(axes.get_xticks()) == [1, 2, 3]


def test_no_curves_are_an_empty_figure() -> None:
    axes = plot_curves({})
    assert not axes.get_lines()
    assert axes.get_legend() is None
