"""Attention formulas with a name: published ones that the language can say, and the controls every claim needs.

Formulas are parameter-free and per head. What a paper adds around its formula (learned temperatures, biases,
positions, projections) is left out; `remark` says so where it matters. AttnZero's published trials stand in
`space/published.py` and are named graphs too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from attnbench.space.graph import Graph
from attnbench.space.parse import parse


@dataclass(frozen=True, slots=True)
class Named:
    """One named formula: `source` is where it was published, `is_control` marks what no attention should lose to."""

    name: str
    formula: str
    source: str
    remark: str = ""
    is_control: bool = False


# FLatten's focused feature map with p = 3: the cubed ReLU, rescaled to the length that ReLU gave.
def _focused(x: str) -> str:
    return f"(l2norm(relu({x}) * relu({x}) * relu({x})) * sqrt(sum(relu({x}) * relu({x}))))"


def _kernel_linear(q: str, k: str) -> str:
    """Linear attention with the feature maps `q` and `k` and its denominator."""
    return f"({q} @ ({k}.T @ v)) / ({q} @ sum({k}, axis=-2).T)"


# ones(N, 1) summed over the tokens: the language has no numbers, and this is N
_N = "sum(exp(zeros(sum(k))), axis=-2)"

# Flowformer: what flows into every query and out of every key, each computed with the other conserved
_INCOMING = "(sigmoid(q) @ sum(sigmoid(k), axis=-2).T)"
_OUTGOING = "(sigmoid(k) @ sum(sigmoid(q), axis=-2).T)"
_ALLOCATION = f"sigmoid(sigmoid(q) @ sum(sigmoid(k) / {_OUTGOING}, axis=-2).T)"
_COMPETITION = f"softmax(sigmoid(k) @ sum(sigmoid(q) / {_INCOMING}, axis=-2).T, axis=-2)"

# d agents, each a weighted mean of the queries
_AGENTS = "(softmax(q, axis=-2).T @ q)"

NAMED: tuple[Named, ...] = (
    Named("softmax", "softmax(q @ k.T / sqrt(d)) @ v", "Vaswani et al. 2017, eq. 1"),
    Named(
        "cosine softmax",
        "softmax(l2norm(q) @ l2norm(k).T) @ v",
        "Swin Transformer V2, Liu et al. 2022, scaled cosine attention",
        "temperature 1 and no position bias",
    ),
    Named(
        "sigmoid attention",
        "sigmoid(q @ k.T / sqrt(d)) @ v",
        "Ramapuram et al. 2024, sigmoid self-attention",
        "without the bias -ln N",
    ),
    Named(
        "efficient attention",
        "softmax(q) @ (softmax(k, axis=-2).T @ v)",
        "Shen et al. 2021, efficient attention with softmax normalisation",
        "A2-Nets' double attention (Chen et al. 2018) is the same formula",
    ),
    Named(
        "content lambda",
        "q @ (softmax(k, axis=-2).T @ v)",
        "LambdaNetworks, Bello 2021, content lambda",
        "without position lambdas",
    ),
    Named("dot product linear", "q @ (k.T @ v)", "Non-local networks, Wang et al. 2018, dot product", "without 1/N"),
    Named("cosine linear", "l2norm(q) @ (l2norm(k).T @ v)", "Cottention, Mongaras et al. 2024", "without N^-m"),
    Named("kernel linear elu1", _kernel_linear("elu1(q)", "elu1(k)"), "Katharopoulos et al. 2020, eq. 5 and 7"),
    Named(
        "kernel linear relu",
        _kernel_linear("relu(q)", "relu(k)"),
        "EfficientViT, Cai et al. 2023, ReLU linear attention",
    ),
    Named("kernel linear elu1, no denominator", "elu1(q) @ (elu1(k).T @ v)", "Katharopoulos et al. 2020, eq. 6"),
    Named(
        "hydra",
        "l2norm(q) * sum(l2norm(k) * v, axis=-2)",
        "Hydra Attention, Bolya et al. 2022, cosine similarity kernel",
        "the norm runs over one head's features, not all",
    ),
    Named(
        "xca",
        "v @ softmax(l2norm(q, axis=-2).T @ l2norm(k, axis=-2)).T",
        "XCiT, El-Nouby et al. 2021, cross-covariance attention; softmax axis as in the released code",
        "temperature 1",
    ),
    Named(
        "aft-simple",
        "sigmoid(q) * sum(softmax(k, axis=-2) * v, axis=-2)",
        "Attention Free Transformer, Zhai et al. 2021, AFT-simple",
    ),
    Named("sima", "l1norm(q, axis=-2) @ (l1norm(k, axis=-2).T @ v)", "SimA, Koohpayegani & Pirsiavash 2022"),
    Named(
        "ufo",
        "l2norm(q) @ l2norm(k.T @ v)",
        "UFO-ViT, Song et al. 2021, cross-normalisation of q and of k.T @ v",
        "gain 1",
    ),
    Named(
        "galerkin",
        f"q @ (layernorm(k).T @ layernorm(v)) / {_N}",
        "Choose a Transformer: Fourier or Galerkin, Cao 2021, Galerkin-type attention",
        "norms without gain and bias",
    ),
    Named(
        "taylor linear",
        f"(sum(v, axis=-2) + l2norm(q) @ (l2norm(k).T @ v)) / ({_N} + l2norm(q) @ sum(l2norm(k), axis=-2).T)",
        "Linear Attention Mechanism, Li et al. 2020, first-order Taylor expansion",
    ),
    Named(
        "inline",
        "q @ (k.T @ v) - (q @ sum(k, axis=-2).T) * mean(v, axis=-2) + mean(v, axis=-2)",
        "Bridging the Divide, Han et al. 2024, InLine attention",
        "identity feature map, without the local residual",
    ),
    Named(
        "flatten",
        _kernel_linear(_focused("q"), _focused("k")),
        "FLatten Transformer, Han et al. 2023, focused linear attention",
        "p = 3",
    ),
    Named(
        "normattention",
        "l2norm(elu1(q) @ (elu1(k).T @ v))",
        "TransNormer, Qin et al. 2022, NormAttention",
        "up to sqrt(d)",
    ),
    Named(
        "flow attention",
        f"{_ALLOCATION} * ((sigmoid(q) / {_INCOMING}) @ (sigmoid(k).T @ ({_COMPETITION} * v)))",
        "Flowformer, Wu et al. 2022, Flow-Attention",
    ),
    Named(
        "agent style",
        f"softmax(q @ {_AGENTS}.T / sqrt(d)) @ (softmax({_AGENTS} @ k.T / sqrt(d)) @ v)",
        "Agent Attention, Han et al. 2023",
        "agents by softmax pooling of the queries; no biases",
    ),
    Named("v", "v", "control", "no attention: the values pass through", is_control=True),
    Named("zeros", "zeros(v)", "control", "the depthwise convolution alone", is_control=True),
    Named("uniform", "zeros(q) + mean(v, axis=-2)", "control", "every token attends to all equally", is_control=True),
)


@lru_cache(maxsize=1)
def named_graphs() -> Mapping[str, Graph]:
    """Every named graph by its name: formulas, controls, then AttnZero's published trials that are graphs here."""
    from attnbench.space.published import PUBLISHED

    graphs = {named.name: parse(named.formula) for named in NAMED}
    for trial in PUBLISHED:
        if trial.graph is not None:
            graphs[trial.name] = trial.graph
    return MappingProxyType(graphs)
