"""A disk that fills up in the middle of a write: a named error, and what was there stays whole."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attnbench.dataset.atomic import replacing
from attnbench.dataset.files import read_manifest, read_table, write_release
from attnbench.errors import DiskFull
from builders.shards import incoming, read_shards, write_shard
from tests.dataset import tiny


@contextmanager
def largest_file(n_bytes: int) -> Iterator[None]:
    """Inside, the system writes no file beyond this length, as if the disk were full."""
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, kept[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)


def shard_row(seed: int) -> dict[str, object]:
    return {name: value for name, value in tiny.run(tiny.ELU, seed, 80.0).items() if name != "key"}


def test_a_shard_that_does_not_fit_leaves_the_others(tmp_path: Path) -> None:
    write_shard(tmp_path, "runs", [shard_row(0)])
    before = {path.name: path.read_bytes() for path in incoming(tmp_path).iterdir()}
    with pytest.raises(DiskFull, match=r"incoming/runs-[0-9a-f]{16}\.parquet could not be written"), largest_file(500):
        write_shard(tmp_path, "runs", [shard_row(1)])
    assert {path.name: path.read_bytes() for path in incoming(tmp_path).iterdir()} == before
    assert read_shards(tmp_path, "runs").num_rows == 1


def test_a_release_that_does_not_fit_leaves_the_last_one(tmp_path: Path) -> None:
    data = tiny.write(tmp_path / "data")
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    rows = read_table(data, "runs", read_manifest(data))
    message = r"runs\.parquet.* could not be written: .* what was written before is whole"
    with pytest.raises(DiskFull, match=message), largest_file(500):
        write_release(data, {"runs": rows}, "9.9.9")
    assert {path.name: path.read_bytes() for path in data.iterdir()} == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_no_space_is_told_from_other_failures(tmp_path: Path, number: int) -> None:
    path = tmp_path / "table"
    path.write_text("old")
    with pytest.raises(DiskFull, match="table could not be written"), replacing(path):
        raise OSError(number, "no more")
    with pytest.raises(PermissionError), replacing(path):
        raise PermissionError(errno.EACCES, "not yours")
    with pytest.raises(DiskFull, match="No space left on device"), replacing(path), open("/dev/full", "wb") as full:
        full.write(b"new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
