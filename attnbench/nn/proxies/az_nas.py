"""AZ-NAS: what features can express, whether gradients pass, and what it costs."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnbench.nn.cost import count_macs
from attnbench.nn.proxies.layers import input_layers, layers_by_role, mlp_layers, projections
from attnbench.nn.proxies.passes import standalone


def az_nas(
    model: nn.Module,
    image_shape: tuple[int, int, int],
    *,
    n_images: int = 32,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> dict[str, float]:
    """The three terms of AZ-NAS for transformers, whose logarithmic ranks it adds; that is left to analysis.

    All are better if larger. Features are what stands on the residual path after every attention and every MLP, for
    `n_images` of noise drawn from a normal distribution; that noise and random signs come from a generator of `seed`.
    az_nas.expressivity: the entropy of the features' normalised principal components, summed over features.
    az_nas.trainability: 2 - s - 1 / (s + 1e-6), the mean over steps from one feature to the next, with s the largest
    singular value of the correlation, over tokens and images, of gradients ±1 of the one and those that they induce in
    the other. Between stages the step starts behind the layer that merges patches, where the released code rearranges
    gradients by pixels. Steps that pass every gradient unchanged are left out; NaN where there are no others.
    az_nas.complexity: multiply-adds of one image.
    The weights are the model's own, and the fourth term, progressivity, is not for transformers; both as released.
    Raises: ValueError (see `layers_by_role`; blocks that are not pre-norm).
    Source: Lee and Ham 2024, "AZ-NAS: assembling zero-cost proxies for network architecture search", its AutoFormer
    code.
    """
    net = standalone(model, dtype)
    layers_by_role(net)
    net.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(n_images, *image_shape, generator=generator, dtype=torch.float64)
    observed = Observed(generator)
    observe(net, observed)
    net(noise.to(next(net.parameters())))
    scores = [2 - s - 1 / (s + 1e-6) for s in observed.singular_values]
    return {
        "az_nas.expressivity": sum(observed.entropies),
        "az_nas.trainability": sum(scores) / len(scores) if scores else float("nan"),
        "az_nas.complexity": float(count_macs(model, image_shape)),
    }


class Observed:
    """What hooks note of blocks as they run, each cut off from what is in front so that its graph can go."""

    def __init__(self, generator: torch.Generator):
        self.generator = generator
        self.entropies: list[float] = []
        self.singular_values: list[float] = []
        # Of the block that runs: what it got, what is on the residual path between its branches, and that after norm2.
        self.block_input: Tensor
        self.middle: Tensor
        self.normed: Tensor | None = None

    def enter_block(self, _: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        self.block_input = inputs[0].detach().requires_grad_()
        return (self.block_input, *inputs[1:])

    def enter_norm(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self.middle = inputs[0]

    def leave_norm(self, _: nn.Module, inputs: Any, output: Tensor) -> None:
        self.normed = output

    def enter_mlp(self, block: str, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs[0] is not self.normed:
            raise ValueError(
                f"block {block!r} does not hand norm2 to its MLP; az_nas needs pre-norm blocks, x + mlp(norm2(x))."
            )

    def leave_block(self, _: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        steps = [(self.middle, output)]
        if self.entropies:  # in front of the first attention there is no feature
            steps.append((self.block_input, self.middle))
        for before, after in steps:
            self.singular_values += self.singular_value(before, after)
        self.entropies += [entropy(self.middle), entropy(output)]
        self.normed = None
        return output.detach()

    def singular_value(self, before: Tensor, after: Tensor) -> list[float]:
        """The one of the step, or none if it passes gradients unchanged."""
        signs = torch.randint(0, 2, after.shape, generator=self.generator).to(after) * 2 - 1
        (induced,) = torch.autograd.grad(after, before, signs)
        if torch.equal(induced, signs.view_as(induced)):
            return []
        rows, columns = induced.flatten(0, -2), signs.flatten(0, -2)
        correlation = (rows.T @ columns).double() / len(rows)
        finite = correlation.isfinite().all()
        return [torch.linalg.matrix_norm(correlation, 2).item() if finite else float("nan")]


def observe(net: nn.Module, observed: Observed) -> None:
    """Hook every pre-norm block. Raises: ValueError where an attention stands outside of one."""
    found = 0
    for name, block in net.named_modules():
        mlps = [child for child in block.children() if mlp_layers(child)]
        norm = getattr(block, "norm2", None)
        if mlps and norm is not None and any(map(input_layers, block.children())):
            found += 1
            block.register_forward_pre_hook(observed.enter_block)
            norm.register_forward_pre_hook(observed.enter_norm)
            norm.register_forward_hook(observed.leave_norm)
            mlps[0].register_forward_pre_hook(partial(observed.enter_mlp, name))
            block.register_forward_hook(observed.leave_block)
    n_attentions = len(projections(net))
    if found != n_attentions:
        raise ValueError(
            f"{type(net).__name__} has {found} pre-norm blocks, modules with an attention, norm2 and an MLP, for "
            f"{n_attentions} attentions; az_nas needs one for each."
        )


@torch.no_grad()
def entropy(feature: Tensor) -> float:
    """The entropy of the normalised eigenvalues of the covariance of channels, the last axis, over all others."""
    rows = feature.flatten(0, -2)
    rows = rows - rows.mean(0)
    covariance = (rows.T @ rows).double() / len(rows)
    if not covariance.isfinite().all():
        return float("nan")
    eigenvalues = torch.linalg.eigvalsh(covariance).clamp(min=0)
    shares = eigenvalues / eigenvalues.sum()
    return -(shares * (shares + 1e-8).log()).sum().item()
