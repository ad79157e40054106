"""Subnets of the micro space with a made-up landscape, shared by the tests of searches over subnets."""

from __future__ import annotations

from random import Random

from attnbench.search.measurements import MeasuredRun, Measurements
from attnbench.search.subnets import SubnetCandidates
from attnbench.space.subnet import AutoFormerSubnet, Subnet
from attnbench.space.subnet_named import SPACES
from attnbench.space.subnet_sample import sample

MICRO = SPACES["autoformer-micro"]
PIT = SPACES["pit-micro"]


def stored_subnets(n: int = 300, seed: int = 0) -> list[Subnet]:
    """Distinct subnets, as a table holds them."""
    rng = Random(seed)
    found: dict[str, Subnet] = {}
    while len(found) < n:
        subnet = sample(MICRO, rng)
        found[subnet.key] = subnet
    return list(found.values())


def landscape(subnet: Subnet) -> float:
    """A smooth accuracy: wide and deep is good, and so are many heads early on."""
    assert isinstance(subnet, AutoFormerSubnet)
    return 50 + subnet.embed_dim / 6 + 2 * subnet.depth + subnet.heads[0] + sum(subnet.mlp_ratios) / subnet.depth


def inherited_and_true(n: int = 300, n_true: int = 60) -> tuple[Measurements, list[Subnet]]:
    """Shown: one inherited accuracy for each of n subnets; truth: two runs for the first n_true of them."""
    subnets = stored_subnets(n)
    shown = [MeasuredRun(subnet.key, 0, landscape(subnet)) for subnet in subnets]
    truth = [
        MeasuredRun(subnet.key, seed, landscape(subnet) + 5 + seed, 200.0 + i)
        for i, subnet in enumerate(subnets[:n_true])
        for seed in (0, 1)
    ]
    return Measurements(shown, truth=truth), subnets


def micro_candidates(n: int = 300) -> SubnetCandidates:
    return SubnetCandidates(MICRO, only=stored_subnets(n))
