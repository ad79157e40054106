"""The one list of proxies; scoring, the tests and the tables follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from attnbench.nn.proxies.az_nas import az_nas
from attnbench.nn.proxies.counts import macs, params
from attnbench.nn.proxies.dss import REPORTED, dss
from attnbench.nn.proxies.grad_norm import grad_norm
from attnbench.nn.proxies.grasp import grasp
from attnbench.nn.proxies.jacob_cov import jacob_cov
from attnbench.nn.proxies.naswot import naswot
from attnbench.nn.proxies.snip import snip
from attnbench.nn.proxies.synflow import synflow
from attnbench.nn.proxies.te_nas import te_nas
from attnbench.nn.proxies.zico import zico

Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Proxy:
    """One proxy.

    function: called with the model, then by `data`: "none", the images' shape (channels, rows, cols); "images", a
    batch of images; "labelled images", images and labels; and with `dtype`, what it computes in. It returns the value
    of every one of `columns`, NaN and infinities included, and leaves the model as it was.
    columns: the names under which its values stand in `proxies`, a part as `proxy.part`, and whether a higher or a
    lower value promises a better network. deterministic: the value follows from the weights, and the batch where it
    needs one, to the last bit; what is drawn is drawn by a fixed seed.
    """

    name: str
    function: Callable[..., dict[str, float]]
    columns: Mapping[str, Direction]
    data: Literal["none", "images", "labelled images"]
    deterministic: bool
    source: str


DSS: dict[str, Direction] = {"dss": "higher", **{f"dss.{part}": "higher" for part in REPORTED}}
TE_NAS: dict[str, Direction] = {"te_nas.ntk_cond": "lower", "te_nas.regions": "higher"}
AZ_NAS: dict[str, Direction] = {f"az_nas.{part}": "higher" for part in ("expressivity", "trainability", "complexity")}
PEER = "Abdelfattah et al. 2021"

PROXIES: dict[str, Proxy] = {
    proxy.name: proxy
    for proxy in (
        Proxy("dss", dss, DSS, "none", True, "TF-TAS, Zhou et al. 2022"),
        Proxy("snip", snip, {"snip": "higher"}, "labelled images", True, f"Lee et al. 2019; {PEER}"),
        Proxy("grasp", grasp, {"grasp": "higher"}, "labelled images", True, f"Wang et al. 2020; {PEER}"),
        Proxy("naswot", naswot, {"naswot": "higher"}, "images", True, "Mellor et al. 2021"),
        Proxy("te_nas", te_nas, TE_NAS, "images", True, "Chen et al. 2021"),
        Proxy("synflow", synflow, {"synflow": "higher"}, "none", True, f"Tanaka et al. 2020; {PEER}"),
        Proxy("grad_norm", grad_norm, {"grad_norm": "higher"}, "labelled images", True, PEER),
        Proxy("jacob_cov", jacob_cov, {"jacob_cov": "higher"}, "images", True, f"Mellor et al. 2020; {PEER}"),
        Proxy("zico", zico, {"zico": "higher"}, "labelled images", True, "Li et al. 2023"),
        Proxy("az_nas", az_nas, AZ_NAS, "none", True, "Lee and Ham 2024"),
        Proxy("params", params, {"params": "higher"}, "none", True, "the first baseline of any score"),
        Proxy("macs", macs, {"macs": "higher"}, "none", True, "the second"),
    )
}


def proxy(name: str) -> Proxy:
    """A proxy by its name. Raises: ValueError (the message lists the known names)."""
    if name not in PROXIES:
        raise ValueError(f"unknown proxy {name!r}; known: {', '.join(PROXIES)}.")
    return PROXIES[name]
