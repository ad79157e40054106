"""Named subnet spaces and parameter windows, and the subnets that papers published."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from attnbench.space.subnet import AutoFormerSubnet, PiTSubnet, Subnet
from attnbench.space.subnet_spaces import AutoFormerSpace, PiTSpace, SubnetSpace

_TINY = AutoFormerSpace("autoformer-tiny", "autoformer", (192, 216, 240), (3, 4), (3, 3.5, 4), (12, 13, 14))
_SMALL = AutoFormerSpace("autoformer-small", "autoformer", (320, 384, 448), (5, 6, 7), (3, 3.5, 4), (12, 13, 14))
_BASE = AutoFormerSpace("autoformer-base", "autoformer", (528, 576, 624), (8, 9, 10), (3, 3.5, 4), (14, 15, 16))
_STAGE_DEPTHS = ((1, 2, 3), (4, 6, 8), (2, 4, 6))

# The released files of tiny and base leave out what the published subnets use: ratio 3, and eight heads.
SPACES: MappingProxyType[str, SubnetSpace] = MappingProxyType(
    {
        space.name: space
        for space in (
            _TINY,
            replace(_TINY, name="autoformer-tiny-released", mlp_ratios=(3.5, 4)),
            _SMALL,
            _BASE,
            replace(_BASE, name="autoformer-base-released", heads=(9, 10)),
            PiTSpace("pit-tiny", "pit", (16, 24, 32, 40), (2, 4, 8), (2, 4, 6, 8), _STAGE_DEPTHS),
            PiTSpace("pit-xs", "pit", (40, 48, 56, 64), (2, 4, 8), (2, 4, 6, 8), _STAGE_DEPTHS),
            PiTSpace("pit-small", "pit", (36, 48, 60, 72), (3, 6, 12), (2, 4, 6, 8), _STAGE_DEPTHS),
            AutoFormerSpace("autoformer-micro", "autoformer-micro", (24, 36, 48), (2, 3, 4), (1, 2, 4), (2, 3, 4), 12),
            PiTSpace("pit-micro", "pit-micro", (8, 12, 16), (1, 2, 4), (1, 2, 4), ((1, 2), (1, 2, 3), (1, 2))),
        )
    }
)


def space_of(subnet: Subnet) -> SubnetSpace | None:
    """The first named space that holds a subnet, so the widest of its family; None where none does."""
    return next((space for space in SPACES.values() if subnet in space), None)


class ParamWindow(NamedTuple):
    """Both bounds belong to the window."""

    min_params: int
    max_params: int

    def __contains__(self, params: object) -> bool:
        return isinstance(params, int) and self.min_params <= params <= self.max_params


# AutoFormer's and AZ-NAS's budgets; those with `-tf-tas` are AZ-NAS's when it matches TF-TAS's subnets.
PARAM_WINDOWS = MappingProxyType(
    {
        "tiny": ParamWindow(4_000_000, 6_000_000),
        "small": ParamWindow(21_000_000, 23_000_000),
        "base": ParamWindow(52_000_000, 54_000_000),
        "tiny-tf-tas": ParamWindow(4_000_000, 6_200_000),
        "small-tf-tas": ParamWindow(21_000_000, 24_000_000),
        "base-tf-tas": ParamWindow(52_000_000, 56_500_000),
    }
)


class PublishedSubnet(NamedTuple):
    """A subnet of a paper, in the named space it was found in."""

    name: str
    space: str
    subnet: Subnet
    source: str


_AUTOFORMER = "AutoFormer, Chen et al. 2021, released configurations"
_TF_TAS = "TF-TAS, Zhou et al. 2022, released configurations"
_PIT = "PiT, Heo et al. 2021, table 2"

PUBLISHED_SUBNETS = MappingProxyType(
    {
        row.name: row
        for row in (
            PublishedSubnet(
                "AutoFormer-T",
                "autoformer-tiny",
                AutoFormerSubnet(192, (3,) * 10 + (4, 3, 3), (3.5, 3.5, 3, 3.5, 3, 3, 4, 4, 3.5, 4, 3.5, 4, 3.5)),
                _AUTOFORMER,
            ),
            PublishedSubnet(
                "AutoFormer-S",
                "autoformer-small",
                AutoFormerSubnet(
                    384, (6, 6, 5, 7, 5, 5, 5, 6, 6, 7, 7, 6, 7), (3, 3.5, 3, 3.5, 4, 4, 4, 4, 4, 4, 4, 3.5, 4)
                ),
                _AUTOFORMER,
            ),
            PublishedSubnet(
                "AutoFormer-B",
                "autoformer-base",
                AutoFormerSubnet(
                    576,
                    (9, 9, 9, 9, 9, 10, 9, 9, 10, 9, 10, 9, 9, 10),
                    (3.5, 3.5, 4, 3.5, 4, 3.5, 3.5, 3, 4, 4, 3, 4, 3, 3.5),
                ),
                _AUTOFORMER,
            ),
            PublishedSubnet(
                "TF-TAS-T",
                "autoformer-tiny",
                AutoFormerSubnet(
                    192,
                    (4, 3, 3, 3, 3, 4, 4, 3, 3, 3, 4, 3, 3),
                    (3.5, 4, 3.5, 3.5, 4, 3.5, 3.5, 3.5, 4, 4, 4, 4, 3.5),
                ),
                _TF_TAS,
            ),
            PublishedSubnet(
                "TF-TAS-S",
                "autoformer-small",
                AutoFormerSubnet(
                    384,
                    (6, 6, 6, 6, 7, 6, 5, 7, 5, 5, 5, 7, 6, 7),
                    (4, 4, 4, 3, 4, 3, 3, 3.5, 4, 3.5, 3.5, 4, 3, 3.5),
                ),
                _TF_TAS,
            ),
            PublishedSubnet(
                "TF-TAS-B",
                "autoformer-base",
                AutoFormerSubnet(
                    576,
                    (9, 10, 10, 10, 10, 10, 10, 9, 9, 10, 9, 9, 9, 9, 9),
                    (3, 3.5, 4, 4, 3, 4, 3, 3, 3.5, 3, 3, 3.5, 4, 3, 4),
                ),
                _TF_TAS,
            ),
            PublishedSubnet("TF-TAS-PiT-T", "pit-tiny", PiTSubnet(40, (2, 4, 4), (2, 4, 8), 2), _TF_TAS),
            PublishedSubnet("TF-TAS-PiT-XS", "pit-xs", PiTSubnet(56, (1, 4, 2), (2, 8, 8), 2), _TF_TAS),
            PublishedSubnet("TF-TAS-PiT-S", "pit-small", PiTSubnet(36, (1, 4, 4), (3, 12, 12), 6), _TF_TAS),
            PublishedSubnet("PiT-T", "pit-tiny", PiTSubnet(32, (2, 6, 4), (2, 4, 8), 4), _PIT),
            PublishedSubnet("PiT-XS", "pit-xs", PiTSubnet(48, (2, 6, 4), (2, 4, 8), 4), _PIT),
            PublishedSubnet("PiT-S", "pit-small", PiTSubnet(48, (2, 6, 4), (3, 6, 12), 4), _PIT),
        )
    }
)
