"""Fashion-MNIST: where it is found, how it is checked, how it is split."""

import gzip
import shutil
from dataclasses import replace

import pytest
import torch

from attnbench.errors import DataError
from attnbench.nn import data as fashion
from attnbench.nn.data import SHA256, SYSTEM_DIRECTORY, class_split, find_directory, load_splits, read_idx
from attnbench.nn.protocol import protocol

RECIPE = protocol("fmnist-micro")
needs_files = pytest.mark.skipif(not (SYSTEM_DIRECTORY / "t10k-labels-idx1-ubyte.gz").is_file(), reason="no local copy")


@pytest.fixture(scope="module")
def splits():
    return load_splits(RECIPE, SYSTEM_DIRECTORY)


@needs_files
def test_splits_have_the_sizes_and_balance_of_the_protocol(splits):
    for split, per_class in ((splits.train, 1000), (splits.val, 500), (splits.test, 1000)):
        assert split.images.shape == (10 * per_class, 1, 28, 28)
        assert split.images.dtype == torch.float32
        assert split.labels.bincount().tolist() == [per_class] * 10
    assert abs(splits.train.images.mean()) < 0.01
    assert abs(splits.train.images.std() - 1) < 0.01


@needs_files
def test_train_and_validation_are_the_first_of_each_class_in_file_order(splits):
    pixels = read_idx(SYSTEM_DIRECTORY / "train-images-idx3-ubyte.gz")
    labels = read_idx(SYSTEM_DIRECTORY / "train-labels-idx1-ubyte.gz")
    sneakers = pixels[labels == 7].float().div(255).sub(0.2860).div(0.3530)
    torch.testing.assert_close(splits.train.images[splits.train.labels == 7, 0], sneakers[:1000])
    torch.testing.assert_close(splits.val.images[splits.val.labels == 7, 0], sneakers[1000:1500])


@needs_files
def test_a_split_that_asks_for_too_much_is_refused():
    with pytest.raises(
        DataError, match=r"class 0 has 2 training images; the split needs 2 \+ 1\. Lower the protocol's"
    ):
        class_split(torch.arange(20) % 10, 2, 1)
    with pytest.raises(DataError, match="class 0 has"):
        load_splits(replace(RECIPE, n_train_per_class=6000), SYSTEM_DIRECTORY)


@needs_files
def test_a_file_cut_short_is_refused(tmp_path):
    whole = (SYSTEM_DIRECTORY / "t10k-labels-idx1-ubyte.gz").read_bytes()
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(whole[:2000])
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz is cut short or not gzip .*2000 bytes\. Delete"):
        read_idx(tmp_path / "t10k-labels-idx1-ubyte.gz")


def test_other_contents_are_refused(tmp_path):
    path = tmp_path / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(b"not the labels"))
    with pytest.raises(DataError, match=f"unpacks to sha256 .*; the published {path.name} has {SHA256[path.name]}"):
        read_idx(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(
        DataError, match=r"train-images-idx3-ubyte\.gz is missing\. Put the four Fashion-MNIST .gz files"
    ):
        read_idx(tmp_path / "train-images-idx3-ubyte.gz")


def test_a_mirror_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz is missing and file:.*nowhere.* cannot be read"):
        load_splits(RECIPE, tmp_path / "new", mirror=(tmp_path / "nowhere").as_uri())


@needs_files
def test_missing_files_are_fetched_from_a_mirror_once_and_checked(tmp_path, splits):
    mirror, cache = tmp_path / "mirror", tmp_path / "cache"
    shutil.copytree(SYSTEM_DIRECTORY, mirror)
    fetched = load_splits(RECIPE, cache, mirror=mirror.as_uri())
    assert sorted(path.name for path in cache.iterdir()) == sorted(SHA256)
    assert torch.equal(fetched.test.images, splits.test.images)
    shutil.rmtree(mirror)
    load_splits(RECIPE, cache, mirror=mirror.as_uri())


def test_a_mirror_with_other_contents_leaves_nothing_behind(tmp_path):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"other"))
    with pytest.raises(DataError, match=r"mirror/train-images-idx3-ubyte.gz unpacks to sha256 .*use another mirror"):
        load_splits(RECIPE, tmp_path / "cache", mirror=mirror.as_uri())
    assert not (tmp_path / "cache").exists()


def test_directory_is_the_systems_copy_or_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fashion, "SYSTEM_DIRECTORY", tmp_path / "system")
    assert find_directory() == tmp_path / "attnbench" / "fashion-mnist"
    (tmp_path / "system").mkdir()
    for name in SHA256:
        (tmp_path / "system" / name).touch()
    assert find_directory() == tmp_path / "system"
