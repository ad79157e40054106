"""Subnets: text and key, validation, spaces, cost by formula, drawing, mutation and crossover."""

import random
from collections import Counter
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.errors import AttnBenchError, InvalidSubnet
from attnbench.space.subnet import AutoFormerSubnet, PiTSubnet
from attnbench.space.subnet_cost import FRAMES, subnet_cost
from attnbench.space.subnet_named import PARAM_WINDOWS, PUBLISHED_SUBNETS, SPACES, ParamWindow
from attnbench.space.subnet_sample import crossover, mutate, sample, sample_within
from attnbench.space.subnet_spaces import AutoFormerSpace, PiTSpace, require_in
from attnbench.space.subnet_text import candidate, parse_subnet, read_subnet

MICRO, PIT_MICRO = SPACES["autoformer-micro"], SPACES["pit-micro"]
SMALL_NET = AutoFormerSubnet(24, (2, 3), (1, 4), 12)
SMALL_PIT = PiTSubnet(8, (1, 2, 1), (1, 2, 4), 2)
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=lambda space: space.name)


# Text and key


def test_golden_texts_and_keys():
    assert SMALL_NET.text == "autoformer(embed_dim=24, heads=[2, 3], mlp_ratios=[1, 4], head_dim=12)"
    assert SMALL_PIT.text == "pit(base_dim=8, depths=[1, 2, 1], heads=[1, 2, 4], mlp_ratio=2)"
    assert SMALL_NET.key == "sn1-4b5de47559c47499a64e655d69a6eb74"
    assert SMALL_PIT.key == "sn1-80b44e9b980506e71eda14ed9e358aeb"
    assert str(SMALL_PIT) == SMALL_PIT.text
    assert (SMALL_NET.depth, SMALL_PIT.depth) == (2, 4)


@every_space
def test_text_reads_back_and_keys_tell_subnets_apart(space):
    rng = random.Random(0)
    subnets = {sample(space, rng) for _ in range(200)}
    assert len({subnet.key for subnet in subnets}) == len(subnets)
    for subnet in subnets:
        assert parse_subnet(subnet.text) == subnet
        assert parse_subnet(subnet.text).key == subnet.key


def test_spellings_of_one_subnet_share_its_key():
    spellings = (
        "autoformer(heads=(2, 3), embed_dim=24, head_dim=12, mlp_ratios=[1.0, 4])",
        " autoformer(\n embed_dim=24, heads=[2,3], mlp_ratios=[1,4.0], head_dim=12 ) ",
    )
    assert {parse_subnet(text).key for text in spellings} == {SMALL_NET.key}
    assert AutoFormerSubnet(np.int64(24), np.array([2, 3]), np.array([1.0, 4.0]), 12) == SMALL_NET
    assert parse_subnet("autoformer(embed_dim=64, heads=[1], mlp_ratios=[2])").head_dim == 64


@given(
    st.integers(1, 999),
    st.lists(st.tuples(st.integers(1, 12), st.floats(1, 9)), min_size=1, max_size=20),
    st.integers(1, 2**31 - 1),
)
def test_any_numbers_survive_the_text(width, layers, head_dim):
    heads, ratios = zip(*layers, strict=True)
    subnet = AutoFormerSubnet(width, heads, ratios, head_dim)
    if len(subnet.text) <= 2000:
        assert parse_subnet(subnet.text) == subnet


