"""Releases from elsewhere: a path or a URL becomes a local directory whose every file was checked."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from attnbench.dataset.atomic import replacing
from attnbench.dataset.files import DATA_SETTING, MANIFEST, find_data, parse_manifest
from attnbench.errors import DataError

CACHE_SETTING = "ATTNBENCH_CACHE"
_MANIFEST_LIMIT_BYTES = 1_000_000
_TIMEOUT_S = 60


def resolve(source: str | os.PathLike[str] | None = None) -> Path:
    """The local directory of a release: None (setting ATTNBENCH_DATA, else the package's), a path, or a URL.

    A URL is downloaded into the cache once. Raises: DataError.
    """
    if source is None:
        source = os.environ.get(DATA_SETTING) or find_data()
    if _is_url(source):
        return download(source)
    path = _local(source)
    return path.parent if path.name == MANIFEST else path


def download(
    source: str | os.PathLike[str],
    into: str | os.PathLike[str] | None = None,
    *,
    sha256: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Copies a release from a URL (http, https, file) or a directory; files already there are kept, all are checked.

    into: defaults to a directory of the cache named by the release's content (setting ATTNBENCH_CACHE, else
    ~/.cache/attnbench). sha256: of `manifest.json`, which in turn vouches for every table.
    progress: is told the name of each file before it is fetched. Returns: the release's directory.
    Raises: DataError (unreachable, incomplete, changed).
    """
    base = str(source).removesuffix(MANIFEST).rstrip("/")
    where = f"{base}/{MANIFEST}"
    content = _fetch(where, _MANIFEST_LIMIT_BYTES)
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256.lower():
        raise DataError(f"{where} has sha256 {found}, expected {sha256.lower()}. Ask its publisher which one is right.")
    manifest = parse_manifest(content, where)
    directory = (
        _local(into) if into is not None else cache_directory() / f"{_plain(manifest.data_version)}-{found[:12]}"
    )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot make the folder {directory}: {error.strerror}. Name another one: into=..., or {CACHE_SETTING}."
        ) from None
    for info in manifest.tables.values():
        path = directory / info.file
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == info.sha256:
            continue
        if progress:
            progress(info.file)
        table = _fetch(f"{base}/{info.file}", info.bytes)
        if hashlib.sha256(table).hexdigest() != info.sha256:
            raise DataError(
                f"{base}/{info.file} is not what its manifest vouches for ({len(table)} bytes of {info.bytes}). "
                "Try again; if it stays so, the release is damaged: use another mirror."
            )
        with replacing(path) as beside:
            beside.write_bytes(table)
    with replacing(directory / MANIFEST) as beside:
        beside.write_bytes(content)
    return directory


def _is_url(source: str | os.PathLike[str]) -> bool:
    return isinstance(source, str) and source.startswith(("http://", "https://", "file://"))


def _fetch(address: str, limit_bytes: int) -> bytes:
    """At most `limit_bytes` + 1 bytes, so that a wrong length shows without reading on."""
    try:
        if not _is_url(address):
            with open(_local(address), "rb") as file:
                return file.read(limit_bytes + 1)
    except (OSError, ValueError) as error:
        raise _unreachable(address, error) from None
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(address, timeout=_TIMEOUT_S) as answer:
            return answer.read(limit_bytes + 1)
    except (OSError, ValueError, HTTPException) as error:  # HTTPException: an address or an answer that is no HTTP
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> DataError:
    return DataError(
        f"cannot fetch {address}: {error}. Check the address and the connection, or name a mirror; "
        "the tables inside the package need no network: attnbench.load()."
    )


def cache_directory() -> Path:
    """Where downloads and what took long to compute are kept: the setting ATTNBENCH_CACHE, else ~/.cache/attnbench."""
    return _local(os.environ.get(CACHE_SETTING) or "~/.cache/attnbench")


def _local(path: str | os.PathLike[str]) -> Path:
    """A path with ~ resolved. Raises: DataError (no such user, not a path)."""
    try:
        return Path(path).expanduser()
    except (RuntimeError, TypeError) as error:
        raise DataError(f"{path!r:.80} is no path: {error}. Pass a directory or a URL.") from None


def _plain(version: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in version).lstrip(".") or "release"
