"""Stand-alone subnets: counts against the formula, outputs against timm and against attention written out."""

import random
from dataclasses import replace

import pytest
import torch
from timm.models.pit import PoolingVisionTransformer
from timm.models.vision_transformer import VisionTransformer

from attnbench.nn.cost import count_macs, count_params
from attnbench.nn.subnet import RelativeAttention, build_subnet, network, relative_places
from attnbench.space.subnet import AutoFormerSubnet, PiTSubnet
from attnbench.space.subnet_cost import FRAMES, Frame, subnet_cost
from attnbench.space.subnet_named import PUBLISHED_SUBNETS, SPACES
from attnbench.space.subnet_sample import sample

MICRO, PIT_MICRO = SPACES["autoformer-micro"], SPACES["pit-micro"]


@pytest.mark.parametrize("space", SPACES.values(), ids=lambda space: space.name)
def test_formula_counts_the_parameters_of_random_subnets(space):
    rng = random.Random(0)
    for _ in range(3):
        subnet = sample(space, rng)
        with torch.device("meta"):
            model = network(subnet, space.frame)
        assert count_params(model) == subnet_cost(subnet, space.frame).params


@pytest.mark.parametrize("row", PUBLISHED_SUBNETS.values(), ids=lambda row: row.name)
def test_formula_counts_the_parameters_of_published_subnets(row):
    frame = SPACES[row.space].frame
    with torch.device("meta"):
        model = network(row.subnet, frame)
    assert count_params(model) == subnet_cost(row.subnet, frame).params


@pytest.mark.parametrize("space", [MICRO, PIT_MICRO], ids=lambda space: space.name)
@pytest.mark.parametrize("n_classes", [10, 100])
def test_formula_counts_the_products_that_run(space, n_classes):
    rng, frame = random.Random(1), replace(space.frame, n_classes=n_classes, n_channels=3)
    for subnet in (sample(space, rng), space.smallest, space.largest):
        model = build_subnet(subnet, frame, seed=0)
        assert count_macs(model, (3, 28, 28)) == subnet_cost(subnet, frame).macs
        assert count_params(model) == subnet_cost(subnet, frame).params


def test_formula_follows_the_options():
    for frame in (replace(MICRO.frame, max_distance=None), replace(MICRO.frame, pooling="class", max_distance=2)):
        model = build_subnet(MICRO.smallest, frame, seed=0)
        assert count_params(model) == subnet_cost(MICRO.smallest, frame).params
        assert count_macs(model, (1, 28, 28)) == subnet_cost(MICRO.smallest, frame).macs


@pytest.mark.parametrize("space", [MICRO, PIT_MICRO], ids=lambda space: space.name)
def test_every_parameter_of_a_micro_subnet_learns(space):
    model = build_subnet(sample(space, random.Random(2)), space.frame, seed=0)
    images = torch.randn(4, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    loss = torch.nn.functional.cross_entropy(model(images), torch.tensor([0, 1, 2, 3]))
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any() or name.endswith("k.bias"), name  # softmax does not see k's bias, up to positions


def test_weights_follow_the_seed_and_leave_the_global_generator_alone():
    state = torch.get_rng_state()
    a, b, c = (build_subnet(MICRO.smallest, MICRO.frame, seed) for seed in (0, 0, 1))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))
    assert not torch.equal(a.head.weight, c.head.weight)


def test_initial_weights_are_the_released_ones():
    model = build_subnet(MICRO.largest, MICRO.frame, seed=0)
    for weight in (model.blocks[0].attn.q.weight, model.positions, model.blocks[1].attn.key_tables, model.head.weight):
        assert weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert not model.blocks[0].mlp.fc1.bias.any()
    assert torch.equal(model.norm.weight, torch.ones_like(model.norm.weight))


# Against timm


def fused(model, block, timm_block):
    """Weights of one of our blocks in timm's."""
    attn, other = block.attn, timm_block.attn
    other.qkv.weight.copy_(torch.cat((attn.q.weight, attn.k.weight, attn.v.weight)))
    other.qkv.bias.copy_(torch.cat((attn.q.bias, attn.k.bias, attn.v.bias)))
    other.proj.load_state_dict(attn.proj.state_dict())
    for name in ("norm1", "norm2", "mlp"):
        getattr(timm_block, name).load_state_dict(getattr(block, name).state_dict())


def shaken(model):
    """The model in float64 with no parameter at a special value."""
    generator = torch.Generator().manual_seed(1)
    for parameter in model.double().parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.1)
    return model.eval()