def test_subnets_are_frozen_and_hashable():
    with pytest.raises(FrozenInstanceError):
        SMALL_NET.embed_dim = 3
    assert len({SMALL_NET, replace(SMALL_NET), SMALL_PIT}) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AutoFormerSubnet(0, (1,), (1,)), "embed_dim must be a whole number from 1 to 2147483647, got 0"),
        (lambda: AutoFormerSubnet(8, (True,), (1,)), "heads of layer 0 must be a whole number from 1 to .*, got True"),
        (lambda: AutoFormerSubnet(8, (1, 1.5), (1, 1)), "heads of layer 1 must be a whole number .*, got 1.5"),
        (lambda: AutoFormerSubnet(8, (), ()), "heads is empty; a subnet has at least one block"),
        (lambda: AutoFormerSubnet(8, 3, (1,)), "heads must be a list of numbers, got 3"),
        (lambda: AutoFormerSubnet(8, (1, 2), (1,)), "heads are given for 2 layers and mlp_ratios for 1"),
        (lambda: AutoFormerSubnet(8, (1,), ("4",)), "mlp ratio of layer 0 must be a number, got '4'"),
        (
            lambda: AutoFormerSubnet(8, (1,), (float("nan"),)),
            "must be finite and give the MLP from 1 to 2147483647 units .* nan",
        ),
        (lambda: AutoFormerSubnet(8, (1,), (0.1,)), "mlp ratio of layer 0 .* units at width 8, got 0.1"),
        (lambda: PiTSubnet(8, (1, 2), (1, 1, 1), 2), r"depths has 2 entries, \[1, 2\]; PiT has 3 stages"),
        (lambda: PiTSubnet(8, (1, 2, 1), (4, 2, 8), 2), "4 heads in stage 0 and 2 in stage 1: .* a multiple of 4"),
        (
            lambda: PiTSubnet(8, (1, 0, 1), (1, 1, 1), 2),
            "depths of stage 1 must be a whole number from 1 to 2147483647, got 0",
        ),
        (lambda: AutoFormerSubnet(10**400, (1,), (1,)), "embed_dim must be a whole number .*, got 1000000"),
        (lambda: AutoFormerSubnet(10**5000, (1,), (1,)), "embed_dim must be a whole number .*, got a int"),
        (lambda: AutoFormerSubnet(8, (1,), (10**400,)), "mlp ratio of layer 0 must be a number, got 1000"),
        (lambda: AutoFormerSubnet(8, (1,), (1e300,)), "give the MLP from 1 to 2147483647 units at width 8, got 1e"),
        (lambda: AutoFormerSubnet(8, {1, 2}, (1, 1)), r"heads must be a list of numbers, got \{1, 2\}"),
        (lambda: AutoFormerSubnet(8, {1: 1}, (1,)), r"heads must be a list of numbers, got \{1: 1\}"),
        (lambda: AutoFormerSubnet(8, (1,), (np.ones(2),)), r"mlp ratio of layer 0 must be a number, got array\(\["),
        (lambda: AutoFormerSubnet(8, np.array(1), (1,)), r"heads must be a list of numbers, got array\(1\)"),
        (lambda: AutoFormerSubnet(8, np.array([1.5]), (1,)), "heads of layer 0 must be a whole number .*, got "),
    ],
)
def test_impossible_subnets_are_refused(make, message):
    with pytest.raises(InvalidSubnet, match=message):
        make()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("autoformer(", r"'autoformer\(' is no subnet; one is written like autoformer\(embed_dim=192"),
        ("autoformer", "is no subnet"),
        ("autoformer(24)", "is no subnet"),
        ("autoformer(embed_dim=48, embed_dim=36, heads=[1], mlp_ratios=[1])", "gives a field twice; give each once"),
        ("autoformer(embed_dim=__import__('os'), heads=[1], mlp_ratios=[1])", "is no subnet"),
        ("autoformer(**{})", "autoformer got no field 'None'"),
        ("(" * 1500, "is no subnet"),
        ("x" * 2001, "the text has 2,001 characters; at most 2,000 are read"),
        ("swin(embed_dim=24)", "unknown family 'swin'; known: autoformer, pit"),
        ("autoformer(embed_dim=24, heads=[1])", "autoformer got no mlp_ratios; its fields are embed_dim, heads"),
        ("pit(base_dim=8, width=3)", "pit got no field 'width'; its fields are base_dim, depths, heads, mlp_ratio"),
    ],
)
def test_other_texts_are_refused(text, message):
    with pytest.raises(InvalidSubnet, match=message):
        parse_subnet(text)


