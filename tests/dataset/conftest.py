"""The tiny release, written anew for each test."""

from pathlib import Path

import pytest

from attnbench.dataset.benchmark import Benchmark
from tests.dataset import tiny


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """The directory of the tiny release."""
    return tiny.write(tmp_path / "release")


@pytest.fixture
def bench(release: Path) -> Benchmark:
    """The tiny release, loaded."""
    return Benchmark(release)
