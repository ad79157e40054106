"""ViT-Bench-101's published accuracies of AutoFormer and PiT subnets, read without running anything from the file."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from attnbench.errors import GroundTruthError, InvalidSubnet
from attnbench.space.subnet import AutoFormerSubnet, Subnet
from attnbench.space.subnet_cost import subnet_cost
from attnbench.space.subnet_named import SPACES
from attnbench.space.subnet_spaces import SubnetSpace, require_in
from attnbench.space.subnet_text import read_subnet

if TYPE_CHECKING:
    import pandas as pd

# The file's fields, and the columns they become: trained from scratch, distilled, inherited from a supernet.
ACCURACIES = MappingProxyType(
    {
        "c100_base_acc": "cifar100_base_top1_percent",
        "c100_kd_acc": "cifar100_kd_top1_percent",
        "flower_base_acc": "flowers_base_top1_percent",
        "flower_kd_acc": "flowers_kd_top1_percent",
        "chaoyang_base_acc": "chaoyang_base_top1_percent",
        "chaoyang_kd_acc": "chaoyang_kd_top1_percent",
        "imagenet_super_acc": "imagenet_inherited_top1_percent",
    }
)
# The published files have some 27 kB; torch reads all of a file, unpacked, into memory.
MAX_BYTES = 2**26
COLUMNS = ("key", "text", "space", "params", "macs", *ACCURACIES.values())


def read_ground_truth(path: str | PathLike[str], *, space: SubnetSpace | None = None) -> pd.DataFrame:
    """One row per subnet of the file, in its order: key, text, space, params, macs, and top-1 in percent by column.

    space: what every subnet must lie in, and whose frame params and macs are counted in; by default autoformer-tiny or
    pit-tiny, after the subnets' family. An accuracy that was not measured, None or a field no row has, is NaN.
    Raises: GroundTruthError (no file, damaged, foreign objects, fields missing or unknown, values that are no percent,
    a subnet outside the space).
    Source: Wei et al. 2024, "Auto-Prox", the files gt_autoformer.pth, gt_autoformer_2.pth and gt_pit.pth.
    """
    import pandas as pd

    entries = _load(Path(path))
    if not isinstance(entries, list) or not entries:
        raise GroundTruthError(f"{path} holds {_what(entries)}; expected a list of dictionaries, one for each subnet.")
    fields: set[str] | None = None
    rows = []
    for place, entry in enumerate(entries):
        where = f"{path}, entry {place}"
        if not isinstance(entry, Mapping):
            raise GroundTruthError(f"{where} is {_what(entry)}; expected a dictionary with arch and accuracies.")
        found = set(map(str, entry))
        _check_fields(found, fields, where)
        fields = found
        rows.append(_row(entry, space, where))
    families = {str(row["space"]) for row in rows}
    if len(families) > 1:
        raise GroundTruthError(f"{path} mixes subnets of {' and '.join(sorted(families))}; read files of one family.")
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict.fromkeys(ACCURACIES.values(), "float64"))


def _load(path: Path) -> object:
    if not path.is_file():
        raise GroundTruthError(f"{path} is no file; give a gt_*.pth of the Auto-Prox repository's gt_results.")
    size = path.stat().st_size
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
    if size > MAX_BYTES:
        raise GroundTruthError(
            f"{path} has {size:,} bytes, unpacked; expected a list of subnets, {MAX_BYTES:,} at most."
        )
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # bytes that were changed can fail anywhere in torch's reader
        # torch's own advice is to load such a file without the check, which is what must not be done.
        foreign = re.search(r"(?:GLOBAL|class) ([\w.]+)", str(error))
        if foreign and "weights_only" in str(error):
            reason = f"it holds a foreign object, {foreign[1]}, which is not loaded: that could run code"
        else:
            reason = f"it is cut short, changed, or no such file ({type(error).__name__})"
        raise GroundTruthError(
            f"{path} cannot be read: {reason}. Expected a list of dictionaries of plain numbers; fetch the file again."
        ) from None


def _check_fields(found: set[str], before: set[str] | None, where: str) -> None:
    unknown = sorted(found - {"arch", *ACCURACIES})
    if unknown:
        raise GroundTruthError(f"{where} has a field {unknown[0]!r}; known: arch, {', '.join(ACCURACIES)}.")
    if "arch" not in found or len(found) == 1:
        lacking = "an accuracy" if "arch" in found else "arch"
        raise GroundTruthError(f"{where} lacks {lacking}; it has {', '.join(sorted(found)) or 'nothing'}.")
    if before is not None and found != before:
        odd = min(found ^ before)
        raise GroundTruthError(f"{where} {'has' if odd in found else 'lacks'} {odd}, unlike the entries before it.")


def _row(entry: Mapping[str, Any], space: SubnetSpace | None, where: str) -> dict[str, object]:
    try:
        subnet = read_subnet(entry["arch"])
        space = space or SPACES[_default_space(subnet)]
        require_in(space, subnet)
    except InvalidSubnet as error:
        raise GroundTruthError(f"{where}: {error}") from error
    row: dict[str, object] = {"key": subnet.key, "text": subnet.text, "space": space.name}
    row |= subnet_cost(subnet, space.frame)._asdict()
    return row | {column: _percent(entry.get(field), field, where) for field, column in ACCURACIES.items()}


def _default_space(subnet: Subnet) -> str:
    return "autoformer-tiny" if isinstance(subnet, AutoFormerSubnet) else "pit-tiny"


def _percent(value: object, field: str, where: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
        raise GroundTruthError(f"{where}: {field} is {value!r:.60}; expected percent from 0 to 100, or None.")
    return float(value)


def _what(value: object) -> str:
    return "an empty list" if value == [] else f"a {type(value).__name__}"
