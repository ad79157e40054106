"""The dataset card: its columns come from the schema, its words stay."""

import pytest

from attnbench.dataset.schema import TABLES
from attnbench.dataset.table import Table
from builders import card


def test_pages_are_replaced_and_the_words_around_stay() -> None:
    made = card.render(f"before\n{card.START}old\n{card.END}\nafter\n")
    assert made.startswith("before\n")
    assert made.endswith(f"{card.END}\nafter\n")
    assert "old" not in made
    assert all(card.describe(name) in made for name in TABLES)
    assert card.render(made) == made


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_page_names_every_column(table: Table) -> None:
    page = card.describe(table.name)
    assert f"### `{table.name}`" in page
    for column in table.columns:
        assert f"| `{column.name}` | `{column.dtype}` | {column.unit} | {column.better} |" in page


@pytest.mark.parametrize("text", ["", f"{card.START} no end", f"{card.END} before {card.START}"])
def test_missing_marks_are_named(text: str) -> None:
    with pytest.raises(
        ValueError, match="the dataset card needs '<!-- generated: columns -->' and then '<!-- end -->'"
    ):
        card.render(text)


def test_the_card_of_this_checkout_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert card.main(["--check"]) == 0
    assert capsys.readouterr().out == "the card is up to date\n"


def test_an_old_card_is_reported_then_written(tmp_path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"{card.START}{card.END}\n")
    monkeypatch.setattr(card, "CARD", path)
    assert card.main(["--check"]) == 1
    assert "out of date: python -m builders card" in capsys.readouterr().out
    assert card.main([]) == 0
    assert card.main(["--check"]) == 0
