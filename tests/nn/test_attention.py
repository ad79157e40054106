"""The frame around a graph."""

import math

import pytest
import torch
from torch import nn

from attnbench.nn.attention import FrameAttention, Grid


def softmax(q, k, v):
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v


def plain_frame(module, graph, x):
    """The frame as its formula says, without any of the module's shortcuts."""
    batch, _, width = x.shape
    rows, cols, prefix = module.grid.rows, module.grid.cols, module.grid.prefix
    q, k, v = module.qkv(x).chunk(3, dim=-1)
    out = graph(*(part.unflatten(-1, (module.n_heads, -1)).transpose(1, 2) for part in (q, k, v)))
    out = out.transpose(1, 2).reshape(x.shape)
    if module.local is not None:
        image = v[:, prefix:].transpose(1, 2).reshape(batch, width, rows, cols)
        conv = module.local(image).flatten(2).transpose(1, 2)
        out = torch.cat([out[:, :prefix], out[:, prefix:] + conv], dim=1)
    return module.proj(out)


@pytest.mark.parametrize("grid", [Grid(4, 4, prefix=1), Grid(2, 6, prefix=0), Grid(5, 3, prefix=2), Grid(1, 7)])
@pytest.mark.parametrize("local", [True, False])
def test_frame_and_its_gradients_agree_with_the_formula(grid, local):
    torch.manual_seed(0)
    module = FrameAttention(12, 3, softmax, grid, local=local).double()
    x = torch.randn(2, grid.n_tokens, 12, dtype=torch.float64, requires_grad=True)
    grads = []
    for out in (module(x), plain_frame(module, softmax, x)):
        module.zero_grad()
        grads.append([out, *torch.autograd.grad(out.square().sum(), [x, *module.parameters()])])
    for ours, plain in zip(*grads, strict=True):
        torch.testing.assert_close(ours, plain)


def test_inputs_that_a_graph_ignores_get_gradient_zero():
    module = FrameAttention(8, 2, lambda q, k, v: v, Grid(2, 2))
    module(torch.randn(3, 4, 8)).sum().backward()
    q, k, v = module.qkv.weight.grad.chunk(3)
    assert q.eq(0).all()
    assert k.eq(0).all()
    assert v.abs().sum() > 0


def test_graph_sees_contiguous_heads():
    shapes = []

    def graph(q, k, v):
        shapes.extend((x.shape, x.is_contiguous()) for x in (q, k, v))
        return v

    FrameAttention(8, 2, graph, Grid(2, 3, prefix=1))(torch.randn(5, 7, 8))
    assert shapes == [((5, 2, 7, 4), True)] * 3


def test_width_must_split_into_heads():
    with pytest.raises(ValueError, match="width 10 does not split into 4 heads; use a width that is a multiple"):
        FrameAttention(10, 4, softmax, Grid(2, 2))


def test_number_of_tokens_must_fit_the_grid():
    with pytest.raises(ValueError, match=r"got 9 tokens but was built for 7 \(Grid\(rows=2, cols=3, prefix=1\)\)"):
        FrameAttention(8, 2, softmax, Grid(2, 3, prefix=1))(torch.randn(1, 9, 8))


def test_graph_must_keep_the_shape():
    with pytest.raises(ValueError, match=r"returned shape \(1, 2, 1, 4\) for q, k, v of \(1, 2, 4, 4\)"):
        FrameAttention(8, 2, lambda q, k, v: nn.functional.adaptive_avg_pool2d(v, (1, 4)), Grid(2, 2))(
            torch.randn(1, 4, 8)
        )


def mixer(q, k, v):
    return q @ torch.softmax(k.mT @ v, -1)


@pytest.mark.parametrize("graph", [mixer, lambda q, k, v: q], ids=["all three", "q alone"])
def test_gradients_of_single_samples_by_vmap_are_those_of_a_loop(graph):
    torch.manual_seed(0)
    module = FrameAttention(6, 2, graph, Grid(2, 3, prefix=1)).double()
    weights = dict(module.named_parameters())
    x = torch.randn(3, 7, 6, dtype=torch.float64)

    def output(weights, sample):
        return torch.func.functional_call(module, weights, (sample[None],)).square().sum()

    together = torch.func.vmap(torch.func.grad(output), (None, 0))(weights, x)
    for i, sample in enumerate(x):
        alone = torch.autograd.grad(module(sample[None]).square().sum(), list(weights.values()))
        for name, grad in zip(weights, alone, strict=True):
            torch.testing.assert_close(together[name][i], grad)


def test_gradients_of_gradients_are_right():
    torch.manual_seed(0)
    module = FrameAttention(4, 2, mixer, Grid(1, 2, prefix=1)).double()
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(module, x)
