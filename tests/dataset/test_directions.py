"""Which end of a score is good."""

import pytest

from attnbench.dataset.directions import proxy_direction


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("dss", "higher"),
        ("dss.qkv", "higher"),
        ("te_nas.ntk_cond", "lower"),
        ("te_nas.regions", "higher"),
        ("?", "higher"),
    ],
)
def test_a_part_points_the_way_of_its_whole_unless_it_is_listed(name: str, direction: str) -> None:
    assert proxy_direction(name) == direction
