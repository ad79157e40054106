"""The tiny release with four subnets: two trained, one only scored, and one of full size."""

from pathlib import Path
from typing import Any

from attnbench.dataset.files import write_release
from attnbench.space.subnet import AutoFormerSubnet, Subnet
from attnbench.space.subnet_named import PUBLISHED_SUBNETS
from tests.dataset import tiny

SPACE = "autoformer-micro"
BEST = AutoFormerSubnet(48, (4, 4, 3), (4, 4, 2), 12)
SMALL = AutoFormerSubnet(24, (2, 2), (1, 1), 12)
SCORED = AutoFormerSubnet(36, (2, 3), (1, 4), 12)
AUTOFORMER_T = PUBLISHED_SUBNETS["AutoFormer-T"].subnet


def architecture(subnet: Subnet, **changes: Any) -> dict[str, Any]:
    """A row of `architectures`."""
    row = tiny.architecture("v", [], True)
    return row | {"key": subnet.key, "kind": "subnet", "text": subnet.text, "complexity": "O(N^2)"} | changes


def run(subnet: Subnet, seed: int, outcome: Any, **changes: Any) -> dict[str, Any]:
    """A row of `runs` under micro-scratch."""
    named = {"key": subnet.key, "text": subnet.text, "backbone": SPACE, "protocol": "micro-scratch"}
    return tiny.run("v", seed, outcome, **{**named, "protocol_hash": "5c4a", **changes})


def inherited(subnet: Subnet, value: float) -> dict[str, Any]:
    """A row of `runs` read out of a supernet: one validation value, no test."""
    return run(subnet, 0, value, protocol="micro-entangled", protocol_hash="e27a") | {
        "val_curve": [value],
        "val_loss_curve": [0.6],
        "train_loss_curve": [],
        "test_top1_percent": None,
        "test_loss": None,
    }


def score(subnet: Subnet, backbone: str, proxy: str, value: float) -> dict[str, Any]:
    """A row of `proxies`."""
    row = tiny.tables()["proxies"][0]
    named = {"key": subnet.key, "text": subnet.text, "backbone": backbone}
    return row | named | {"proxy": proxy, "value": value, "weight_seed": 0, "status": "ok"}


def tables() -> dict[str, list[dict[str, Any]]]:
    """The rows of every table."""
    found = tiny.tables()
    found["architectures"] += [
        *map(architecture, (BEST, SMALL, SCORED)),
        architecture(AUTOFORMER_T, is_named=True, names=["AutoFormer-T"], is_sound=None),
    ]
    where = {BEST: SPACE, SMALL: SPACE, SCORED: SPACE, AUTOFORMER_T: "autoformer-tiny"}
    found["costs"] += [
        {"key": subnet.key, "backbone": backbone, "params": 1000 * subnet.depth, "macs": 2000, "step_ms": None}
        for subnet, backbone in where.items()
    ]
    found["runs"] += [run(BEST, 0, 88.0), run(BEST, 1, 89.0), run(SMALL, 0, 80.0)]
    found["runs"] += [inherited(BEST, 85.0), inherited(SMALL, 70.0)]
    found["proxies"] += [
        score(subnet, where[subnet], proxy, float(subnet.depth))
        for subnet in (SCORED, AUTOFORMER_T)
        for proxy in ("dss", "te_nas.ntk_cond")
    ]
    found["published"].append(found["published"][0] | {"model": "AutoFormer-T", "method": "AutoFormer", "value": 74.9})
    return found


def write(directory: Path) -> Path:
    """The release in a directory that is made for it."""
    directory.mkdir()
    write_release(directory, tables(), "0.0-test")
    return directory
