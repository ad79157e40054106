"""Data sets of the full backbones: every name its own reader, and an error by name for whatever is not right."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from attnbench.errors import DataError
from attnbench.nn.datasets import SOURCES, held_out, load_splits
from attnbench.nn.images import read_image
from tests.nn import tiny_images

NAMES = ("cifar-100", "flowers-102", "imagenet-1k")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """The directory of a tiny data set of the test's name, which stands for the published one."""
    name = request.param
    monkeypatch.setitem(SOURCES, name, tiny_images.write(name, tmp_path))
    return tmp_path


def load(name: str, directory: Path):
    return load_splits(name, directory, n_val_per_class=2, split_seed=0)


def test_there_is_a_test_for_every_name() -> None:
    assert tuple(SOURCES) == NAMES


@pytest.mark.parametrize(("tiny", "name"), [(name, name) for name in NAMES], indirect=["tiny"])
def test_a_name_leads_to_its_own_reader_and_splits_share_no_image(tiny: Path, name: str) -> None:
    splits = load(name, tiny)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [18, 6, 9]
    seen = set()
    for part in (splits.train, splits.val, splits.test):
        assert set(part.labels) == {0, 1, 2}
        for image, label in zip(part.images, part.labels, strict=True):
            pixel = np.array(read_image(image))[5, 5].astype(int)
            assert pixel.argmax() == label
            number = round((pixel[(label + 1) % 3] - 20) / 3)
            assert number % 3 == label
            seen.add((part is splits.test, number))
    # Flowers numbers all its images in one list, the others train and test apart.
    assert len(seen) == 33
    assert [int((splits.val.labels == label).sum()) for label in range(3)] == [2, 2, 2]


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown data set 'cifar-10'; known: cifar-100, flowers-102, imagenet-1k"):
        load("cifar-10", tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "cifar-100",
            r"cifar-100-binary\.tar\.gz is missing \(1 of 1 such .* Put it there, .* https://www\.cs\.toronto",
        ),
        ("flowers-102", r"imagelabels\.mat is missing .* https://www\.robots\.ox\.ac\.uk"),
        ("imagenet-1k", r"has no folder 'train'; ImageNet needs train/CLASS/\*\.JPEG .* https://www\.image-net\.org"),
    ],
)
def test_a_missing_data_set_says_what_was_looked_for_and_where_to_get_it(
    tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load(name, tmp_path / "nowhere")


def test_pickles_of_cifar_are_never_loaded(tmp_path: Path) -> None:
    (tmp_path / "cifar-100-python.tar.gz").write_bytes(pickle.dumps({"data": []}))
    with pytest.raises(DataError, match=r"pickles, and those are never loaded\. Put the binary version"):
        load("cifar-100", tmp_path)


@pytest.mark.parametrize(
    ("tiny", "name", "file"),
    [
        ("cifar-100", "cifar-100", "cifar-100-binary.tar.gz"),
        ("flowers-102", "flowers-102", "imagelabels.mat"),
        ("flowers-102", "flowers-102", "setid.mat"),
    ],
    indirect=["tiny"],
)
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_wrong_checksum_is_named(tiny: Path, name: str, file: str, damage: str) -> None:
    content = (tiny / file).read_bytes()
    (tiny / file).write_bytes(content[:-20] if damage == "cut" else content[:-1] + b"?")
    size = (tiny / file).stat().st_size
    with pytest.raises(DataError, match=rf"{file} has MD5 [0-9a-f]{{32}} and {size} bytes; the published file has"):
        load(name, tiny)


def cifar_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **parts: bytes) -> None:
    """An archive with the right checksum, whatever it holds."""
    members = {f"{name}.bin": content for name, content in parts.items()}
    monkeypatch.setitem(SOURCES, "cifar-100", tiny_images.cifar_archive(tmp_path, members))


def records(*labels: int) -> bytes:
    return b"".join(bytes([0, label]) + bytes(3072) for label in labels)


def test_an_archive_without_its_members_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cifar_of(tmp_path, monkeypatch, train=records(0))
    with pytest.raises(DataError, match=r"is no whole archive of CIFAR-100 \(.*test\.bin"):
        load("cifar-100", tmp_path)