def test_errors_are_caught_as_value_errors_too():
    assert issubclass(InvalidSubnet, AttnBenchError)
    assert issubclass(InvalidSubnet, ValueError)


# The published code's own encodings


def test_dictionaries_and_tuples_of_the_published_code():
    net = PUBLISHED_SUBNETS["AutoFormer-T"].subnet
    heads, ratios = list(net.heads), list(net.mlp_ratios)
    written = {"hidden_dim": 192, "mlp_ratio": ratios, "depth": 13, "num_heads": heads}
    config = {"LAYER_NUM": 13, "MLP_RATIO": ratios, "NUM_HEADS": heads, "EMBED_DIM": [192] * 13}
    for source in (net, net.text, written, config, candidate(net), list(candidate(net))):
        assert read_subnet(source) == net
    pit = {"base_dim": 8, "depth": [1, 2, 1], "num_heads": [1, 2, 4], "mlp_ratio": 2}
    assert read_subnet(pit) == SMALL_PIT


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "a subnet is a text, a mapping or a tuple, got int"),
        ((), r"a candidate tuple is \(depth, .* got 0 with depth None"),
        ((2, 1, 1, 3, 3), "got 5 with depth 2"),
        ({"depth": 2}, "the subnet lacks embed_dim or hidden_dim, num_heads, mlp_ratio; it has depth"),
        ({"base_dim": 2}, "the subnet lacks depth, num_heads, mlp_ratio; it has base_dim"),
        (
            {"embed_dim": [24, 36], "depth": 2, "num_heads": [1, 1], "mlp_ratio": [1, 1]},
            r"embed_dim differs between layers, \[24, 36\]; a subnet has one width",
        ),
        (
            {"embed_dim": 24, "depth": 3, "num_heads": [1, 1], "mlp_ratio": [1, 1]},
            "depth is 3, but heads and mlp_ratio are given for 2 layers",
        ),
        (
            {"embed_dim": [[1], [2]], "depth": 2, "num_heads": [1, 1], "mlp_ratio": [1, 1]},
            r"embed_dim of layer 0 must be a whole number .*, got \[1\]",
        ),
        (
            {"embed_dim": 24, "depth": np.array([2, 2]), "num_heads": [1, 1], "mlp_ratio": [1, 1]},
            r"depth must be a whole number .*, got array\(\[2, 2\]\)",
        ),
    ],
)
def test_other_encodings_are_refused(source, message):
    with pytest.raises(InvalidSubnet, match=message):
        read_subnet(source)


# Cost by formula; the stand-alone models' own counts are compared in tests/nn/test_subnet.py

PUBLISHED_PARAMS = {
    "AutoFormer-T": 5_867_944,
    "AutoFormer-S": 22_891_432,
    "AutoFormer-B": 53_691_688,
    "TF-TAS-T": 6_200_776,
    "TF-TAS-S": 23_935_336,
    "TF-TAS-B": 56_470_792,
}


@pytest.mark.parametrize(("name", "params"), PUBLISHED_PARAMS.items())
def test_parameters_of_the_published_subnets(name, params):
    assert subnet_cost(PUBLISHED_SUBNETS[name].subnet, FRAMES["autoformer"]).params == params


@pytest.mark.parametrize(
    ("name", "with_positions", "without"),
    [("TF-TAS-T", 1.58, 1.36), ("TF-TAS-S", 5.42, 5.01), ("TF-TAS-B", 12.36, 11.65)],
)
def test_multiply_adds_of_the_published_subnets(name, with_positions, without):
    subnet, frame = PUBLISHED_SUBNETS[name].subnet, FRAMES["autoformer"]
    assert subnet_cost(subnet, frame).macs / 1e9 == pytest.approx(with_positions, abs=0.005)
    bare = subnet_cost(subnet, replace(frame, max_distance=None))
    assert bare.macs / 1e9 == pytest.approx(without, abs=0.005)
    assert bare.params == PUBLISHED_PARAMS[name] - 7680 * subnet.depth


