"""What every test shares: one thread, a fixed hypothesis profile, and data that CI insists on."""

import os
from pathlib import Path

# Before anything loads numpy or torch: tests run side by side, and results must not depend on how many cores there are.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import hypothesis  # noqa: E402
import pytest  # noqa: E402

hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

ROOT = Path(__file__).resolve().parents[1]


def require(path: Path, how_to_get_it: str) -> Path:
    """Skip the test where `path` is missing; fail instead where ATTNBENCH_REQUIRE_DATA=1 says that it must be there."""
    if not path.exists():
        reason = f"{path} is missing: {how_to_get_it}"
        if os.environ.get("ATTNBENCH_REQUIRE_DATA") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout's root."""
    return ROOT


@pytest.fixture(scope="session")
def fashion_mnist_dir() -> Path:
    """The folder that holds Fashion-MNIST's four gzip files."""
    from attnbench.nn.data import find_directory

    directory = find_directory()
    require(directory / "train-images-idx3-ubyte.gz", "on Debian, apt-get install dataset-fashion-mnist.")
    return directory


@pytest.fixture(scope="session")
def tables_dir() -> Path:
    """The folder of the released tables."""
    require(ROOT / "data" / "runs.parquet", "python -m builders merge writes it from data/incoming.")
    return ROOT / "data"