def test_an_archive_cut_short_before_its_sum_was_taken_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_images.cifar100(tmp_path)
    path = tmp_path / "cifar-100-binary.tar.gz"
    path.write_bytes(path.read_bytes()[:400])
    monkeypatch.setitem(SOURCES, "cifar-100", tiny_images.with_sums("cifar-100", tmp_path, path.name))
    with pytest.raises(DataError, match=r"is no whole archive of CIFAR-100"):
        load("cifar-100", tmp_path)


@pytest.mark.parametrize("content", [b"", records(0)[:-1]])
def test_a_cut_member_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    cifar_of(tmp_path, monkeypatch, train=content, test=records(0))
    with pytest.raises(DataError, match=rf"train\.bin in .* has {len(content)} bytes, no whole number of images"):
        load("cifar-100", tmp_path)


def test_a_wrong_number_of_images_or_classes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cifar_of(tmp_path, monkeypatch, train=records(*[0, 1, 2] * 7), test=records(*[0, 1, 2] * 3))
    with pytest.raises(DataError, match="has 21 training images, the published one 24: files are missing or too many"):
        load("cifar-100", tmp_path)
    cifar_of(tmp_path, monkeypatch, train=records(*[0, 1, 2] * 8), test=records(*[0, 1, 9] * 3))
    with pytest.raises(DataError, match=r"the test images .* are of 3 classes \(0 to 9\), the published ones of 3"):
        load("cifar-100", tmp_path)


@pytest.mark.parametrize("tiny", ["flowers-102"], indirect=True)
def test_missing_flowers_are_named(tiny: Path) -> None:
    (tiny / "jpg" / "image_00012.jpg").unlink()
    with pytest.raises(DataError, match=r"image_00012\.jpg is missing \(1 of 24 such files are\)\. Unpack 102flowers"):
        load("flowers-102", tiny)


@pytest.mark.parametrize("tiny", ["flowers-102"], indirect=True)
def test_the_lists_of_flowers_decide_not_the_file_names(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.arange(1, 34)
    savemat(tiny / "setid.mat", {"trnid": numbers[None, :3], "valid": numbers[None, 3:24], "tstid": numbers[None, 24:]})
    monkeypatch.setitem(
        SOURCES, "flowers-102", tiny_images.with_sums("flowers-102", tiny, "imagelabels.mat", "setid.mat")
    )
    assert os.fsdecode(load("flowers-102", tiny).test.images[0]).endswith("image_00025.jpg")


@pytest.mark.parametrize("tiny", ["imagenet-1k"], indirect=True)
def test_a_class_folder_without_images_or_in_one_split_only_is_named(tiny: Path) -> None:
    (tiny / "train" / "n09999999").mkdir()
    with pytest.raises(DataError, match=r"train is no folder of classes with images in each \(.*n09999999"):
        load("imagenet-1k", tiny)
    tiny_images.save(tiny / "train" / "n09999999" / "0.JPEG", (1, 2, 3), (8, 8))
    with pytest.raises(DataError, match=r"train and val in .* have other classes: n09999999 is in one of them"):
        load("imagenet-1k", tiny)


@pytest.mark.parametrize("tiny", ["imagenet-1k"], indirect=True)
def test_a_folder_that_is_not_all_of_imagenet_is_named(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCES, "imagenet-1k", replace(SOURCES["imagenet-1k"], n_test=50_000))
    with pytest.raises(DataError, match="has 9 test images, the published one 50000"):
        load("imagenet-1k", tiny)


@pytest.mark.parametrize("content", [b"", b"no image", None], ids=["empty", "other", "cut"])
def test_a_broken_image_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "1.JPEG"
    tiny_images.save(path, (1, 2, 3), (200, 200))
    path.write_bytes(path.read_bytes()[:-100] if content is None else content)
    with pytest.raises(DataError, match=r"1\.JPEG is no whole image \(.*\)\. Unpack the data set anew"):
        read_image(os.fsencode(path))


def test_what_is_held_out_is_the_same_for_ever() -> None:
    labels = np.arange(12) % 2
    kept, validation = held_out(labels, 2, seed=0)
    assert validation.tolist() == [0, 9, 10, 11]
    assert sorted([*kept, *validation]) == list(range(12))
    assert held_out(labels, 2, seed=1)[1].tolist() != [0, 9, 10, 11]


def test_a_class_that_would_have_nothing_left_is_named() -> None:
    with pytest.raises(DataError, match="class 1 has 2 training images; 2 of them cannot be held out"):
        held_out(np.array([0, 0, 0, 1, 1]), 2, seed=0)
