"""Supernets: a subnet's output is that of a stand-alone network with copied slices; roles and gradients."""

import random
from dataclasses import replace

import pytest
import torch

from attnbench.errors import InvalidSubnet
from attnbench.nn.cost import count_params
from attnbench.nn.subnet import build_subnet
from attnbench.nn.supernet import SHARINGS, build_supernet
from attnbench.space.subnet import AutoFormerSubnet
from attnbench.space.subnet_cost import subnet_cost
from attnbench.space.subnet_named import SPACES
from attnbench.space.subnet_sample import sample

MICRO = SPACES["autoformer-micro"]
IMAGES = torch.randn(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
every_sharing = pytest.mark.parametrize("sharing", SHARINGS)


@torch.no_grad()
def shaken_supernet(sharing):
    """A supernet no two entries of which are equal, so that a wrong slice shows."""
    supernet = build_supernet(MICRO, 0, sharing=sharing)
    generator = torch.Generator().manual_seed(1)
    for parameter in supernet.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return supernet


@torch.no_grad()
def copied_by_hand(whole, subnet):
    """A stand-alone network with the slices of weight entanglement, each written out."""
    net = build_subnet(subnet, MICRO.frame, seed=5)
    e = subnet.embed_dim
    net.patches.proj.weight.copy_(whole.patches.proj.weight[:e])
    net.patches.proj.bias.copy_(whole.patches.proj.bias[:e])
    net.class_token.copy_(whole.class_token[:, :, :e])
    net.positions.copy_(whole.positions[:, :, :e])
    for block, big, heads, ratio in zip(net.blocks, whole.blocks, subnet.heads, subnet.mlp_ratios, strict=False):
        inner, hidden = heads * subnet.head_dim, int(e * ratio)
        for name in ("norm1", "norm2"):
            getattr(block, name).weight.copy_(getattr(big, name).weight[:e])
            getattr(block, name).bias.copy_(getattr(big, name).bias[:e])
        for role in ("q", "k", "v"):
            getattr(block.attn, role).weight.copy_(getattr(big.attn, role).weight[:inner, :e])
            getattr(block.attn, role).bias.copy_(getattr(big.attn, role).bias[:inner])
        block.attn.key_tables.copy_(big.attn.key_tables)
        block.attn.value_tables.copy_(big.attn.value_tables)
        block.attn.proj.weight.copy_(big.attn.proj.weight[:e, :inner])
        block.attn.proj.bias.copy_(big.attn.proj.bias[:e])
        block.mlp.fc1.weight.copy_(big.mlp.fc1.weight[:hidden, :e])
        block.mlp.fc1.bias.copy_(big.mlp.fc1.bias[:hidden])
        block.mlp.fc2.weight.copy_(big.mlp.fc2.weight[:e, :hidden])
        block.mlp.fc2.bias.copy_(big.mlp.fc2.bias[:e])
    net.norm.weight.copy_(whole.norm.weight[:e])
    net.norm.bias.copy_(whole.norm.bias[:e])
    net.head.weight.copy_(whole.head.weight[:, :e])
    net.head.bias.copy_(whole.head.bias)
    return net


@torch.no_grad()
def test_an_entangled_subnet_is_a_stand_alone_network_with_copied_slices():
    supernet, rng = shaken_supernet("entangled"), random.Random(0)
    for subnet in (MICRO.smallest, MICRO.largest, *(sample(MICRO, rng) for _ in range(6))):
        expected = copied_by_hand(supernet.largest, subnet)(IMAGES)
        torch.testing.assert_close(supernet(IMAGES, subnet), expected, rtol=1e-5, atol=1e-5)


@every_sharing
@torch.no_grad()
def test_an_extracted_subnet_gives_the_same_and_shares_no_memory(sharing):
    supernet, rng = shaken_supernet(sharing), random.Random(1)
    for subnet in (sample(MICRO, rng) for _ in range(4)):
        before = supernet(IMAGES, subnet)
        net = supernet.extract(subnet)
        torch.testing.assert_close(net(IMAGES), before, rtol=1e-5, atol=1e-5)
        assert count_params(net) == subnet_cost(subnet, MICRO.frame).params
        for parameter in net.parameters():
            parameter.zero_()
        assert torch.equal(supernet(IMAGES, subnet), before)


@every_sharing
def test_gradients_reach_every_weight_of_the_subnet_and_no_other(sharing):
    supernet, subnet = shaken_supernet(sharing), AutoFormerSubnet(24, (2, 3), (2, 1), 12)
    torch.nn.functional.cross_entropy(supernet(IMAGES, subnet), torch.tensor([0, 1])).backward()
    touched = sum(int((p.grad != 0).sum()) for p in supernet.parameters() if p.grad is not None)
    n_params = subnet_cost(subnet, MICRO.frame).params
    assert 0.95 * n_params < touched <= n_params
    net = supernet.extract(subnet)
    torch.nn.functional.cross_entropy(net(IMAGES), torch.tensor([0, 1])).backward()
    total = sum(p.grad.double().square().sum() for p in supernet.parameters() if p.grad is not None)
    alone = sum(p.grad.double().square().sum() for p in net.parameters())
    torch.testing.assert_close(total, alone, rtol=1e-5, atol=0)


def test_shared_coordinates_have_one_role():
    """The memory that two subnets share is, in both, the same entries of the same tensor."""
    supernet, rng = build_supernet(MICRO, 0), random.Random(2)
    for _ in range(10):
        a, b = (supernet.weights(sample(MICRO, rng)) for _ in range(2))
        for name in a.keys() & b.keys():
            assert a[name].data_ptr() == b[name].data_ptr()
            assert a[name].stride() == b[name].stride()
        spans = [{t.untyped_storage().data_ptr(): name for name, t in weights.items()} for weights in (a, b)]
        assert all(spans[0][start] == spans[1][start] for start in spans[0].keys() & spans[1].keys())


def test_an_entangled_supernet_is_the_largest_subnet():
    assert count_params(build_supernet(MICRO, 0)) == subnet_cost(MICRO.largest, MICRO.frame).params


def test_classical_blocks_are_shared_only_where_layer_width_heads_and_ratio_agree():
    supernet = build_supernet(MICRO, 0, sharing="classical")
    a = supernet.weights(AutoFormerSubnet(24, (2, 3), (2, 1), 12))
    same_first_layer = supernet.weights(AutoFormerSubnet(24, (2, 3), (2, 4), 12))
    other_width = supernet.weights(AutoFormerSubnet(36, (2, 3), (2, 1), 12))
    shared = {name for name in a if a[name].data_ptr() == same_first_layer[name].data_ptr()}
    assert shared == {name for name in a if not name.startswith("blocks.1.")}
    assert not {t.data_ptr() for t in a.values()} & {t.data_ptr() for t in other_width.values()}
    assert len(supernet.blocks) == 4 * 3 * 3 * 3
    assert len(supernet.stems) == 3


@every_sharing
def test_weights_follow_the_seed(sharing):
    space = replace(MICRO, embed_dims=(24,), heads=(2,), mlp_ratios=(1, 1.5), depths=(1,))
    a, b, c = (build_supernet(space, seed, sharing=sharing).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert any(not torch.equal(a[name], c[name]) for name in a)


def test_what_does_not_fit_is_refused():
    supernet = build_supernet(MICRO, 0)
    outside = replace(MICRO.smallest, embed_dim=30)
    for call in (lambda: supernet(IMAGES, outside), lambda: supernet.extract(outside)):
        with pytest.raises(InvalidSubnet, match=r"autoformer-micro: embed_dim is 30, expected one of \[24, 36, 48\]"):
            call()
    with pytest.raises(ValueError, match="unknown sharing 'none'; known: entangled, classical"):
        build_supernet(MICRO, 0, sharing="none")
    with pytest.raises(ValueError, match="supernets are of AutoFormer spaces, got 'pit-micro'"):
        build_supernet(SPACES["pit-micro"], 0)