@pytest.mark.parametrize(("name", "params"), [("PiT-T", 4.9), ("PiT-XS", 10.6), ("PiT-S", 23.5)])
def test_pit_has_the_size_its_authors_give(name, params):
    assert subnet_cost(PUBLISHED_SUBNETS[name].subnet, FRAMES["pit"]).params / 1e6 == pytest.approx(params, abs=0.06)


# Spaces


@pytest.mark.parametrize(
    ("name", "size", "least", "most"),
    [
        ("autoformer-tiny-released", 1.06e9, 5.37, 10.52),
        ("autoformer-small", 7.7e13, 13.06, 34.79),
        ("autoformer-base", 6.2e15, 39.8, 76.9),
        ("autoformer-base-released", 1.0e13, 41.7, 76.9),
    ],
)
def test_sizes_and_ranges_of_the_autoformer_spaces(name, size, least, most):
    space = SPACES[name]
    assert space.size == pytest.approx(size, rel=0.05)
    ends = [subnet_cost(end, space.frame).params / 1e6 for end in (space.smallest, space.largest)]
    assert ends == pytest.approx([least, most], abs=0.06)


@pytest.mark.parametrize("name", ["pit-tiny", "pit-xs", "pit-small"])
def test_pit_spaces_hold_what_depthwise_pooling_allows(name):
    assert SPACES[name].size == 4320
    assert len(SPACES[name].head_triples) == 10


def test_size_counts_the_subnets():
    space = AutoFormerSpace("two", "autoformer-micro", (24, 36), (2, 3), (1,), (1, 2), 12)
    rng = random.Random(0)
    assert space.size == 2 * (2 + 4) == len({sample(space, rng) for _ in range(400)})
    assert MICRO.size == 3 * (9**2 + 9**3 + 9**4)


@every_space
def test_names_lead_to_spaces_that_hold_their_own_subnets(space):
    assert SPACES[space.name] is space
    rng = random.Random(1)
    assert all(subnet in space for subnet in (space.smallest, space.largest, *(sample(space, rng) for _ in range(50))))


def test_narrower_released_sets_lie_within_the_spaces():
    rng = random.Random(2)
    for name in ("autoformer-tiny", "autoformer-base"):
        assert all(sample(SPACES[f"{name}-released"], rng) in SPACES[name] for _ in range(50))
    assert PUBLISHED_SUBNETS["AutoFormer-T"].subnet not in SPACES["autoformer-tiny-released"]


@pytest.mark.parametrize("row", PUBLISHED_SUBNETS.values(), ids=lambda row: row.name)
def test_published_subnets_lie_in_their_spaces(row):
    require_in(SPACES[row.space], row.subnet)
    assert PUBLISHED_SUBNETS[row.name] is row
    assert row.source


