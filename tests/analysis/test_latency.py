"""The exponent of time in the number of tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attnbench.analysis.latency import latency_exponents
from attnbench.dataset.files import read_manifest, read_table
from attnbench.space.parse import parse


def frame(**laws: tuple[float, float, float]) -> pd.DataFrame:
    """latency_ms = constant + factor * N ** power, by key."""
    sizes = (64, 256, 1024, 4096)
    rows = [(key, n, c + a * n**power) for key, (c, a, power) in laws.items() for n in sizes]
    return pd.DataFrame(rows, columns=["key", "n_tokens", "latency_ms"]).sample(frac=1, random_state=0)


def test_powers_are_found_exactly() -> None:
    found = latency_exponents(frame(linear=(0, 0.3, 1.0), quadratic=(0, 2e-5, 2.0)))
    assert found.to_dict() == pytest.approx({"linear": 1.0, "quadratic": 2.0})
    assert found.name == "latency_exponent"


def test_it_is_the_slope_of_least_squares() -> None:
    latency = frame(a=(0.1, 1e-4, 1.0))
    large = latency[latency["n_tokens"] >= 256]
    slope = np.polyfit(np.log(large["n_tokens"]), np.log(large["latency_ms"]), 1)[0]
    assert latency_exponents(latency)["a"] == pytest.approx(slope)
    assert latency_exponents(latency, from_tokens=64)["a"] < slope  # the constant hides the growth of small sizes


def test_two_sizes_are_needed() -> None:
    latency = frame(a=(0, 1, 1.0), b=(0, 1, 1.0))
    latency = latency[(latency["key"] == "a") | (latency["n_tokens"] < 512)]
    with pytest.raises(ValueError, match=r"1 attentions have fewer than two sizes of at least 256 tokens, such as b"):
        latency_exponents(latency)
    latency = latency[(latency["key"] == "a") | (latency["n_tokens"] < 256)]
    with pytest.raises(ValueError, match="1 attentions have fewer than two sizes"):
        latency_exponents(latency)


def test_measured_times_grow_as_the_costs_say(tables_dir: Path) -> None:
    """Of the released table: linear attentions from N^0.5 to N^1.15, softmax with at least N^1.7, and none falls."""
    manifest = read_manifest(tables_dir)
    latency = read_table(tables_dir, "latency", manifest).to_pandas()
    if latency.empty:
        pytest.skip("the release has no latencies yet: python -m builders latency, then merge.")
    exponents = latency_exponents(latency)
    architectures = read_table(tables_dir, "architectures", manifest).to_pandas().set_index("key").loc[exponents.index]
    linear = exponents[architectures["complexity"] == "O(N)"].drop(parse("v").key)  # which takes no time at any size
    assert linear.max() <= 1.15
    assert linear.min() >= 0.5
    assert exponents[architectures["complexity"] == "O(N^2)"].min() >= 1.7
    ms = latency.pivot(index="key", columns="n_tokens", values="latency_ms").loc[linear.index]
    assert (ms[4096] > ms[1024]).all()
    assert (ms[1024] > ms[256]).all()
