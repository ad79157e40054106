"""Fashion-MNIST as tensors in memory, found on disk or downloaded, checked, and split as a protocol says."""

import gzip
import os
import struct
import zlib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.request import urlopen

import torch
from torch import Tensor

from attnbench.errors import DataError
from attnbench.nn.protocol import Protocol

# Of the unpacked files: mirrors pack them anew, the contents stay.
SHA256 = {
    "train-images-idx3-ubyte.gz": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte.gz": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte.gz": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte.gz": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
SYSTEM_DIRECTORY = Path("/usr/share/datasets/fashion-mnist")
MIRROR = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
N_CLASSES = 10


@dataclass(frozen=True)
class Split:
    """Images (n, 1, rows, cols) float32, normalised, and labels (n,) int64."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Splits:
    """Train and validation come from the official training images and do not overlap; test is the official one."""

    train: Split
    val: Split
    test: Split


def load_splits(recipe: Protocol, directory: Path | None = None, mirror: str | None = None) -> Splits:
    """Fashion-MNIST split as `recipe` says.

    directory: where the four .gz files lie or are to be kept; by default the system's copy, then the user's cache.
    mirror: base address for files that are missing; without it, ATTNBENCH_FASHION_MNIST_MIRROR, then the authors'.
    Raises: DataError (a file is missing, cut short or not the published one).
    """
    directory = find_directory() if directory is None else Path(directory)
    for name in SHA256:
        if not (directory / name).is_file():
            download(name, directory, mirror or os.environ.get("ATTNBENCH_FASHION_MNIST_MIRROR", MIRROR))
    pixels, labels = (read_idx(directory / f"train-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1"))
    train, val = class_split(labels, recipe.n_train_per_class, recipe.n_val_per_class)
    test_pixels, test_labels = (
        read_idx(directory / f"t10k-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")
    )
    return Splits(
        train=normalised(pixels[train], labels[train], recipe),
        val=normalised(pixels[val], labels[val], recipe),
        test=normalised(test_pixels, test_labels, recipe),
    )


def find_directory() -> Path:
    """The system's copy if complete, else the user's cache directory, which may not exist yet."""
    if all((SYSTEM_DIRECTORY / name).is_file() for name in SHA256):
        return SYSTEM_DIRECTORY
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "attnbench" / "fashion-mnist"


def class_split(labels: Tensor, n_first: int, n_second: int) -> tuple[Tensor, Tensor]:
    """Indices of the first `n_first` images of each class in file order, and of the next `n_second`; both sorted."""
    first, second = [], []
    for label in range(N_CLASSES):
        places = torch.nonzero(labels == label).flatten()
        if len(places) < n_first + n_second:
            raise DataError(
                f"class {label} has {len(places)} training images; the split needs {n_first} + {n_second}. "
                "Lower the protocol's images per class."
            )
        first.append(places[:n_first])
        second.append(places[n_first : n_first + n_second])
    return torch.cat(first).sort().values, torch.cat(second).sort().values


def normalised(pixels: Tensor, labels: Tensor, recipe: Protocol) -> Split:
    images = pixels.to(torch.float32).div_(255).sub_(recipe.pixel_mean).div_(recipe.pixel_std)
    return Split(images.unsqueeze(1).contiguous(), labels.long())


def read_idx(path: Path) -> Tensor:
    """The uint8 tensor of a gzipped IDX file. Raises: DataError (missing, cut short, or not the published contents)."""
    if not path.is_file():
        raise DataError(f"{path} is missing. Put the four Fashion-MNIST .gz files there, or pass another directory.")
    raw = unpack_checked(path.read_bytes(), path.name, str(path))
    n_axes = raw[3]  # IDX: two zero bytes, the type, the number of axes, one big-endian length an axis, the data
    shape = struct.unpack(f">{n_axes}I", raw[4 : 4 + 4 * n_axes])
    return torch.frombuffer(bytearray(raw[4 + 4 * n_axes :]), dtype=torch.uint8).view(shape)


def unpack_checked(packed: bytes, name: str, source: str) -> bytes:
    """The published contents of the file `name`; `source` says in errors where `packed` came from."""
    try:
        raw = gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{source} is cut short or not gzip ({error}); {len(packed)} bytes. Delete it, or use another mirror."
        ) from error
    found = sha256(raw).hexdigest()
    if found != SHA256[name]:
        raise DataError(
            f"{source} unpacks to sha256 {found}; the published {name} has {SHA256[name]}. "
            "Delete it, or use another mirror."
        )
    return raw


def download(name: str, directory: Path, mirror: str) -> None:
    """Fetch one published file; it appears in `directory` whole and with the right contents, or not at all."""
    address = f"{mirror.rstrip('/')}/{name}"
    try:
        with urlopen(address, timeout=60) as response:  # its contents are checked before they are used
            packed = response.read()
    except OSError as error:
        raise DataError(
            f"{directory / name} is missing and {address} cannot be read ({error}). "
            "Put the four Fashion-MNIST .gz files there, or set ATTNBENCH_FASHION_MNIST_MIRROR to a mirror's address."
        ) from error
    unpack_checked(packed, name, address)
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f"{name}.{os.getpid()}.part"
    partial.write_bytes(packed)
    partial.replace(directory / name)
