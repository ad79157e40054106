"""Which end of a stored zero-cost score promises a better network."""

from __future__ import annotations

from typing import Literal

# Of a proxy, or of a part that points another way than its whole. The proxies' registry declares the same, but needs
# torch; a test holds the two equal.
PROXY_DIRECTIONS: dict[str, Literal["higher", "lower"]] = {
    "dss": "higher",
    "snip": "higher",
    "naswot": "higher",
    "synflow": "higher",
    "grasp": "higher",
    "te_nas.ntk_cond": "lower",
    "te_nas.regions": "higher",
    "grad_norm": "higher",
    "jacob_cov": "higher",
    "zico": "higher",
    "az_nas.expressivity": "higher",
    "az_nas.trainability": "higher",
    "az_nas.complexity": "higher",
    "params": "higher",
    "macs": "higher",
}


def proxy_direction(name: str) -> Literal["higher", "lower"]:
    """Which end of a score is good; a part, such as dss.qkv, points the way of its whole unless it is listed."""
    return PROXY_DIRECTIONS.get(name) or PROXY_DIRECTIONS.get(name.split(".")[0], "higher")
