"""Every graph of the table in every micro backbone, and every published trial in the full models."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from attnbench.dataset.files import read_manifest, read_table
from attnbench.nn.backbones import BACKBONES, backbone_config, build_backbone
from attnbench.nn.cost import image_shape
from attnbench.nn.operators import compile_graph
from attnbench.space.parse import parse
from attnbench.space.published import PUBLISHED

N_PARTS = 10
TINY = ("deit-tiny", "pvt-tiny", "pvt2-b0", "swin-tiny", "cswin-tiny")
TRIALS = [trial for trial in PUBLISHED if trial.graph is not None]


def run(backbone: str, formula: str, n_images: int) -> None:
    """Builds the backbone and takes one loss forward and backward, all finite."""
    model = build_backbone(backbone, compile_graph(parse(formula)), seed=0)
    images = torch.randn(n_images, *image_shape(backbone), generator=torch.Generator().manual_seed(0))
    logits = model(images)
    assert logits.shape == (n_images, backbone_config(backbone).n_classes)
    loss = torch.nn.functional.cross_entropy(logits, torch.arange(n_images))
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert model.get_classifier().weight.grad.abs().sum() > 0


def failures(backbone: str, formulas: list[str]) -> list[str]:
    found = []
    for formula in formulas:
        try:
            run(backbone, formula, 2)
        except Exception as error:
            found.append(f"{formula}: {type(error).__name__} {error}")
    return found


def attentions_of(tables_dir: Path) -> list[str]:
    """Every formula of the table, in a drawn order."""
    table = read_table(tables_dir, "architectures", read_manifest(tables_dir)).select(["kind", "text"]).to_pylist()
    formulas = sorted(row["text"] for row in table if row["kind"] == "attention")
    random.Random("every graph").shuffle(formulas)
    return formulas


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_sample_of_the_table_runs_in_every_micro_backbone(backbone: str, tables_dir: Path) -> None:
    """Beside the named graphs, all of which test_backbones.py runs."""
    assert failures(backbone, attentions_of(tables_dir)[:30]) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(N_PARTS))
@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_graph_of_the_table_runs_in_every_micro_backbone(backbone: str, part: int, tables_dir: Path) -> None:
    formulas = attentions_of(tables_dir)
    assert len(formulas) >= 2000
    assert failures(backbone, formulas[part::N_PARTS]) == []


@pytest.mark.slow
@pytest.mark.parametrize("backbone", TINY)
@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.name)
def test_every_published_trial_runs_in_the_full_tiny_models(trial, backbone: str) -> None:
    run(backbone, trial.graph.text, 1)