@pytest.mark.parametrize("pooling", ["class", "mean"])
@torch.no_grad()
def test_without_relative_positions_it_is_timms_vit(pooling):
    frame = Frame(28, 7, 7, n_channels=1, n_classes=10, max_distance=None, pooling=pooling)
    model = shaken(build_subnet(AutoFormerSubnet(24, (3, 3), (2, 2), 8), frame, seed=0))
    other = VisionTransformer(
        img_size=28,
        patch_size=7,
        in_chans=1,
        num_classes=10,
        embed_dim=24,
        depth=2,
        num_heads=3,
        mlp_ratio=2,
        norm_layer=torch.nn.LayerNorm,
        global_pool="token" if pooling == "class" else "avg",
        fc_norm=False,
    ).double()
    other.patch_embed.proj.load_state_dict(model.patches.proj.state_dict())
    other.cls_token.copy_(model.class_token)
    other.pos_embed.copy_(model.positions)
    for block, timm_block in zip(model.blocks, other.blocks, strict=True):
        fused(model, block, timm_block)
    other.norm.load_state_dict(model.norm.state_dict())
    other.head.load_state_dict(model.head.state_dict())
    images = torch.randn(3, 1, 28, 28, dtype=torch.float64)
    torch.testing.assert_close(model(images), other.eval()(images))


@torch.no_grad()
def test_pit_is_timms_pit():
    subnet = PiTSubnet(8, (1, 2, 1), (1, 2, 4), 2)
    model = shaken(build_subnet(subnet, PIT_MICRO.frame, seed=0))
    other = PoolingVisionTransformer(
        img_size=28,
        patch_size=7,
        stride=3,
        base_dims=(8, 8, 8),
        depth=subnet.depths,
        heads=subnet.heads,
        mlp_ratio=2,
        num_classes=10,
        in_chans=1,
    ).double()
    other.patch_embed.conv.load_state_dict(model.patches.proj.state_dict())
    other.cls_token.copy_(model.class_token)
    other.pos_embed.copy_(model.positions)
    for number, (stage, timm_stage) in enumerate(zip(model.stages, other.transformers, strict=True)):
        if number:
            timm_stage.pool.load_state_dict(model.pools[number - 1].state_dict())
        for block, timm_block in zip(stage, timm_stage.blocks, strict=True):
            fused(model, block, timm_block)
    other.norm.load_state_dict(model.norm.state_dict())
    other.head.load_state_dict(model.head.state_dict())
    images = torch.randn(3, 1, 28, 28, dtype=torch.float64)
    torch.testing.assert_close(model(images), other.eval()(images))


# Relative positions


def test_places_are_clipped_distances_from_query_to_key():
    places = relative_places(3, 1)
    assert places.shape == (2, 10, 10)
    assert not places[:, 0].any()  # the class token as query
    assert not places[:, :, 0].any()  # and as key
    corner, far = 1, 9  # (0, 0) and (2, 2)
    below, right = 4, 2  # (1, 0) and (0, 1)
    assert places[:, corner, below].tolist() == [3, 2]
    assert places[:, corner, right].tolist() == [2, 3]
    assert places[:, corner, far].tolist() == [3, 3]
    assert places[:, far, corner].tolist() == [1, 1]
    assert places[:, far, far].tolist() == [2, 2]


@torch.no_grad()
def test_relative_attention_is_the_sum_written_out():
    side, max_distance, head_dim = 3, 1, 4
    attn = shaken(RelativeAttention(10, 2, head_dim, max_distance))
    x = torch.randn(2, 10, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    q, k, v = (part(x).view(2, 10, 2, head_dim) for part in (attn.q, attn.k, attn.v))

    def relative(tables, n, m):
        if n == 0 or m == 0:
            return tables[0, 0] + tables[1, 0]
        (y, x_), (y2, x2) = divmod(n - 1, side), divmod(m - 1, side)
        dy, dx = (max(-max_distance, min(max_distance, delta)) for delta in (y2 - y, x2 - x_))
        return tables[0, dy + max_distance + 1] + tables[1, dx + max_distance + 1]

    merged = torch.zeros(2, 10, 2, head_dim, dtype=torch.float64)
    for b in range(2):
        for h in range(2):
            for n in range(10):
                keys = torch.stack([k[b, m, h] + relative(attn.key_tables, n, m) for m in range(10)])
                values = torch.stack([v[b, m, h] + relative(attn.value_tables, n, m) for m in range(10)])
                merged[b, n, h] = (keys @ q[b, n, h] / head_dim**0.5).softmax(0) @ values
    expected = attn.proj(merged.flatten(2))
    torch.testing.assert_close(attn(x, relative_places(side, max_distance)), expected)


# Bad input


def test_what_does_not_fit_is_refused():
    model = build_subnet(MICRO.smallest, MICRO.frame, seed=0)
    with pytest.raises(ValueError, match=r"expected images \(B, \(1, 28, 28\)\), got \(2, 1, 32, 32\); resize them"):
        model(torch.zeros(2, 1, 32, 32))
    with pytest.raises(
        ValueError, match="PiT has no relative positions and classifies its class token; expected a fra"
    ):
        build_subnet(PIT_MICRO.smallest, FRAMES["autoformer-micro"], seed=0)
    with pytest.raises(TypeError, match="expected an AutoFormer or PiT subnet, got str"):
        build_subnet("autoformer", MICRO.frame, seed=0)
    with pytest.raises(ValueError, match="relative attention needs the tokens' places; pass relative_places"):
        model.blocks[0](torch.zeros(1, 17, 24))
