"""What every proxy must do, whatever it computes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from attnbench.dataset.schema import TABLES
from attnbench.nn.backbones import seeded
from attnbench.nn.data import Split
from attnbench.nn.operators import compile_graph
from attnbench.nn.proxies.registry import PROXIES, proxy
from attnbench.nn.proxies.score import balanced_batch, score
from attnbench.space.graph import Graph
from attnbench.space.named import named_graphs
from tests.nn.proxies.models import MODELS, model_of, shape_of
from tests.nn.proxies.plain import FORMULAS, SHAPE, SMALL, small_batch, small_model

EVERY = pytest.mark.parametrize("name", PROXIES)
DATA_FREE = [name for name, entry in PROXIES.items() if entry.data == "none"]
# What follows from shapes alone, whatever the weights are.
COUNTS = {"params", "macs", "az_nas.complexity"}


def batch(n: int = 6, seed: int = 0) -> Split:
    return Split(*small_batch(n, seed))


def values(model: nn.Module, name: str, seed: int = 0) -> dict[str, float | None]:
    return {found.proxy: found.value for found in score(model, SHAPE, batch=batch(seed=seed), names=[name])}


@EVERY
def test_its_entry_is_complete(name: str) -> None:
    entry = proxy(name)
    assert entry.name == name
    assert all(column.split(".")[0] == name for column in entry.columns)
    assert set(entry.columns.values()) <= {"higher", "lower"}
    assert entry.data in ("none", "images", "labelled images")
    assert entry.source
    assert entry.function.__doc__
    assert "Source:" in entry.function.__doc__


@EVERY
def test_it_gives_a_finite_value_for_every_column(name: str) -> None:
    found = values(small_model(FORMULAS["softmax"]), name)
    assert tuple(found) == tuple(proxy(name).columns)
    assert all(value is not None and math.isfinite(value) for value in found.values())


@EVERY
@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_bit_equal_afterwards(name: str, training: bool) -> None:
    model = small_model(FORMULAS["softmax"])
    model.blocks[1].attn.proj.weight.requires_grad_(False)
    model.register_buffer("counts", torch.tensor([-1.0, 2.0]))
    model.head.weight.grad = torch.full_like(model.head.weight, 3.0)
    model.train(training)
    model.blocks[0].mlp.eval()
    state = {key: value.clone() for key, value in model.state_dict().items()}
    flags = [
        (module.training, len(module._forward_hooks), len(module._forward_pre_hooks)) for module in model.modules()
    ]
    grads = [(parameter.requires_grad, parameter.grad is None) for parameter in model.parameters()]
    places = [parameter.data_ptr() for parameter in model.parameters()]
    values(model, name)
    assert model.state_dict().keys() == state.keys()
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert flags == [(m.training, len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    assert grads == [(parameter.requires_grad, parameter.grad is None) for parameter in model.parameters()]
    assert torch.equal(model.head.weight.grad, torch.full_like(model.head.weight, 3.0))
    assert places == [parameter.data_ptr() for parameter in model.parameters()]


@EVERY
def test_it_follows_from_weights_and_batch_and_draws_nothing(name: str) -> None:
    assert proxy(name).deterministic
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = values(small_model(FORMULAS["l2norm"]), name)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert values(small_model(FORMULAS["l2norm"]), name) == first
    if not set(first) <= COUNTS:
        assert values(small_model(FORMULAS["l2norm"], seed=1), name) != first


@EVERY
def test_it_depends_on_data_exactly_if_it_says_so(name: str) -> None:
    model = small_model(FORMULAS["softmax"])
    same = values(model, name, seed=0) == values(model, name, seed=1)
    assert same == (proxy(name).data == "none")


@EVERY
def test_it_does_not_mind_training_mode_or_frozen_parameters(name: str) -> None:
    model = small_model(FORMULAS["softmax"]).eval()
    expected = values(model, name)
    for block in model.blocks:
        block.drop_path1 = nn.Dropout(0.9)
    model.train().requires_grad_(False)
    assert values(model, name) == expected


@EVERY
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_not_finite_is_an_outcome(name: str, bad: float) -> None:
    def graph(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q + k + v) * bad

    model = seeded(0, lambda: SMALL.build(graph))
    found = score(model, SHAPE, batch=batch(), names=[name])
    assert [one.proxy for one in found] == list(proxy(name).columns)
    assert all((one.value, one.status) == (None, "nonfinite") for one in found if one.proxy not in COUNTS)
    assert all(one.status == "ok" for one in found if one.proxy in COUNTS)


@EVERY
def test_a_constant_network_is_scored_too(name: str) -> None:
    model = small_model("zeros(v)")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    found = values(model, name)
    # Patterns that are all one, Jacobians and kernels of zeros, features without variance: logarithms of 0, and 0 / 0.
    undefined = {"naswot", "jacob_cov", "te_nas.ntk_cond", "az_nas.expressivity", "az_nas.trainability"}
    assert {column for column, value in found.items() if value is None} == undefined & set(found)
    expected = {"te_nas.regions": 1.0}
    assert all(found[column] == expected.get(column, 0.0) for column in set(found) - undefined - COUNTS)


@EVERY
def test_a_stateful_graph_can_be_scored(name: str) -> None:
    model = small_model("batchnorm(q) @ (k.T @ v)")
    found = values(model, name)
    assert all(value is not None for value in found.values())
    assert found == values(model, name)
    assert all(is_lazy(buffer) for at, buffer in model.named_buffers() if "running" in at)  # as it was: without input


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_of_model_is_scored_by_every_proxy(kind: str) -> None:
    images = torch.randn(4, *shape_of(kind), generator=torch.Generator().manual_seed(0))
    found = score(model_of(kind), shape_of(kind), batch=Split(images, torch.arange(4)))
    assert [one.proxy for one in found] == [column for entry in PROXIES.values() for column in entry.columns]
    assert [one.proxy for one in found if one.status != "ok"] == []


@EVERY
def test_in_float32_it_is_nearly_the_same(name: str) -> None:
    model = small_model(FORMULAS["softmax"])
    expected = values(model, name)
    seen = []
    model.register_forward_pre_hook(lambda module, _: seen.append(next(module.parameters()).dtype))
    found = score(model, SHAPE, batch=batch(), names=[name], dtype=torch.float32)
    assert {one.proxy: one.value for one in found} == pytest.approx(expected, rel=1e-3)
    if not set(expected) <= COUNTS:
        assert torch.float64 not in seen


class WithoutAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(54, 10)

    def get_classifier(self) -> nn.Module:
        return self.head

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(images.flatten(1))


@EVERY
def test_a_model_without_attention_is_refused(name: str) -> None:
    model = WithoutAttention()
    if name in COUNTS:
        assert values(model, name) == {name: 550.0 if name == "params" else 540.0}
    else:
        with pytest.raises(ValueError, match=r"WithoutAttention has no (attention layers|MLP), .*pass a vision trans"):
            values(model, name)


@pytest.mark.parametrize("name", [name for name in PROXIES if name not in {*COUNTS, "naswot"}])  # it sees no layers
def test_a_layer_of_an_unknown_role_is_refused(name: str) -> None:
    model = small_model(FORMULAS["v"])
    model.blocks[1].extra = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"layer 'blocks\.1\.extra' of VisionTransformer has no role among"):
        values(model, name)


@pytest.mark.parametrize("graph", named_graphs().values(), ids=named_graphs())
def test_every_named_graph_has_an_outcome_of_every_proxy(graph: Graph) -> None:
    model = seeded(0, lambda: replace(SMALL, depth=1).build(compile_graph(graph)))
    found = score(model, SHAPE, batch=batch(3))
    assert [one.proxy for one in found] == [column for entry in PROXIES.values() for column in entry.columns]
    assert all((one.value is None) == (one.status == "nonfinite") and one.seconds > 0 for one in found)


def test_names_of_columns_are_unique_and_fit_the_table() -> None:
    columns = [column for entry in PROXIES.values() for column in entry.columns]
    assert len(set(columns)) == len(columns)
    meaning = next(column.meaning for column in TABLES["proxies"].columns if column.name == "proxy")
    assert "dss.qkv" in meaning
    assert "dss.qkv" in columns


@pytest.mark.parametrize("name", DATA_FREE)
def test_without_data_no_batch_is_needed(name: str) -> None:
    assert score(small_model("v"), SHAPE, names=[name])[0].status == "ok"


def test_a_proxy_that_needs_data_says_so() -> None:
    with pytest.raises(ValueError, match="proxy 'snip' needs labelled images, but no batch was given; pass batch="):
        score(small_model("v"), SHAPE, names=["snip"])


def test_an_unknown_proxy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown proxy 'tea'; known: dss, snip, grasp, naswot, te_nas, synflow"):
        proxy("tea")


def labelled(counts: list[int]) -> Split:
    labels = torch.cat([torch.full((n,), label) for label, n in enumerate(counts)])
    return Split(torch.arange(len(labels)).float().view(-1, 1, 1, 1), labels)


def test_the_batch_is_balanced_and_fixed_by_its_seed() -> None:
    split = labelled([20] * 10)
    drawn = balanced_batch(split)
    assert len(drawn) == 32
    assert torch.bincount(drawn.labels).tolist() == [4, 4] + [3] * 8
    assert drawn.images.unique().numel() == 32
    assert torch.equal(split.labels[drawn.images.flatten().long()], drawn.labels)
    assert torch.equal(balanced_batch(split).images, drawn.images)
    assert not torch.equal(balanced_batch(split, seed=1).images, drawn.images)


def test_a_class_with_too_few_images_is_named() -> None:
    with pytest.raises(ValueError, match="7 images of 3 classes take up to 3 of each; the rarest has 2"):
        balanced_batch(labelled([9, 2, 9]), n=7)


@pytest.mark.parametrize(
    ("one", "two"),
    [("q @ (k.T @ v)", "(q @ k.T) @ v"), ("q * -(-mean(v, axis=-2))", "q * mean(v, axis=-2)")],
)
def test_equal_functions_score_alike(one: str, two: str) -> None:
    first, second = (score(small_model(text), SHAPE, batch=batch()) for text in (one, two))
    assert [a.value for a in first] == pytest.approx([b.value for b in second], rel=1e-7)


@pytest.mark.parametrize(
    "wrong",
    [
        Split(torch.zeros(0, *SHAPE), torch.zeros(0, dtype=torch.int64)),
        Split(torch.zeros(2, *SHAPE), torch.zeros(3, dtype=torch.int64)),
        Split(torch.zeros(2, *SHAPE[1:]), torch.zeros(2, dtype=torch.int64)),
    ],
)
def test_a_batch_that_is_none_of_such_images_is_refused(wrong: Split) -> None:
    with pytest.raises(
        ValueError, match=r"the batch has images \([\d, ]+\) and \d labels; expected one or more images of"
    ):
        score(small_model("v"), SHAPE, batch=wrong, names=["naswot"])


@pytest.mark.parametrize("label", [-1, 10])
def test_a_label_that_is_no_class_is_refused(label: int) -> None:
    wrong = Split(torch.zeros(2, *SHAPE), torch.tensor([0, label]))
    with pytest.raises(ValueError, match=r"the batch has labels from -?\d to \d+; this model has the classes 0 to 9"):
        score(small_model("v"), SHAPE, batch=wrong, names=["snip"])


@pytest.mark.parametrize("name", ["jacob_cov", "te_nas"])
def test_one_image_has_none_to_be_compared_with(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} compares images: expected two or more, got 1"):
        score(small_model("v"), SHAPE, batch=batch(1), names=[name])


def test_one_name_may_be_given_by_itself() -> None:
    assert [found.proxy for found in score(small_model("v"), SHAPE, names="synflow")] == ["synflow"]


@pytest.mark.parametrize("dtype", ["float32", torch.float16])
def test_another_precision_is_refused(dtype: object) -> None:
    with pytest.raises(ValueError, match=r"dtype is .*float.*; proxies compute in torch.float64 or torch.float32"):
        score(small_model("v"), SHAPE, names=["params"], dtype=dtype)


def test_a_model_without_parameters_is_refused() -> None:
    with pytest.raises(ValueError, match="Flatten has no parameters; proxies score the weights of a network"):
        score(nn.Flatten(), SHAPE, names=["synflow"])


@pytest.mark.parametrize(("n", "n_images"), [(0, 6), (-1, 6), (4, 0)])
def test_no_images_can_be_drawn(n: int, n_images: int) -> None:
    split = Split(torch.zeros(n_images, *SHAPE), torch.arange(n_images))
    with pytest.raises(ValueError, match=f"cannot draw {n} of {n_images} images; expected a number from 1"):
        balanced_batch(split, n)
