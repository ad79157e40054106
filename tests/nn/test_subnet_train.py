"""Single subnets: from scratch, and on from inherited weights."""

from dataclasses import replace

import pytest
import torch

from attnbench.errors import InvalidSubnet
from attnbench.nn.data import Split, Splits
from attnbench.nn.protocol import protocol
from attnbench.nn.subnet_train import inherit_and_retrain, train_subnet
from attnbench.nn.supernet import build_supernet
from attnbench.nn.train import evaluate
from attnbench.space.subnet_named import SPACES

MICRO = SPACES["autoformer-micro"]
RECIPE = replace(protocol("micro-scratch"), epochs=3, batch_size=20, floor_top1_percent=0.0)


def random_split(n, seed):
    labels = torch.arange(n) % 10
    images = torch.randn(n, 1, 28, 28, generator=torch.Generator().manual_seed(seed))
    images[torch.arange(n), 0, labels] += 6.0
    return Split(images, labels)


@pytest.fixture(scope="module")
def data():
    return Splits(train=random_split(200, 0), val=random_split(100, 1), test=random_split(100, 2))


def test_a_subnet_is_trained_as_a_graph_is(data):
    run = train_subnet(MICRO.smallest, "autoformer-micro", RECIPE, 0, data)
    again = train_subnet(MICRO.smallest, "autoformer-micro", RECIPE, 0, data)
    other = train_subnet(MICRO.smallest, "autoformer-micro", RECIPE, 1, data)
    assert run.status == "ok"
    assert len(run.val_curve) == 3
    assert run.val_loss_curve[-1] < run.val_loss_curve[0]
    assert run.test_top1_percent is not None
    assert run.train_loss_curve == again.train_loss_curve != other.train_loss_curve


def test_the_micro_recipe_is_that_of_attention_graphs():
    scratch, graphs = protocol("micro-scratch"), protocol("fmnist-micro")
    assert replace(scratch, name="fmnist-micro") == graphs
    for sharing in ("entangled", "classical"):
        supernet = protocol(f"micro-{sharing}")
        assert supernet.epochs == 30
        assert (supernet.batch_size, supernet.n_train_per_class) == (graphs.batch_size, graphs.n_train_per_class)


def test_inherited_weights_are_evaluated_then_trained_on_and_the_supernet_stays(data):
    supernet = build_supernet(MICRO, 0)
    before = {name: tensor.clone() for name, tensor in supernet.state_dict().items()}
    still = replace(RECIPE, epochs=1, learning_rate=0.0)
    found = inherit_and_retrain(supernet, MICRO.smallest, still, RECIPE, 0, data)
    assert found.inherited == evaluate(supernet.extract(MICRO.smallest), data.val)
    assert (found.fine_tuned.val_top1_percent, found.fine_tuned.val_loss) == found.inherited
    assert found.retrained.val_loss_curve == train_subnet(MICRO.smallest, MICRO.name, RECIPE, 0, data).val_loss_curve
    assert all(torch.equal(tensor, before[name]) for name, tensor in supernet.state_dict().items())


def test_what_does_not_fit_is_refused(data):
    with pytest.raises(ValueError, match="subnets are trained in their space, got 'deit'; known: autoformer-tiny"):
        train_subnet(MICRO.smallest, "deit", RECIPE, 0, data)
    with pytest.raises(InvalidSubnet, match="not in the space autoformer-micro: embed_dim is 30"):
        train_subnet(replace(MICRO.smallest, embed_dim=30), MICRO.name, RECIPE, 0, data)
    with pytest.raises(ValueError, match="micro-entangled trains a supernet, not single subnets"):
        train_subnet(MICRO.smallest, MICRO.name, protocol("micro-entangled"), 0, data)
