"""A tiny release: six architectures, runs of every status, two cells, costs, times, scores, a published figure."""

from pathlib import Path
from typing import Any

from attnbench.dataset.files import write_release
from attnbench.space.parse import parse

SOFTMAX = "softmax(scale(q @ k.T)) @ v"
EFFICIENT = "softmax(q) @ (softmax(k, axis=-2).T @ v)"
ELU = "elu1(q) @ (elu1(k).T @ v)"
TRIAL = "q * l2norm(l2norm(q) @ standardize(minmax(v).T @ elu1(k)))"
IDENTITY = "v"
UNTRAINED = "relu(q) @ (relu(k).T @ v)"
ABSENT = "sigmoid(q) @ (sigmoid(k).T @ v)"

CELL = ("linear", "elu1", "none", "elu1", "none", "none")
# Text, names, sound, validation top-1 of the seeds on deit (status "ok" unless named beside).
ROWS: list[tuple[str, list[str], bool, list[Any]]] = [
    (SOFTMAX, ["softmax", "softmax attention"], False, [80.0, 81.0, 82.0]),
    (EFFICIENT, ["Efficient Attention"], True, [83.0, 84.0, 82.0]),
    (ELU, ["kernel linear"], True, [84.5]),
    (TRIAL, ["Trial 105"], True, [79.0, "diverged"]),
    (IDENTITY, ["identity"], False, ["stopped", "stopped"]),
    (UNTRAINED, [], True, []),
]


def run(text: str, seed: int, outcome: Any, /, **changes: Any) -> dict[str, Any]:
    """A row of `runs` whose last validation value is `outcome`, or that stopped at 12 %, or diverged."""
    status = outcome if isinstance(outcome, str) else "ok"
    value = {"ok": outcome, "stopped": 12.0, "diverged": None}[status]
    curve = [50.0, 60.0, value] if status == "ok" else [10.0, 12.0] if status == "stopped" else [10.0, float("nan")]
    row = {
        "key": parse(text).key,
        "text": text,
        "backbone": "deit",
        "protocol": "fmnist-micro",
        "protocol_hash": "f00d",
        "seed": seed,
        "status": status,
        "val_curve": curve,
        "val_loss_curve": [2.0 / (n + 1) for n in range(len(curve))],
        "train_loss_curve": [2.1 / (n + 1) for n in range(len(curve))],
        "val_top1_percent": value,
        "val_loss": None if status == "diverged" else 2.0 / len(curve),
        "test_top1_percent": value - 0.5 if status == "ok" else None,
        "test_loss": 0.7 if status == "ok" else None,
        "train_seconds": 14.5,
        "device": "cpu",
        "torch_version": "2.14",
        "code_version": "0.1.0",
        "finished_at": "2026-11-30T09:00:00Z",
    }
    return row | changes


def architecture(text: str, names: list[str], sound: bool) -> dict[str, Any]:
    """A row of `architectures`."""
    return {
        "key": parse(text).key,
        "kind": "attention",
        "text": text,
        "in_grid": text in (ELU, UNTRAINED),
        "is_named": bool(names),
        "is_wild": False,
        "names": names,
        "graph_type": None,
        "genotype": None,
        "complexity": "O(N)" if sound else "O(N^2)",
        "is_sound": sound,
        "failed_checks": [] if sound else ["linear"],
        "reasons": [] if sound else ["it is quadratic in N"],
        "signature": None,
    }


def tables() -> dict[str, list[dict[str, Any]]]:
    """The rows of every table."""
    elu, relu = parse(ELU).key, parse(UNTRAINED).key
    coordinates = ("family", "q_activation", "q_norm", "k_activation", "k_norm", "middle")
    cells = [
        ("linear", q, "none", k, "none", "none", key) for q, k, key in [("elu1", "elu1", elu), ("elu1", "relu", relu)]
    ]
    scores = [("dss", 2.0, 0), ("dss", 4.0, 1), ("snip", 1.5, 0), ("naswot", 3.0, 0), ("naswot", None, 1)]
    return {
        "architectures": [architecture(text, names, sound) for text, names, sound, _ in ROWS],
        "cells": [dict(zip((*coordinates, "key"), cell, strict=True)) for cell in cells],
        "costs": [
            {"key": parse(text).key, "backbone": "deit", "params": 27_000, "macs": 480_000, "step_ms": 13.5}
            for text in (SOFTMAX, ELU)
        ],
        "latency": [
            {
                "key": elu,
                "text": ELU,
                "n_tokens": n_tokens,
                "latency_ms": n_tokens / 100,
                "peak_bytes": 4 * 64 * n_tokens,
                "device": "cpu",
                "threads": 1,
                "torch_version": "2.14",
            }
            for n_tokens in (64, 256)
        ],
        "runs": [run(text, seed, outcome) for text, _, _, seeds in ROWS for seed, outcome in enumerate(seeds)]
        + [run(ELU, 0, 77.0, backbone="pvt", protocol_hash="cafe")],
        "proxies": [
            {
                "key": elu,
                "text": ELU,
                "backbone": "deit",
                "proxy": proxy,
                "value": value,
                "seconds": 0.1,
                "weight_seed": seed,
                "status": "ok" if value is not None else "nonfinite",
            }
            for proxy, value, seed in scores
        ],
        "rejections": [
            {"stage": "shape", "sampler": "released", "reason": "matmul", "count": 90, "n_drawn": 100},
            {"stage": "sound", "sampler": "released", "reason": "", "count": 10, "n_drawn": 100},
        ],
        "published": [
            {
                "model": "DeiT-T",
                "method": "softmax",
                "dataset": "ImageNet-1k",
                "image_size": 224,
                "metric": "top1",
                "value": 72.2,
                "unit": "percent",
                "params": 5_700_000,
                "macs": None,
                "source": "DeiT, Touvron et al. 2021",
                "note": "",
            }
        ],
    }


def write(directory: Path) -> Path:
    """The tiny release in a directory that is made for it."""
    directory.mkdir()
    write_release(directory, tables(), "0.0-test")
    return directory
