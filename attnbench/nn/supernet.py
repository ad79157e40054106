"""Supernets: the weights of every subnet of an AutoFormer space, entangled or, as the control, apart."""

from __future__ import annotations

import copy
from abc import abstractmethod
from functools import cached_property, lru_cache

import torch
from torch import Tensor, nn
from torch.func import functional_call

from attnbench.nn.backbones import seeded
from attnbench.nn.subnet import AutoFormer, Block
from attnbench.space.subnet import AutoFormerSubnet, number
from attnbench.space.subnet_cost import Frame
from attnbench.space.subnet_spaces import AutoFormerSpace, require_in

# The name of a supernet's parameter, and the entries of it along every axis that a subnet takes.
Place = tuple[str, tuple[slice, ...]]


class Supernet(nn.Module):
    """Weights of all subnets of `space`; a call names the subnet that runs: `supernet(images, subnet)`.

    The subnet runs as the stand-alone network does, on the supernet's weights, which get the gradients.
    """

    def __init__(self, space: AutoFormerSpace):
        super().__init__()
        self.space = space

    @abstractmethod
    def places(self, subnet: AutoFormerSubnet) -> dict[str, Place]:
        """Where each parameter of the subnet lies, by its name in the stand-alone network."""

    @cached_property
    def owned(self) -> dict[str, nn.Parameter]:
        """The supernet's own parameters by name."""
        return dict(self.named_parameters())

    def weights(self, subnet: AutoFormerSubnet) -> dict[str, Tensor]:
        """The subnet's parameters by their names in the stand-alone network, as views of the supernet's."""
        return {name: self.owned[owner][part] for name, (owner, part) in self.places(subnet).items()}

    def forward(self, images: Tensor, subnet: AutoFormerSubnet) -> Tensor:
        """Images to logits (B, classes). Raises: InvalidSubnet for a subnet outside the space."""
        return self.run(images, subnet, self.weights(subnet))

    def run(self, images: Tensor, subnet: AutoFormerSubnet, weights: dict[str, Tensor]) -> Tensor:
        """As `forward`, with other tensors in the place of `self.weights(subnet)`."""
        buffers = dict(self.stem.named_buffers())
        return functional_call(_skeleton(subnet, self.space.frame), (weights, buffers), (images,))

    def extract(self, subnet: AutoFormerSubnet) -> AutoFormer:
        """A stand-alone network with copies of the subnet's weights, on the supernet's device.

        Raises: InvalidSubnet for a subnet outside the space.
        """
        weights = self.weights(subnet)
        network = AutoFormer(subnet, self.space.frame).to(next(iter(weights.values())))
        network.load_state_dict(weights)
        return network

    @property
    @abstractmethod
    def stem(self) -> AutoFormer:
        """A network of the supernet's own, for the tables of places that all subnets share."""


class EntangledSupernet(Supernet):
    """Weight entanglement: one largest network; a subnet takes the first rows and columns of each of its tensors.

    Layers beyond the subnet's depth are left out. q, k and v are tensors of their own, so a coordinate that two
    subnets share has one role in both; the released code slices a fused bias across the roles instead.
    Source: AutoFormer, Chen et al. 2021, section 3.2.
    """

    def __init__(self, space: AutoFormerSpace):
        super().__init__(space)
        self.largest = AutoFormer(space.largest, space.frame)

    @property
    def stem(self) -> AutoFormer:
        return self.largest

    def places(self, subnet: AutoFormerSubnet) -> dict[str, Place]:
        """As in the base class. Raises: InvalidSubnet for a subnet outside the space."""
        require_in(self.space, subnet)
        shapes = _shapes(subnet, self.space.frame)
        return {name: (f"largest.{name}", tuple(map(slice, shape))) for name, shape in shapes.items()}


