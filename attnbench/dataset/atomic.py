"""Files that are there whole or not at all, and directories with one writer at a time."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnbench.errors import DiskFull

# A full disk, a used-up quota, a limit on the size of files.
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """While it lasts, others that ask for the same directory wait. Held is the directory itself: no file is left."""
    import fcntl

    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write beside `path`: moved into place when the block ends well, removed when it does not.

    Raises: DiskFull; a file that was there before stays as it was.
    """
    import tempfile

    beside = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        os.close(handle)
        beside = Path(name)
        yield beside
        with open(beside, "rb+") as file:
            os.fsync(file.fileno())
        beside.chmod(0o644)  # mkstemp's 0600 would lock other users out
        os.replace(beside, path)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise DiskFull(
            f"{path} could not be written: {os.strerror(error.errno)}. Free some space and start again; "
            "what was written before is whole."
        ) from None
    finally:
        if beside is not None:
            beside.unlink(missing_ok=True)
