"""Supernets: the weights of every subnet of an AutoFormer space, entangled or, as the control, apart."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.func import functional_call

from attnbench.nn.backbones import seeded
from attnbench.nn.subnet import AutoFormer
from attnbench.space.subnet import AutoFormerSubnet, number
from attnbench.space.subnet_cost import Frame
from attnbench.space.subnet_spaces import AutoFormerSpace, require_in


class Supernet(nn.Module):
    """Weights of all subnets of `space`; a call names the subnet that runs: `supernet(images, subnet)`.

    The subnet runs as the stand-alone network does, on the supernet's weights, which get the gradients.
    """

    def __init__(self, space: AutoFormerSpace):
        super().__init__()
        self.space = space

    @abstractmethod
    def weights(self, subnet: AutoFormerSubnet) -> dict[str, Tensor]:
        """The subnet's parameters by their names in the stand-alone network, as views of the supernet's."""

    def forward(self, images: Tensor, subnet: AutoFormerSubnet) -> Tensor:
        """Images to logits (B, classes). Raises: InvalidSubnet for a subnet outside the space."""
        require_in(self.space, subnet)
        return functional_call(
            _skeleton(subnet, self.space.frame), (self.weights(subnet), dict(self.stem.named_buffers())), (images,)
        )

    def extract(self, subnet: AutoFormerSubnet) -> AutoFormer:
        """A stand-alone network with copies of the subnet's weights, on the supernet's device.

        Raises: InvalidSubnet for a subnet outside the space.
        """
        require_in(self.space, subnet)
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

    def weights(self, subnet: AutoFormerSubnet) -> dict[str, Tensor]:
        whole = dict(self.largest.named_parameters())
        return {name: whole[name][prefix] for name, prefix in _prefixes(subnet, self.space.frame).items()}


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

    def weights(self, subnet: AutoFormerSubnet) -> dict[str, Tensor]:
        weights: dict[str, Tensor] = dict(self.stems[str(subnet.embed_dim)].named_parameters())
        for layer, (heads, ratio) in enumerate(zip(subnet.heads, subnet.mlp_ratios, strict=True)):
            block = self.blocks[_block_name(layer, subnet.embed_dim, heads, ratio)]
            weights |= {f"blocks.{layer}.{name}": parameter for name, parameter in block.named_parameters()}
        return weights


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
    """The stand-alone network without memory for its tensors, to be called with others."""
    with torch.device("meta"):
        return AutoFormer(subnet, frame)


@lru_cache(maxsize=64)
def _prefixes(subnet: AutoFormerSubnet, frame: Frame) -> dict[str, tuple[slice, ...]]:
    """The part of the largest network's tensors that a subnet uses: the first entries along every axis."""
    shapes = {name: parameter.shape for name, parameter in _skeleton(subnet, frame).named_parameters()}
    return {name: tuple(slice(n) for n in shape) for name, shape in shapes.items()}