class ClassicalSupernet(Supernet):
    """Classical sharing: every candidate block of a layer owns its weights, and so does every width its stem and head.

    A block is told apart by layer, width, heads and MLP ratio. The control of AutoFormer's ablation.
    Source: SPOS, Guo et al. 2020; AutoFormer, Chen et al. 2021, table 1.
    """

    def __init__(self, space: AutoFormerSpace):
        super().__init__(space)
        self.stems = nn.ModuleDict()
        self.blocks = nn.ModuleDict()
        for width in space.embed_dims:
            for heads in space.heads:
                for ratio in space.mlp_ratios:
                    depth = max(space.depths)
                    net = AutoFormer(
                        AutoFormerSubnet(width, (heads,) * depth, (ratio,) * depth, space.head_dim), space.frame
                    )
                    for layer, block in enumerate(net.blocks):
                        self.blocks[_block_name(layer, width, heads, ratio)] = block
            net.blocks = nn.ModuleList()
            self.stems[str(width)] = net

    @property
    def stem(self) -> AutoFormer:
        return self.stems[str(self.space.embed_dims[0])]  # type: ignore[return-value]

    def places(self, subnet: AutoFormerSubnet) -> dict[str, Place]:
        """As in the base class. Raises: InvalidSubnet for a subnet outside the space."""
        require_in(self.space, subnet)
        layers = zip(subnet.heads, subnet.mlp_ratios, strict=True)
        blocks = [_block_name(i, subnet.embed_dim, heads, ratio) for i, (heads, ratio) in enumerate(layers)]
        places: dict[str, Place] = {}
        for name, shape in _shapes(subnet, self.space.frame).items():
            _, layer, rest = name.split(".", 2) if name.startswith("blocks.") else ("", "", "")
            owner = f"blocks.{blocks[int(layer)]}.{rest}" if layer else f"stems.{subnet.embed_dim}.{name}"
            places[name] = owner, tuple(map(slice, shape))
        return places


SHARINGS: dict[str, type[EntangledSupernet] | type[ClassicalSupernet]] = {
    "entangled": EntangledSupernet,
    "classical": ClassicalSupernet,
}


def build_supernet(space: AutoFormerSpace, seed: int, *, sharing: str = "entangled") -> Supernet:
    """A supernet on the CPU with fresh weights. Raises: ValueError (another sharing; a space of another family)."""
    if sharing not in SHARINGS:
        raise ValueError(f"unknown sharing {sharing!r}; known: {', '.join(SHARINGS)}.")
    if not isinstance(space, AutoFormerSpace):
        raise ValueError(f"supernets are of AutoFormer spaces, got {getattr(space, 'name', space)!r}.")
    return seeded(seed, lambda: SHARINGS[sharing](space))


def _block_name(layer: int, width: int, heads: int, ratio: float) -> str:
    return f"{layer}-{width}-{heads}-{number(float(ratio))}".replace(".", "_")  # a dot would nest the module


@lru_cache(maxsize=64)
def _skeleton(subnet: AutoFormerSubnet, frame: Frame) -> AutoFormer:
    """The stand-alone network without memory for its tensors, to be called with others.

    Put together from parts that are kept: making all its modules anew would take as long as a small net's step.
    """
    net = copy.copy(_stem(subnet.embed_dim, subnet.head_dim, frame))
    blocks = [
        _block(layer, subnet.embed_dim, heads, subnet.head_dim, hidden, frame.max_distance)
        for layer, (heads, hidden) in enumerate(zip(subnet.heads, subnet.hidden_dims, strict=True))
    ]
    net._modules = net._modules | {"blocks": nn.ModuleList(blocks)}
    return net


@lru_cache(maxsize=64)
def _stem(width: int, head_dim: int, frame: Frame) -> AutoFormer:
    """A network of one block that nobody runs."""
    with torch.device("meta"):
        return AutoFormer(AutoFormerSubnet(width, (1,), (1,), head_dim), frame)


@lru_cache(maxsize=1024)
def _block(layer: int, width: int, heads: int, head_dim: int, hidden: int, max_distance: int | None) -> Block:
    """A block for one layer: a module that stood in two layers could have only one layer's tensors at a time."""
    with torch.device("meta"):
        return Block(width, heads, head_dim, hidden, eps=1e-5, max_distance=max_distance)


@lru_cache(maxsize=64)
def _shapes(subnet: AutoFormerSubnet, frame: Frame) -> dict[str, torch.Size]:
    """Shape of every parameter of the stand-alone network."""
    return {name: parameter.shape for name, parameter in _skeleton(subnet, frame).named_parameters()}
