"""Where a long run stands after an epoch, in a file that replaces the last one whole and loads without pickle."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from attnbench.dataset.atomic import replacing
from attnbench.errors import DataError


def save_checkpoint(path: Path, identity: Mapping[str, str | int], state: Mapping[str, Any]) -> None:
    """Write numbers, texts, tensors and containers of them. Raises: DiskFull; the last checkpoint then stays."""
    packed = io.BytesIO()  # torch, writing to the disk itself, names no reason when it is full
    torch.save({"identity": dict(identity), "state": dict(state)}, packed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as beside:
        beside.write_bytes(packed.getbuffer())


def load_checkpoint(path: Path, identity: Mapping[str, str | int]) -> dict[str, Any] | None:
    """The state of the run that `identity` names, on the CPU; None where there is no file.

    Raises: DataError (a damaged file, or another run's).
    """
    if not path.is_file():
        return None
    try:
        packed = torch.load(path, map_location="cpu", weights_only=True)
        found, state = packed["identity"], packed["state"]
    except Exception as error:  # bytes that were changed can fail anywhere in torch's reader
        first = [type(error).__name__, *str(error).splitlines()][:2]
        raise DataError(
            f"{path} is no whole checkpoint ({': '.join(first)}). Delete it to start the run again."
        ) from None
    if found != dict(identity):
        raise DataError(
            f"{path} is of the run {found}, not of {dict(identity)}. Delete it to start this one, or give it another "
            "directory for checkpoints."
        )
    return dict(state)