@pytest.mark.parametrize(
    ("space", "subnet", "message"),
    [
        (
            "autoformer-tiny-released",
            PUBLISHED_SUBNETS["AutoFormer-T"].subnet,
            r"not in the space autoformer-tiny-released: mlp ratio of layer 2 is 3, expected one of \[3.5, 4\]",
        ),
        ("autoformer-micro", replace(SMALL_NET, embed_dim=25), r"embed_dim is 25, expected one of \[24, 36, 48\]"),
        ("autoformer-micro", replace(SMALL_NET, head_dim=64), r"head_dim is 64, expected one of \[12\]"),
        (
            "autoformer-micro",
            replace(SMALL_NET, heads=(2,), mlp_ratios=(1,)),
            r"depth is 1, expected one of \[2, 3, 4\]",
        ),
        ("autoformer-micro", replace(SMALL_NET, heads=(2, 9)), r"heads of layer 1 is 9, expected one of \[2, 3, 4\]"),
        ("autoformer-micro", SMALL_PIT, "it holds AutoFormer subnets, got PiTSubnet"),
        ("pit-micro", SMALL_NET, "it holds PiT subnets, got AutoFormerSubnet"),
        ("pit-micro", replace(SMALL_PIT, depths=(1, 4, 1)), r"depth of stage 1 is 4, expected one of \[1, 2, 3\]"),
        ("pit-micro", replace(SMALL_PIT, heads=(1, 3, 3)), r"heads of stage 1 is 3, expected one of \[1, 2, 4\]"),
        ("pit-micro", replace(SMALL_PIT, base_dim=9), r"base_dim is 9, expected one of \[8, 12, 16\]"),
        ("pit-micro", replace(SMALL_PIT, mlp_ratio=1.5), r"mlp_ratio is 1.5, expected one of \[1, 2, 4\]"),
    ],
)
def test_a_subnet_outside_its_space_is_told_why(space, subnet, message):
    assert subnet not in SPACES[space]
    with pytest.raises(InvalidSubnet, match=message):
        require_in(SPACES[space], subnet)
    with pytest.raises(InvalidSubnet, match=message):
        mutate(SPACES[space], subnet, random.Random(0))
    for parents in ((SPACES[space].smallest, subnet), (subnet, SPACES[space].smallest)):
        with pytest.raises(InvalidSubnet, match=message):
            crossover(SPACES[space], *parents, random.Random(0))


# Drawing


def test_one_seed_one_subnet():
    assert sample(MICRO, random.Random(7)) == sample(MICRO, random.Random(7))


def test_draws_are_uniform_over_coordinates_or_over_subnets():
    rng = random.Random(3)
    by_coordinate = Counter(sample(MICRO, rng).depth for _ in range(3000))
    assert all(900 < by_coordinate[depth] < 1100 for depth in (2, 3, 4))
    by_subnet = Counter(sample(MICRO, rng, uniform="subnets").depth for _ in range(3000))
    expected = {depth: 3000 * 9**depth / (9**2 + 9**3 + 9**4) for depth in (2, 3, 4)}
    assert all(abs(by_subnet[depth] - n) < 5 * n**0.5 for depth, n in expected.items())
    with pytest.raises(ValueError, match=r"uniform is over .*, got 'sizes'"):
        sample(MICRO, rng, uniform="sizes")


@pytest.mark.parametrize(
    ("space", "window"),
    [
        ("autoformer-tiny", "tiny"),
        ("autoformer-small", "small"),
        ("autoformer-base", "base"),
        ("autoformer-tiny", "tiny-tf-tas"),
        ("autoformer-small", "small-tf-tas"),
        ("autoformer-base", "base-tf-tas"),
    ],
)
def test_draws_inside_a_parameter_window(space, window):
    space, window, rng = SPACES[space], PARAM_WINDOWS[window], random.Random(4)
    for _ in range(5):
        subnet = sample_within(space, rng, window)
        assert window.min_params <= subnet_cost(subnet, space.frame).params <= window.max_params
        assert subnet in space


def test_both_ends_of_a_window_belong_to_it():
    assert 3 in ParamWindow(3, 5)
    assert 5 in ParamWindow(3, 5)
    assert 6 not in ParamWindow(3, 5)


def test_a_window_out_of_reach_is_told():
    ends = [subnet_cost(end, MICRO.frame).params for end in (MICRO.smallest, MICRO.largest)]
    message = f"none of 10 draws from autoformer-micro has 1 to 2 parameters; .* {ends[0]:,} to {ends[1]:,}"
    with pytest.raises(InvalidSubnet, match=message):
        sample_within(MICRO, random.Random(0), (1, 2), max_tries=10)


# Mutation and crossover


@every_space
def test_mutants_and_children_stay_in_the_space(space):
    rng = random.Random(5)
    for _ in range(50):
        a, b = sample(space, rng), sample(space, rng)
        mutant = mutate(space, a, rng)
        assert mutant in space
        assert mutant != a
        assert crossover(space, a, b, rng) in space


