"""The data sets of the full backbones, read from the files as their authors publish them and checked.

Nothing is downloaded and nothing is unpickled: CIFAR-100 is read from its binary version.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnbench.errors import DataError


@dataclass(frozen=True)
class Labelled:
    """Images with their classes. images: pixels (n, rows, cols, 3) uint8, or the paths (n,) of files as bytes."""

    images: NDArray[np.uint8] | NDArray[np.bytes_]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def pick(self, indices: NDArray[np.int64]) -> Labelled:
        return Labelled(self.images[indices], self.labels[indices])


@dataclass(frozen=True)
class Source:
    """A published data set: what it holds, the MD5 of its files as published, and who to get it from."""

    read: Callable[[Path, Source], tuple[Labelled, Labelled]]
    n_classes: int
    n_train: int
    n_test: int
    address: str
    md5: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Splits:
    """Train and validation share no image and come from the training images; test is the one to be read once."""

    train: Labelled
    val: Labelled
    test: Labelled


def load_splits(name: str, directory: Path, n_val_per_class: int, split_seed: int) -> Splits:
    """A data set from `directory`, with validation images held out of its training images.

    Raises: ValueError (unknown name), DataError (files that are missing, cut short or not the published ones, other
    numbers of images or classes, a class with too few images).
    """
    if name not in SOURCES:
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(SOURCES)}.")
    source = SOURCES[name]
    train, test = source.read(Path(directory), source)
    for part, labelled, n_images in (("training", train, source.n_train), ("test", test, source.n_test)):
        if len(labelled) != n_images:
            raise DataError(
                f"{name} in {directory} has {len(labelled)} {part} images, the published one {n_images}: files are "
                f"missing or too many. Unpack it anew; it is at {source.address}"
            )
        found = np.unique(labelled.labels)
        if not np.array_equal(found, np.arange(source.n_classes)):
            raise DataError(
                f"the {part} images of {name} in {directory} are of {len(found)} classes ({found.min()} to "
                f"{found.max()}), the published ones of {source.n_classes}. Unpack it anew; it is at {source.address}"
            )
    kept, held_out_ones = held_out(train.labels, n_val_per_class, split_seed)
    return Splits(train.pick(kept), train.pick(held_out_ones), test)


def held_out(labels: NDArray[np.int64], n_per_class: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices that stay for training and, `n_per_class` of each class, those that validate; both sorted.

    A class gives its images whose BLAKE2b of "seed/index" comes first: the same ones whatever library draws.
    Raises: DataError where a class would have none left.
    """
    digests = b"".join(hashlib.blake2b(f"{seed}/{i}".encode(), digest_size=8).digest() for i in range(len(labels)))
    ranks = np.frombuffer(digests, dtype=">u8")
    order = np.lexsort((ranks, labels))  # class by class, and by rank within one
    classes, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    if counts.min() <= n_per_class:
        raise DataError(
            f"class {classes[counts.argmin()]} has {counts.min()} training images; {n_per_class} of them cannot be "
            "held out. Lower the recipe's n_val_per_class."
        )
    chosen = np.zeros(len(labels), dtype=bool)
    chosen[order[(starts[:, None] + np.arange(n_per_class)).ravel()]] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def read_cifar100(directory: Path, source: Source) -> tuple[Labelled, Labelled]:
    """The 100 fine classes, from cifar-100-binary.tar.gz as it is."""
    (name,) = source.md5
    path = directory / name
    if not path.is_file() and (directory / "cifar-100-python.tar.gz").is_file():
        raise DataError(
            f"{directory} holds cifar-100-python.tar.gz, whose files are pickles, and those are never loaded. "
            f"Put the binary version {name} beside it, from {source.address}"
        )
    check_file(path, source)
    parts = []
    try:
        with tarfile.open(path) as archive:
            for member in ("train.bin", "test.bin"):
                content = archive.extractfile(f"cifar-100-binary/{member}")
                parts.append(cifar_records(b"" if content is None else content.read(), f"{member} in {path}"))
    except (tarfile.TarError, KeyError, EOFError, OSError, zlib.error) as error:
        raise DataError(f"{path} is no whole archive of CIFAR-100 ({error}). Get it anew at {source.address}") from None
    return parts[0], parts[1]


