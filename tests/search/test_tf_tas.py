"""TF-TAS's search: distinct candidates in the window, everything kept, resumable, NaN never best."""

from __future__ import annotations

import math
from random import Random

import pytest

from attnbench.errors import InvalidSubnet
from attnbench.search.subnets import SubnetCandidates
from attnbench.search.tf_tas import N_CANDIDATES, search_by_proxy
from attnbench.space.subnet_named import PARAM_WINDOWS, SPACES
from tests.search.subnets import MICRO, PIT, landscape


def test_the_published_number_of_candidates() -> None:
    assert N_CANDIDATES == 8_000


@pytest.mark.parametrize(("name", "window"), [("autoformer-tiny", PARAM_WINDOWS["tiny-tf-tas"]), ("pit-tiny", None)])
def test_the_best_of_distinct_subnets_in_the_window(name: str, window) -> None:
    candidates = SubnetCandidates(SPACES[name], window=window)
    ticks = []
    found = search_by_proxy(
        candidates, lambda s: -float(candidates.params(s)), Random(0), n=80, progress=lambda: ticks.append(1)
    )
    assert len({c.subnet.key for c in found.candidates}) == len(found.candidates) == len(ticks) == 80
    assert found.best.params == min(c.params for c in found.candidates)
    assert found.largest.params == max(c.params for c in found.candidates)
    assert all(c.score == -c.params for c in found.candidates)
    assert window is None or all(window[0] <= c.params <= window[1] for c in found.candidates)
    lowest = search_by_proxy(candidates, lambda s: float(candidates.params(s)), Random(0), n=80, direction="lower")
    assert lowest.best.subnet == found.best.subnet


def test_a_killed_search_goes_on_where_it_was() -> None:
    candidates, scores, calls = SubnetCandidates(MICRO), {}, []

    def remembered(subnet) -> float:
        if subnet.key not in scores:
            calls.append(subnet)
            if len(calls) == 12 and len(scores) == 11:
                raise KeyboardInterrupt
            scores[subnet.key] = landscape(subnet)
        return scores[subnet.key]

    with pytest.raises(KeyboardInterrupt):
        search_by_proxy(candidates, remembered, Random(7), n=30)
    assert len(scores) == 11
    resumed = search_by_proxy(candidates, remembered, Random(7), n=30)
    assert len(calls) == 31  # the one that was cut off, once more
    assert resumed == search_by_proxy(candidates, landscape, Random(7), n=30)


def test_scores_that_are_no_numbers_are_kept_and_never_win() -> None:
    values = iter([math.nan, 1.0, None, math.inf, 2.0, 2.0])
    found = search_by_proxy(SubnetCandidates(PIT), lambda _: next(values), Random(0), n=6)
    assert [c.score for c in found.candidates] == [None, 1.0, None, None, 2.0, 2.0]
    assert found.best == found.candidates[4]
    assert search_by_proxy(SubnetCandidates(PIT), lambda _: None, Random(0), n=3).best is None


def test_a_window_that_holds_fewer_is_searched_whole() -> None:
    sizes = sorted({SubnetCandidates(PIT).params(SubnetCandidates(PIT).sample(Random(i))) for i in range(50)})
    candidates = SubnetCandidates(PIT, window=(0, sizes[2]))
    found = search_by_proxy(candidates, lambda _: 1.0, Random(0), n=5000)
    assert len(found.candidates) == len(candidates) < found.n_wanted == 5000


def test_a_window_that_holds_none_is_named() -> None:
    least = SubnetCandidates(PIT).params(PIT.smallest)
    with pytest.raises(
        InvalidSubnet, match=f"no subnet of pit-micro has {least + 1:,} to {least + 2:,} parameters; wid"
    ):
        search_by_proxy(SubnetCandidates(PIT, window=(least + 1, least + 2)), lambda _: 1.0, Random(0), n=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n is 0; the number of random subnets is a whole number from 1"),
        ({"direction": "up"}, 'direction is \'up\'; say which end of the score is better: "higher" or "lower"'),
    ],
)
def test_wrong_options_are_named(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search_by_proxy(SubnetCandidates(PIT), lambda _: 1.0, Random(0), **options)