def test_mutation_redraws_with_the_released_probabilities():
    rng = random.Random(6)
    space = replace(MICRO, depths=(4,))
    parent = space.smallest
    n = 4000
    mutants = [mutate(space, parent, rng) for _ in range(n)]
    # A redrawn coordinate keeps its value one time in three; a draw without any change is thrown away.
    unchanged = (1 - 0.4 * 2 / 3) * (1 - 0.2 * 2 / 3) ** 8
    for changed, p in (
        (sum(m.embed_dim != parent.embed_dim for m in mutants), 0.4),
        (sum(m.heads[2] != parent.heads[2] for m in mutants), 0.2),
        (sum(m.mlp_ratios[0] != parent.mlp_ratios[0] for m in mutants), 0.2),
    ):
        expected = p * 2 / 3 / (1 - unchanged)
        assert abs(changed / n - expected) < 5 * (expected / n) ** 0.5


def test_a_longer_mutant_keeps_the_first_layers_and_a_shorter_one_is_their_beginning():
    rng = random.Random(8)
    parent = sample(replace(MICRO, depths=(3,)), rng)
    depths = set()
    for _ in range(300):
        mutant = mutate(MICRO, parent, rng, gene_prob=1e-9)
        depths.add(mutant.depth)
        kept = min(3, mutant.depth)
        assert mutant.heads[:kept] == parent.heads[:kept]
        assert mutant.mlp_ratios[:kept] == parent.mlp_ratios[:kept]
    assert depths == {2, 3, 4}


def test_added_layers_are_random():
    rng = random.Random(9)
    parent = MICRO.smallest
    longer = [m for m in (mutate(MICRO, parent, rng, gene_prob=1e-9) for _ in range(300)) if m.depth == 4]
    assert {m.heads[3] for m in longer} == set(MICRO.heads)
    assert {m.mlp_ratios[2] for m in longer} == set(MICRO.mlp_ratios)


def test_what_cannot_be_mutated_is_refused():
    rng = random.Random(0)
    alone = AutoFormerSpace("one", "autoformer-micro", (24,), (2,), (1,), (2,), 12)
    with pytest.raises(InvalidSubnet, match="one has no other subnet to mutate to"):
        mutate(alone, alone.smallest, rng)
    with pytest.raises(ValueError, match="net_prob is a probability above 0 and up to 1, got 0"):
        mutate(MICRO, MICRO.smallest, rng, net_prob=0)
    with pytest.raises(ValueError, match=r"gene_prob is a probability above 0 and up to 1, got 1.5"):
        mutate(MICRO, MICRO.smallest, rng, gene_prob=1.5)


def test_every_coordinate_of_a_child_is_a_parents():
    rng = random.Random(10)
    a = AutoFormerSubnet(24, (2, 2), (1, 1), 12)
    b = AutoFormerSubnet(48, (4, 4, 4, 3), (4, 4, 4, 2), 12)
    children = [crossover(MICRO, a, b, rng) for _ in range(400)]
    assert {child.depth for child in children} == {2, 4}
    assert {child.embed_dim for child in children} == {24, 48}
    assert {child.heads[:2] for child in children} == {(2, 2), (2, 4), (4, 2), (4, 4)}
    assert {child.mlp_ratios[2:] for child in children} == {(), (4, 2)}
    assert {child.heads[2:] for child in children} == {(), (4, 3)}
    pits = [crossover(PIT_MICRO, PIT_MICRO.smallest, PIT_MICRO.largest, rng) for _ in range(100)]
    assert {child.heads for child in pits} == {(1, 1, 1), (4, 4, 4)}
    assert {child.depths for child in pits} == {(i, j, k) for i in (1, 2) for j in (1, 3) for k in (1, 2)}


def test_pit_spaces_take_pit_shapes_only():
    space = PiTSpace("odd", "pit-micro", (8,), (2, 3), (1,), ((1,), (1,), (1,)))
    assert space.head_triples == ((2, 2, 2), (3, 3, 3))
    assert space.size == 2