def cifar_records(content: bytes, where: str) -> Labelled:
    """Images from records of a coarse class, a fine class and 32 x 32 pixels, all of red before green and blue."""
    size = 2 + 3 * 32 * 32
    if not content or len(content) % size:
        raise DataError(f"{where} has {len(content)} bytes, no whole number of images of {size} bytes: it was cut.")
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, size)
    pixels = records[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return Labelled(np.ascontiguousarray(pixels), records[:, 1].astype(np.int64))


def read_flowers102(directory: Path, source: Source) -> tuple[Labelled, Labelled]:
    """Its lists `trnid` and `valid` together train, as in AttnZero; `tstid` tests.

    The directory holds imagelabels.mat, setid.mat and, from 102flowers.tgz, jpg/image_00001.jpg and so on.
    """
    from scipy.io import loadmat

    for name in source.md5:
        check_file(directory / name, source)
    labels = loadmat(directory / "imagelabels.mat")["labels"].ravel().astype(np.int64) - 1
    lists = loadmat(directory / "setid.mat")
    parts = []
    for names in (("trnid", "valid"), ("tstid",)):
        numbers = np.sort(np.concatenate([lists[name].ravel().astype(np.int64) for name in names]))
        paths = [directory / "jpg" / f"image_{number:05d}.jpg" for number in numbers]
        need_files(paths, "Unpack 102flowers.tgz there", source)
        parts.append(Labelled(np.array([os.fsencode(path) for path in paths]), labels[numbers - 1]))
    return parts[0], parts[1]


def read_imagenet(directory: Path, source: Source) -> tuple[Labelled, Labelled]:
    """ILSVRC 2012 as torchvision's ImageFolder reads it: a folder a class in `train`, the same in `val`.

    `val`, whose labels are published, is our test; validation images come out of `train`.
    """
    from torchvision.datasets import ImageFolder

    parts, classes = [], []
    for folder in ("train", "val"):
        if not (directory / folder).is_dir():
            raise DataError(
                f"{directory} has no folder {folder!r}; ImageNet needs train/CLASS/*.JPEG and val/CLASS/*.JPEG there. "
                f"Unpack ILSVRC 2012, and sort its validation images by class; it is at {source.address}"
            )
        try:
            found = ImageFolder(str(directory / folder))
        except FileNotFoundError as error:
            raise DataError(
                f"{directory / folder} is no folder of classes with images in each ({error}). Unpack it anew."
            ) from None
        paths, labels = zip(*found.samples, strict=True)
        parts.append(Labelled(np.array([os.fsencode(path) for path in paths]), np.array(labels, dtype=np.int64)))
        classes.append(found.classes)
    if classes[0] != classes[1]:
        differ = sorted(set(classes[0]) ^ set(classes[1]))
        raise DataError(f"train and val in {directory} have other classes: {', '.join(differ[:5])} is in one of them.")
    return parts[0], parts[1]


def check_file(path: Path, source: Source) -> None:
    """Raises: DataError where a file is missing or not the published one."""
    need_files([path], "Put it there", source)
    found = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    if found != source.md5[path.name]:
        raise DataError(
            f"{path} has MD5 {found} and {path.stat().st_size} bytes; the published file has {source.md5[path.name]}. "
            f"It was cut short or changed: get it anew at {source.address}"
        )


def need_files(paths: list[Path], remedy: str, source: Source) -> None:
    """Raises: DataError where files are missing; it names the first."""
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise DataError(
            f"{missing[0]} is missing ({len(missing)} of {len(paths)} such files are). {remedy}, or pass another "
            f"directory; the data set is at {source.address}"
        )


SOURCES = {
    "cifar-100": Source(
        read_cifar100,
        n_classes=100,
        n_train=50_000,
        n_test=10_000,
        address="https://www.cs.toronto.edu/~kriz/cifar.html",
        md5={"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"},
    ),
    "flowers-102": Source(
        read_flowers102,
        n_classes=102,
        n_train=2_040,
        n_test=6_149,
        address="https://www.robots.ox.ac.uk/~vgg/data/flowers/102",
        md5={
            "imagelabels.mat": "e0620be6f572b9609742df49c70aed4d",
            "setid.mat": "a5357ecc9cb78c4bef273ce3793fc85c",
        },
    ),
    "imagenet-1k": Source(
        read_imagenet,
        n_classes=1_000,
        n_train=1_281_167,
        n_test=50_000,
        address="https://www.image-net.org",
    ),
}
