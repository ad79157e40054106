"""One text, one architecture: subnets and formulas are told apart by how they start."""

import pytest

from attnbench.errors import InvalidGraph, InvalidSubnet
from attnbench.space.architecture import read_architecture
from attnbench.space.graph import Graph
from attnbench.space.parse import parse
from attnbench.space.subnet_named import SPACES


@pytest.mark.parametrize("space", SPACES.values(), ids=lambda space: space.name)
def test_texts_of_every_space_are_subnets(space):
    assert read_architecture(space.smallest.text) == space.smallest
    assert read_architecture(" " + space.largest.text).key == space.largest.key


def test_everything_else_is_a_formula():
    found = read_architecture("softmax(q) @ (k.T @ v)")
    assert isinstance(found, Graph)
    assert found.key == parse("softmax(q) @ (k.T @ v)").key


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("autoformer(embed_dim=24)", InvalidSubnet, "autoformer got no heads"),
        ("pit (", InvalidSubnet, "is no subnet"),
        ("pit", InvalidGraph, "pit"),
        ("swin(embed_dim=24)", InvalidGraph, "swin"),
        ("q * ", InvalidGraph, "q"),
        (3, InvalidGraph, "a formula is a string, got int"),
    ],
)
def test_what_is_neither_keeps_its_own_error(text, error, message):
    with pytest.raises(error, match=message):
        read_architecture(text)
