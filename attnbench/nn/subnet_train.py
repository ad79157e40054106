"""Training of single subnets: from scratch, and on from the weights that a supernet gives them."""

from __future__ import annotations

from dataclasses import dataclass

from attnbench.nn.data import N_CLASSES, Splits
from attnbench.nn.protocol import Protocol, SupernetProtocol
from attnbench.nn.subnet import build_subnet
from attnbench.nn.supernet import Supernet
from attnbench.nn.train import RunOutcome, evaluate, to_device, train_model
from attnbench.space.subnet import AutoFormerSubnet, Subnet
from attnbench.space.subnet_named import SPACES
from attnbench.space.subnet_spaces import require_in


def train_subnet(
    subnet: Subnet, space_name: str, recipe: Protocol, seed: int, data: Splits, *, device: str = "cpu"
) -> RunOutcome:
    """Train a subnet from scratch and measure it, as `train_run` does for an attention graph.

    Raises: ValueError (an unknown space; a recipe for supernets), InvalidSubnet (a subnet outside the space).
    """
    if space_name not in SPACES:
        raise ValueError(f"subnets are trained in their space, got {space_name!r}; known: {', '.join(SPACES)}.")
    if isinstance(recipe, SupernetProtocol):
        raise ValueError(f"{recipe.name} trains a supernet, not single subnets: python -m builders supernet.")
    space = SPACES[space_name]
    require_in(space, subnet)
    return train_model(build_subnet(subnet, space.frame, seed), recipe, seed, data, device=device)


def require_small_images(space_name: str) -> None:
    """Raises: ValueError where the networks of a space do not take Fashion-MNIST's images."""
    frame = SPACES[space_name].frame if space_name in SPACES else None
    if frame is not None and (frame.image_size, frame.n_channels, frame.n_classes) != (28, 1, N_CLASSES):
        raise ValueError(
            f"networks of {space_name} take images of {frame.image_size} pixels and {frame.n_channels} channels, and "
            "the protocols here train on Fashion-MNIST's, 28 pixels and 1 channel: measure a subnet of a space whose "
            "name ends in -micro."
        )


@dataclass(frozen=True)
class Inheritance:
    """What a subnet reaches with a supernet's weights, after going on from them, and from scratch.

    inherited: validation top-1 in percent and loss, before any training of its own.
    """

    inherited: tuple[float, float]
    fine_tuned: RunOutcome
    retrained: RunOutcome


def inherit_and_retrain(
    supernet: Supernet,
    subnet: AutoFormerSubnet,
    fine_tuning: Protocol,
    retraining: Protocol,
    seed: int,
    data: Splits,
    *,
    device: str = "cpu",
) -> Inheritance:
    """Inherit a subnet's weights, go on from them by one recipe, and train it from scratch by another.

    The supernet stays as it is. Raises: InvalidSubnet (a subnet outside the supernet's space).
    Source: AutoFormer, Chen et al. 2021, its comparison of inherited, fine-tuned and retrained subnets.
    """
    network = supernet.extract(subnet).to(device)
    return Inheritance(
        inherited=evaluate(network, to_device(data.val, device)),
        fine_tuned=train_model(network, fine_tuning, seed, data, device=device),
        retrained=train_subnet(subnet, supernet.space.name, retraining, seed, data, device=device),
    )
