"""Letters for stages, and what stages share."""

from __future__ import annotations

import pytest

from attnbench.nn.operators import compile_graph
from attnbench.nn.stages import for_one_attention, need_one_each, searched_blocks
from attnbench.space.parse import parse


def test_letters_say_which_blocks_are_searched() -> None:
    assert searched_blocks("ABM2M0", (2, 1, 3, 1)) == ((True, True), (False,), (True, True, False), (False,))


@pytest.mark.parametrize("letters", ["AA", "AAAB", "aab", "AM", "AAMB", "A2B", ""])
def test_letters_that_do_not_fit_are_refused(letters: str) -> None:
    with pytest.raises(ValueError, match=rf"'{letters}' does not say which blocks of 3 stages are searched; write for"):
        searched_blocks(letters, (1, 1, 1))


def test_more_searched_blocks_than_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="M3 in 'AM3' searches 3 blocks of a stage that has 2; use A"):
        searched_blocks("AM3", (1, 2))


def test_settings_have_one_value_a_stage() -> None:
    need_one_each(2, widths=(8, 16), n_heads=(1, 2))
    with pytest.raises(ValueError, match=r"n_heads = \(1,\) has 1 values for 2 stages; give one for each"):
        need_one_each(2, widths=(8, 16), n_heads=(1,))


def test_every_attention_has_its_own_statistics() -> None:
    graph = compile_graph(parse("batchnorm(q) @ (k.T @ v)"))
    one = for_one_attention(graph)
    assert one is not graph
    assert one.graph == graph.graph
    assert for_one_attention(max) is max
