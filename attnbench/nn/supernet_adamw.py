"""AdamW over shared weights: a step moves the sampled subnet's weights and leaves all others as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from attnbench.nn.protocol import Protocol
from attnbench.nn.supernet import Supernet
from attnbench.nn.train import decays
from attnbench.space.subnet import AutoFormerSubnet

STATE = ("moments", "squares", "counts")


class SharedAdamW:
    """AdamW with clipping of the subnet's gradient norm, each weight counting the steps in which it took part.

    A weight outside the sampled subnet keeps its value, its two moments and its count: nothing decays or goes on.
    Of one subnet alone it is torch.optim.AdamW. Weights and state lie in flat buffers; the supernet's parameters
    become views of them.
    """

    def __init__(self, supernet: Supernet, recipe: Protocol):
        self.supernet, self.recipe = supernet, recipe
        self.values = torch.cat([parameter.detach().flatten() for parameter in supernet.owned.values()])
        self.moments, self.squares, self.counts = (torch.zeros_like(self.values) for _ in STATE)
        self.decay = torch.zeros_like(self.values)
        # int32 halves what the largest spaces need; a supernet has fewer weights than that can count.
        numbers = torch.arange(len(self.values), dtype=torch.int32, device=self.values.device)
        self.numbers: dict[str, Tensor] = {}
        start = 0
        for name, parameter in supernet.owned.items():
            place = slice(start, start := start + parameter.numel())
            parameter.data = self.values[place].view_as(parameter)
            self.numbers[name] = numbers[place].view_as(parameter)
            if decays(name, parameter):
                self.decay[place] = recipe.weight_decay

    def take(self, subnet: AutoFormerSubnet) -> SubnetWeights:
        """Copies of the subnet's weights, to be trained by one backward pass and one `step`.

        Raises: InvalidSubnet for a subnet outside the space.
        """
        parts = {name: self.numbers[owner][part] for name, (owner, part) in self.supernet.places(subnet).items()}
        return SubnetWeights(torch.cat([part.flatten() for part in parts.values()]), parts, self.values)

    def step(self, taken: SubnetWeights, learning_rate: float) -> None:
        """Clip the gradients of the taken weights, update these, and put them back."""
        recipe, (beta1, beta2), places = self.recipe, self.recipe.betas, taken.places
        grads = taken.grads.mul_((recipe.clip_norm / (taken.grads.norm() + 1e-6)).clamp(max=1.0))
        moments = self.moments[places].lerp_(grads, 1 - beta1)
        squares = self.squares[places].mul_(beta2).addcmul_(grads, grads, value=1 - beta2)
        counts = self.counts[places].add_(1)
        # 1 - beta^count; through expm1, since in float32 the power of a number near 1 says little about its distance.
        bias1, bias2 = (torch.expm1(counts * math.log(beta)).neg_() for beta in (beta1, beta2))
        values = taken.values.mul_(1 - learning_rate * self.decay[places])
        values.addcdiv_(moments / bias1, (squares / bias2).sqrt_().add_(recipe.eps), value=-learning_rate)
        for whole, part in zip((self.values, *self.state.values()), (values, moments, squares, counts), strict=True):
            whole[places] = part

    @property
    def state(self) -> dict[str, Tensor]:
        """Moments and counts of all weights, as a checkpoint keeps them."""
        return {name: getattr(self, name) for name in STATE}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Takes over what `state` gave."""
        for name, own in self.state.items():
            own.copy_(state[name])


class SubnetWeights:
    """Weights of one subnet as leaves, whose gradients arrive in one flat buffer; `places` are those of the whole."""

    def __init__(self, places: Tensor, parts: Mapping[str, Tensor], values: Tensor):
        self.places, self.values = places, values[places]
        self.grads = torch.zeros_like(self.values)
        self.leaves: dict[str, Tensor] = {}
        start = 0
        for name, part in parts.items():
            place = slice(start, start := start + part.numel())
            leaf = self.values[place].view(part.shape).requires_grad_()
            leaf.grad = self.grads[place].view(part.shape)
            self.leaves[name] = leaf
