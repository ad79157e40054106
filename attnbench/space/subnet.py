"""`Subnet`: one vision transformer of AutoFormer's or PiT's search space, with its text and key."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise

from attnbench.errors import InvalidSubnet

PREFIX = "sn1-"
HEAD_DIM = 64  # AutoFormer ties the width of q, k and v to 64 times the heads, so that the scale stays 1/8
N_STAGES = 3
MAX_WHOLE = 2**31 - 1  # far beyond any network, and what the tables' columns hold


class Subnet(ABC):
    """What a search chooses: widths, depths, heads and ratios. Image, patches and classes belong to a `Frame`.

    Equal subnets have equal texts, and so equal keys.
    """

    @property
    @abstractmethod
    def text(self) -> str:
        """The specification, the same for equal subnets: `parse_subnet(subnet.text) == subnet`."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """Number of transformer blocks."""

    @cached_property
    def key(self) -> str:
        """`sn1-` and 32 hex digits, the 128-bit BLAKE2b of the text: the identity of the subnet in every table."""
        return PREFIX + blake2b(self.text.encode(), digest_size=16).hexdigest()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class AutoFormerSubnet(Subnet):
    """A ViT with one width, and for every block its heads of `head_dim` and its MLP ratio.

    Numbers may come as lists, tuples or arrays; they are kept as tuples of int and float.
    Raises: InvalidSubnet, naming the field and the layer.
    Source: AutoFormer, Chen et al. 2021, section 3.
    """

    embed_dim: int
    heads: tuple[int, ...]
    mlp_ratios: tuple[float, ...]
    head_dim: int = HEAD_DIM

    def __post_init__(self) -> None:
        width = whole(self.embed_dim, "embed_dim")
        heads = tuple(whole(h, f"heads of layer {i}") for i, h in enumerate(_sequence(self.heads, "heads")))
        ratios = tuple(
            _ratio(r, width, f"mlp ratio of layer {i}") for i, r in enumerate(_sequence(self.mlp_ratios, "mlp_ratios"))
        )
        if len(heads) != len(ratios):
            raise InvalidSubnet(
                f"heads are given for {len(heads)} layers and mlp_ratios for {len(ratios)}; each needs one per layer"
            )
        _freeze(self, embed_dim=width, heads=heads, mlp_ratios=ratios, head_dim=whole(self.head_dim, "head_dim"))

    @property
    def depth(self) -> int:
        return len(self.heads)

    @property
    def text(self) -> str:
        return (
            f"autoformer(embed_dim={self.embed_dim}, heads={listed(self.heads)}, "
            f"mlp_ratios={listed(self.mlp_ratios)}, head_dim={self.head_dim})"
        )

    @property
    def hidden_dims(self) -> tuple[int, ...]:
        """Width of every block's MLP."""
        return tuple(int(self.embed_dim * ratio) for ratio in self.mlp_ratios)


@dataclass(frozen=True)
class PiTSubnet(Subnet):
    """Three stages of width `base_dim` times heads, halved in resolution between them; one MLP ratio.

    The pooling between stages is a depthwise convolution, so a stage's heads are a multiple of those before it.
    Raises: InvalidSubnet, naming the field and the stage.
    Source: PiT, Heo et al. 2021; TF-TAS, Zhou et al. 2022, section 4.
    """

    base_dim: int
    depths: tuple[int, ...]
    heads: tuple[int, ...]
    mlp_ratio: float

    def __post_init__(self) -> None:
        base = whole(self.base_dim, "base_dim")
        stages: dict[str, tuple[int, ...]] = {}
        for field in ("depths", "heads"):
            given = _sequence(getattr(self, field), field)
            if len(given) != N_STAGES:
                raise InvalidSubnet(f"{field} has {len(given)} entries, {list(given)}; PiT has {N_STAGES} stages")
            stages[field] = tuple(whole(n, f"{field} of stage {i}") for i, n in enumerate(given))
        heads = stages["heads"]
        for i, (before, after) in enumerate(pairwise(heads)):
            if after % before:
                raise InvalidSubnet(
                    f"{before} heads in stage {i} and {after} in stage {i + 1}: depthwise pooling between them needs "
                    f"a multiple of {before}"
                )
        _freeze(self, base_dim=base, **stages, mlp_ratio=_ratio(self.mlp_ratio, base * heads[0], "mlp_ratio"))

    @property
    def depth(self) -> int:
        return sum(self.depths)

    @property
    def text(self) -> str:
        return (
            f"pit(base_dim={self.base_dim}, depths={listed(self.depths)}, heads={listed(self.heads)}, "
            f"mlp_ratio={number(self.mlp_ratio)})"
        )

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of every stage."""
        return tuple(self.base_dim * n for n in self.heads)


def _freeze(subnet: Subnet, **fields: object) -> None:
    for name, value in fields.items():
        object.__setattr__(subnet, name, value)


def _sequence(value: object, field: str) -> tuple[object, ...]:
    given: tuple[object, ...] | None = None
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping | Set):  # those have no order of layers
        try:
            given = tuple(value)
        except Exception:  # such as an array of no dimension
            given = None
    if given is None:
        raise InvalidSubnet(f"{field} must be a list of numbers, got {shown(value)}")
    if not given:
        raise InvalidSubnet(f"{field} is empty; a subnet has at least one block")
    return given


def whole(value: object, field: str) -> int:
    """A number of things as an int, whatever type of integer it comes as. Raises: InvalidSubnet, naming the field."""
    try:
        found = 0 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except Exception:  # no integer, or an array that is none, in the words of the library it comes from
        found = 0
    if not 1 <= found <= MAX_WHOLE:
        raise InvalidSubnet(f"{field} must be a whole number from 1 to {MAX_WHOLE}, got {shown(value)}")
    return found


def _ratio(value: object, width: int, field: str) -> float:
    """A ratio whose MLP has at least one unit: `int(width * ratio)`, as the released code rounds."""
    try:
        ratio = None if isinstance(value, bool | str) else float(value)  # type: ignore[arg-type]
    except Exception:  # as above
        ratio = None
    if ratio is None:
        raise InvalidSubnet(f"{field} must be a number, got {shown(value)}")
    if not math.isfinite(ratio) or not 1 <= width * ratio <= MAX_WHOLE:
        raise InvalidSubnet(
            f"{field} must be finite and give the MLP from 1 to {MAX_WHOLE} units at width {width}, got {ratio}"
        )
    return ratio


def shown(value: object) -> str:
    """The beginning of a value's repr, for errors; its type where it has none, as integers of 5,000 digits."""
    try:
        return f"{value!r:.60}"
    except Exception:
        return f"a {type(value).__name__}"


def number(value: float) -> str:
    """A number in its shortest exact spelling: 4.0 and 4 are "4"."""
    return repr(value).removesuffix(".0")


def listed(values: tuple[float, ...]) -> str:
    """Numbers as a list in a subnet's text."""
    return "[" + ", ".join(map(number, values)) + "]"
