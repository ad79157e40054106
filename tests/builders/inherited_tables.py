"""A release of made-up subnets: entangled values follow training from scratch closely, classical ones hardly."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attnbench.dataset.files import write_release
from builders.campaign import TrainingRun
from builders.subnets import MICRO, architecture_rows, cost_rows, drawn
from tests.builders.campaign_process import made_up_row

N = 40


def rows() -> list[dict[str, Any]]:
    """Rows of `runs`: two seeds from scratch of N subnets, and what N + 5 inherit from a supernet of either sharing."""
    rng = np.random.default_rng(0)
    subnets = drawn(MICRO, N + 5)
    params = {row["key"]: row["params"] for row in cost_rows() if row["backbone"] == MICRO}
    quality = np.array([80 + 2 * np.log(params[subnet.key] / 40_000) for subnet in subnets]) + rng.normal(0, 1, N + 5)
    values = {
        ("micro-scratch", 0): quality[:N] + rng.normal(0, 0.5, N),
        ("micro-scratch", 1): quality[:N] + rng.normal(0, 0.5, N),
        ("micro-entangled", 0): quality + 2 + rng.normal(0, 0.4, N + 5),
        ("micro-classical", 0): quality - 9 + rng.normal(0, 6, N + 5),
    }
    made = []
    for (protocol, seed), column in values.items():
        for subnet, value in zip(subnets, column.tolist(), strict=False):
            row = made_up_row(TrainingRun(subnet.text, MICRO, protocol, seed))
            test = value if protocol == "micro-scratch" else None
            row |= {"key": subnet.key, "val_curve": [value], "val_loss_curve": [1.0], "val_top1_percent": value}
            made.append(row | {"test_top1_percent": test, "test_loss": test and 1.0})
    return made


def runs_and_costs() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The two tables as frames."""
    return pd.DataFrame(rows()), pd.DataFrame(cost_rows())


def release(directory: Path) -> Path:
    """The release in a directory that is made for it."""
    directory.mkdir()
    tables = {"architectures": architecture_rows(), "costs": cost_rows(), "runs": rows()}
    write_release(directory, tables, "0.0-test")
    return directory
