"""The one list of proxies; scoring, the tests and the tables follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from attnbench.nn.proxies.dss import REPORTED, dss
from attnbench.nn.proxies.naswot import naswot
from attnbench.nn.proxies.snip import snip
from attnbench.nn.proxies.synflow import synflow


@dataclass(frozen=True)
class Proxy:
    """One proxy.

    function: called with the model, then by `data`: "none", the images' shape (channels, rows, cols); "images", a
    batch of images; "labelled images", images and labels; and with `dtype`, what it computes in. It returns the value
    of every one of `columns`, NaN and infinities included, and leaves the model as it was.
    direction: whether a higher or a lower value promises a better network. deterministic: the value follows from the
    weights, and the batch where it needs one, to the last bit; nothing is drawn.
    """

    name: str
    function: Callable[..., dict[str, float]]
    direction: Literal["higher", "lower"]
    data: Literal["none", "images", "labelled images"]
    deterministic: bool
    source: str
    parts: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names under which its values stand in `proxies`: its own, then those of its parts."""
        return (self.name, *(f"{self.name}.{part}" for part in self.parts))


PROXIES: dict[str, Proxy] = {
    proxy.name: proxy
    for proxy in (
        Proxy("dss", dss, "higher", "none", True, "TF-TAS, Zhou et al. 2022", REPORTED),
        Proxy("snip", snip, "higher", "labelled images", True, "Lee et al. 2019; Abdelfattah et al. 2021"),
        Proxy("naswot", naswot, "higher", "images", True, "Mellor et al. 2021"),
        Proxy("synflow", synflow, "higher", "none", True, "Tanaka et al. 2020; Abdelfattah et al. 2021"),
    )
}


def proxy(name: str) -> Proxy:
    """A proxy by its name. Raises: ValueError (the message lists the known names)."""
    if name not in PROXIES:
        raise ValueError(f"unknown proxy {name!r}; known: {', '.join(PROXIES)}.")
    return PROXIES[name]
