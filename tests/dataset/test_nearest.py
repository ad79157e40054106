"""Which rows look like a formula."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.dataset.nearest import edit_distance, nearest
from tests.dataset.tiny import ABSENT, ELU, ROWS, SOFTMAX, UNTRAINED

TEXTS = [text for text, *_ in ROWS]
words = st.lists(st.sampled_from("abc"), max_size=8)


def test_nearest_first() -> None:
    assert nearest(ABSENT, TEXTS, n=2) == (ELU, UNTRAINED)
    assert nearest("softmax(q @ k.T) @ v", TEXTS, n=1) == (SOFTMAX,)


def test_a_stored_text_is_nearest_to_itself() -> None:
    for text in TEXTS:
        assert nearest(text, TEXTS, n=1) == (text,)


@pytest.mark.parametrize(("n", "texts"), [(0, TEXTS), (3, [])])
def test_nothing_to_name(n: int, texts: list[str]) -> None:
    assert nearest(ABSENT, texts, n=n) == ()


def test_edit_distance_of_known_pairs() -> None:
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == 3


@given(words, words, words)
def test_edit_distance_is_a_metric(a: list[str], b: list[str], c: list[str]) -> None:
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
