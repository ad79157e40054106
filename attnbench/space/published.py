"""The genotypes that AttnZero's released code publishes, with what upstream makes of them and what we make of them.

Upstream's verdicts were measured on the released operators with batch 4, 3 heads and 50 or 197 tokens. Ours are the
names of the checks that our graph fails (`space/check.py`, `nn/checks.py`); tests hold both.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnbench.errors import InvalidGraph
from attnbench.space.genotype import Genotype
from attnbench.space.graph import Graph
from attnbench.space.upstream import SIX_TYPES


@dataclass(frozen=True, slots=True)
class UpstreamVerdict:
    """How a genotype behaves under the released operators.

    `output` is the result's shape, `mixes` how it mixes tokens. Leaks are the largest change of one sample's output
    when the other samples are replaced (content) or dropped (size), relative to its largest value. `dead` says which
    inputs get no gradient. `works_reduced`: whether it runs with fewer keys than queries.
    """

    intermediates: str
    output: str
    linear: bool
    mixes: str
    in_six_types: bool
    content_leak: float
    size_leak: float
    dead: str
    works_reduced: bool


@dataclass(frozen=True, slots=True)
class Published:
    """One published genotype.

    `failed_checks` are the checks that our graph fails, in order; `refused` when it is no graph here at all.
    """

    name: str
    genotype: Genotype
    where: str
    formula: str
    upstream_verdict: UpstreamVerdict
    failed_checks: tuple[str, ...]

    @property
    def graph(self) -> Graph | None:
        """Our graph; None where the genotype is refused."""
        try:
            return self.genotype.to_graph()
        except InvalidGraph:
            return None

    @property
    def refusal(self) -> str:
        """Why the genotype is no graph here; empty where it is one."""
        try:
            self.genotype.to_graph()
        except InvalidGraph as error:
            return error.reason
        return ""


# Table rows below: type, slots, binaries, where published, upstream's function in symbols, upstream's verdict, ours.
# phi ELU+1, sg sigmoid, nsg 1 - sg, ss softsign, sm softmax, L2d and L2n unit norm over features and over tokens,
# MM and Z min-max and z-score over the whole batch, rs division by the feature sum, b the batch size, o entry by entry.
_NHW = "(B, H, N, d)"
_MIXES, _NO_MIX = "contraction", "none"


def _row(
    name: str,
    genotype: tuple[str, list[list[int]], list[int]],
    where: str,
    formula: str,
    verdict: tuple[str, str, bool, str, float, float, str, bool],
    *failed_checks: str,
) -> Published:
    intermediates, output, linear, mixes, content, size, dead, reduced = verdict
    in_six = genotype[0] in SIX_TYPES
    return Published(
        name,
        Genotype(genotype[0], genotype[1], genotype[2]),  # type: ignore[arg-type]
        where,
        formula,
        UpstreamVerdict(intermediates, output, linear, mixes, in_six, content, size, dead, reduced),
        failed_checks,
    )


PUBLISHED: tuple[Published, ...] = (
    _row(
        "Trial 20",
        ("i3n2", [[9, 22], [0, 0], [7], [0, 0]], [2, 2]),
        "tiny_datasets pvt, pvt_v2, swin",
        "unsq0(sg(Q)) o K o ss(V)",
        ("elementwise", "(1, B, H, N, d)", True, "none, but the merge scrambles B, H and N", 1.36, 0.92, "none", False),
        "refused",
    ),
    _row(
        "Trial 25",
        ("i3n2", [[0], [0, 14], [0, 25], [26]], [2, 2]),
        "tiny_datasets pvt, pvt_v2, swin",
        "nsg(Q o sign(K)) o L2d(V)",
        ("elementwise", _NHW, True, _NO_MIX, 0.0, 0.0, "K zero", False),
        "gradients",
        "mixes",
    ),
    _row(
        "Trial 34",
        ("i3n305", [[20, 0], [0], [0, 2], [14, 0], [6, 0], [0]], [2, 0, 2]),
        "tiny_datasets pvt, pvt_v2, swin",
        "Z(L2n(K) o V) o (sm(Q) + sign(V))",
        ("elementwise", _NHW, True, "only by statistics", 0.26, 0.001, "none", False),
        "mixes",
    ),
    _row(
        "Trial 40",
        ("i3n302", [[0, 0], [9, 0], [0], [0], [0, 18], [0, 14]], [6, 4, 2]),
        "tiny_datasets pvt, pvt_v2, swin",
        "unsq-1(Q)",
        ("(d, d), then a scalar", "(B, H, N, d, 1)", True, "none: identity on Q", 0.0, 0.0, "K none, V zero", True),
        "refused",
    ),
    _row(
        "Trial 76",
        ("i3n303", [[19, 21], [9], [15, 12], [11], [0, 19], [2]], [4, 2, 0]),
        "tiny_datasets pvt, pvt_v2, swin",
        "relu(Q) + sm(-sqrt(b / d) Q)",
        ("scalar", _NHW, True, _NO_MIX, 0.0, 0.02, "V unused, K about 1e-5", True),
        "mixes",
    ),
    _row(
        "Trial 80",
        ("i3n2", [[19, 19], [15], [15, 0], [0, 13]], [4, 0]),
        "tiny_datasets pvt, pvt_v2, swin",
        "V / sqrt(d)",
        ("scalar", _NHW, True, "none: V / sqrt(d)", 0.0, 0.0, "Q zero, K none", False),
        "mixes",
    ),
    _row(
        "Trial 105",
        ("i3n303", [[16], [0, 13], [0, 25], [6], [0], [25, 0]], [6, 3, 2]),
        "all ImageNet configurations; deit, autoformer and flowers configurations; tiny_datasets",
        "Q o L2d(L2d(Q) Z(MM(V)^T phi(K)))",
        ("(d, d), (N, d)", _NHW, True, _MIXES, 0.44, 0.11, "none", True),
    ),
    _row(
        "Trial 140",
        ("i3n302", [[16], [15], [0, 5], [9, 0], [20], [25]], [5, 5, 0]),
        "ImageNet CSwin",
        "L2n(Q) + L2d(abs(V) sg(phi(K)^T V / sqrt(d))^T)",
        ("(d, d), (N, d)", _NHW, True, _MIXES, 0.0, 0.0, "none", False),
    ),
    _row(
        "Trial 174",
        ("i3n302", [[0], [11, 13], [26], [7, 19], [0], [20, 27]], [4, 2, 0]),
        "tiny_datasets",
        "Q + rs(L2n(nsg(V)))",
        ("scalar", _NHW, True, "only by statistics", 6e-8, 6e-8, "K about zero", False),
        "mixes",
    ),
    _row(
        "Trial 228",
        ("i3n2", [[0], [0, 0], [0, 26], [9]], [0, 2]),
        "tiny_datasets",
        "sg(Q + K) o nsg(V)",
        ("elementwise", _NHW, True, _NO_MIX, 0.0, 0.0, "none", False),
        "mixes",
    ),
    _row(
        "Trial 240",
        ("i3n402", [[19, 9], [7], [0], [0, 20], [0], [20], [0], [0, 20]], [0, 0, 5, 5]),
        "tiny_datasets",
        "X L2n(V^T X)^T with X = L2n(Q + L2n(sg(relu(K)) + ss(V)))",
        ("(N, d), (d, d), (N, d)", _NHW, True, _MIXES, 0.0, 0.0, "none, K weak", False),
    ),
    _row(
        "Trial 272",
        ("i3n302", [[4, 0], [0, 0], [0], [14], [0, 7], [0, 2]], [6, 5, 0]),
        "tiny_datasets",
        "ss(Q) + sm(V sign(ln abs(K)^T V))",
        ("(d, d), (N, d)", _NHW, True, "contraction without gradient", 0.0, 0.0, "K zero", False),
        "gradients",
        "mixes",
    ),
    _row(
        "bench PVT",
        ("i3n303", [[6], [15], [0, 0], [11, 0], [16], [12]], [2, 4, 0]),
        "attn-bench-101 pvt, CIFAR-100",
        "phi(Q) - b",
        ("scalar", _NHW, True, _NO_MIX, 0.0, 0.75, "K and V none", False),
        "mixes",
    ),
    _row(
        "bench PVTv2",
        ("i3n305", [[25, 0], [4, 20], [26], [4], [26, 0], [27]], [0, 0, 2]),
        "attn-bench-101 pvt_v2 and swin, CIFAR-100",
        "nsg(L2d(K) + L2n(ln abs(V))) o rs(nsg(Q) + ln abs(V))",
        ("elementwise", _NHW, True, _NO_MIX, 0.0, 0.0, "none; gradients up to 1e12", False),
        "mixes",
    ),
    _row(
        "ImageNet default",
        ("i3n401", [[16], [0], [16], [16, 17], [16], [0], [8, 18], [0]], [5, 7, 3, 2]),
        "imagenet/config.py",
        "phi(Q) (phi(K)^T V) / (phi(Q) . sum phi(K) + 1e-6)",
        ("(d, d), (N), (N, d)", _NHW, True, _MIXES, 0.0, 3e-7, "none", True),
    ),
)
