"""TF-TAS's search: the best of many random subnets by a score that takes no training."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal, NamedTuple

from attnbench.errors import InvalidSubnet
from attnbench.search.searchers import RandomSearch
from attnbench.search.subnets import SubnetCandidates
from attnbench.space.subnet import Subnet

N_CANDIDATES = 8_000


class ScoredSubnet(NamedTuple):
    """A candidate with its score, None where it has no finite one, and its parameters."""

    subnet: Subnet
    score: float | None
    params: int


@dataclass(frozen=True)
class ProxySearch:
    """A finished search. candidates: everything that was scored, each subnet once, in the order of drawing.

    best: the first among the best scores; None where no score is finite. largest: the first among the candidates with
    the most parameters, the control that every such search is to be compared with. n_wanted: fewer candidates than
    that mean that the window holds no more.
    """

    candidates: tuple[ScoredSubnet, ...]
    best: ScoredSubnet | None
    largest: ScoredSubnet
    n_wanted: int


def search_by_proxy(
    candidates: SubnetCandidates,
    score: Callable[[Subnet], float | None],
    rng: Random,
    *,
    n: int = N_CANDIDATES,
    direction: Literal["higher", "lower"] = "higher",
    progress: Callable[[], None] = lambda: None,
) -> ProxySearch:
    """The best by a score of n distinct random subnets.

    score: called once a subnet; one that remembers its answers makes the search resumable, as the same seed draws the
    same subnets. progress: called after each.
    Raises: ValueError (n, direction); InvalidSubnet where no subnet meets the window.
    Source: Zhou et al. 2022, "Training-free transformer architecture search", section 4, and its released code, which
    tells neither duplicates apart nor keeps what it scored.
    """
    if n < 1:
        raise ValueError(f"n is {n}; the number of random subnets is a whole number from 1.")
    if direction not in ("higher", "lower"):
        raise ValueError(f'direction is {direction!r}; say which end of the score is better: "higher" or "lower".')
    draws = RandomSearch(candidates, rng)
    scored: list[ScoredSubnet] = []
    while len(scored) < n and (subnet := draws.ask()) is not None:
        value = score(subnet)
        scored.append(ScoredSubnet(subnet, _finite(value), candidates.params(subnet)))
        progress()
    if not scored:
        raise InvalidSubnet(candidates.empty())
    sign = 1 if direction == "higher" else -1
    known = [candidate for candidate in scored if candidate.score is not None]
    return ProxySearch(
        candidates=tuple(scored),
        best=max(known, key=lambda candidate: sign * candidate.score, default=None),  # type: ignore[operator]
        largest=max(scored, key=lambda candidate: candidate.params),
        n_wanted=n,
    )


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
