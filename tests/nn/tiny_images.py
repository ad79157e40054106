"""Tiny data sets on disk in the formats of the published ones: images of one colour, which tells the class."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import md5
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

from attnbench.nn.datasets import SOURCES, Source

N_CLASSES, N_TRAIN, N_TEST = 3, 24, 9


def source(name: str, **changes: object) -> Source:
    """The published data set's entry, with the sizes of the tiny one and without the checksums of the real files."""
    return replace(SOURCES[name], n_classes=N_CLASSES, n_train=N_TRAIN, n_test=N_TEST, **changes)


def colour(label: int, number: int) -> tuple[int, int, int]:
    """The class is the brightest channel; the number of the image is in another."""
    pixel = [20, 20, 20]
    pixel[label], pixel[(label + 1) % 3] = 230, 20 + 3 * number
    return tuple(pixel)


def numbered(n_images: int) -> Iterator[tuple[int, int, tuple[int, int, int]]]:
    """Number, class and colour of each image."""
    for number in range(n_images):
        yield number, number % N_CLASSES, colour(number % N_CLASSES, number)


def write(name: str, directory: Path) -> Source:
    """A tiny data set of that name. Returns: its entry."""
    return {"cifar-100": cifar100, "flowers-102": flowers102, "imagenet-1k": imagenet}[name](directory)


def cifar100(directory: Path) -> Source:
    parts = {}
    for member, n_images in (("train.bin", N_TRAIN), ("test.bin", N_TEST)):
        records = []
        for _, label, pixel in numbered(n_images):
            planes = np.repeat(np.array(pixel, dtype=np.uint8), 32 * 32)
            records.append(bytes([7, label]) + planes.tobytes())
        parts[member] = b"".join(records)
    return cifar_archive(directory, parts)


def cifar_archive(directory: Path, parts: dict[str, bytes]) -> Source:
    name = "cifar-100-binary.tar.gz"
    with tarfile.open(directory / name, "w:gz") as archive:
        for member, content in parts.items():
            info = tarfile.TarInfo(f"cifar-100-binary/{member}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return with_sums("cifar-100", directory, name)


def flowers102(directory: Path) -> Source:
    """Numbers in its lists start at 1 and are scattered over them, as in the published ones."""
    (directory / "jpg").mkdir(exist_ok=True)
    for number, _, pixel in numbered(N_TRAIN + N_TEST):
        save(directory / "jpg" / f"image_{number + 1:05d}.jpg", pixel, (40, 50))
    numbers = np.arange(1, N_TRAIN + N_TEST + 1)
    savemat(directory / "imagelabels.mat", {"labels": (numbers[None] - 1) % N_CLASSES + 1})
    test, rest = numbers[:N_TEST], numbers[N_TEST:]
    savemat(directory / "setid.mat", {"trnid": rest[None, ::2], "valid": rest[None, 1::2], "tstid": test[None]})
    return with_sums("flowers-102", directory, "imagelabels.mat", "setid.mat")


def imagenet(directory: Path) -> Source:
    for folder, n_images in (("train", N_TRAIN), ("val", N_TEST)):
        for number, label, pixel in numbered(n_images):
            path = directory / folder / f"n0000000{label}" / f"{number}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            save(path, pixel, (50, 40))
    return source("imagenet-1k")


def save(path: Path, pixel: tuple[int, int, int], size: tuple[int, int]) -> None:
    Image.new("RGB", size, pixel).save(path, "JPEG", quality=95)


def with_sums(name: str, directory: Path, *files: str) -> Source:
    sums = {file: md5((directory / file).read_bytes(), usedforsecurity=False).hexdigest() for file in files}
    return source(name, md5=sums)
