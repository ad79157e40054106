"""Recipes and their hashes."""

from dataclasses import FrozenInstanceError, replace

import pytest

from attnbench.nn.backbones import BACKBONES, backbone_config, build_backbone
from attnbench.nn.protocol import PROTOCOLS, protocol, protocol_hash


def micro_hash(recipe=None, backbone="deit", config=None, semantics=1):
    return protocol_hash(recipe or protocol("fmnist-micro"), backbone, config or backbone_config("deit"), semantics)


def test_hash_is_stable_hex():
    assert micro_hash() == micro_hash()
    assert len(micro_hash()) == 16
    int(micro_hash(), 16)


@pytest.mark.parametrize(
    "changed",
    [
        {"recipe": replace(protocol("fmnist-micro"), epochs=6)},
        {"recipe": replace(protocol("fmnist-micro"), precision="bf16")},
        {"backbone": "deit-2"},
        {"config": replace(backbone_config("deit"), width=40)},
        {"config": replace(backbone_config("deit"), local=False)},
        {"semantics": 2},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_hash_covers(changed):
    assert micro_hash(**changed) != micro_hash()


def test_recipes_and_configs_are_frozen():
    for value in (protocol("fmnist-micro"), backbone_config("deit")):
        with pytest.raises(FrozenInstanceError):
            value.name = "other"


def test_unknown_names_list_the_known():
    with pytest.raises(ValueError, match=f"unknown protocol 'mnist'; known: {', '.join(PROTOCOLS)}"):
        protocol("mnist")
    with pytest.raises(ValueError, match=f"unknown backbone 'vit'; known: {', '.join(BACKBONES)}"):
        build_backbone("vit", lambda q, k, v: v, 0)
