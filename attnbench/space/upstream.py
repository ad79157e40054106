"""AttnZero's operators by index, and the dataflow of its graph types, in the terms of the graph language.

Upstream's code computes on tensors whose number of axes changes and reduces over whole batches. Where an operator
means the same on one head of one sample it is translated; where the difference matters the translation leaves a note;
where nothing sound is meant it is refused.

Source: the released AttnZero code, graph_ops.py, unary_ops.py and binary_ops.py.
"""

from __future__ import annotations

from typing import NamedTuple

from attnbench.errors import InvalidGraph
from attnbench.space.graph import K, Node, Q, V, build

# fmt: off
UNARY_NAMES = (
    "no_op", "transpose", "softmax", "element_wise_log", "element_wise_abslog", "element_wise_abs", "normalize",
    "softsign", "element_wise_invert", "sigmoid", "logsoftmax", "element_wise_sqrt", "element_wise_revert",
    "min_max_normalize", "element_wise_sign", "scale", "elu", "axis_sum1", "unsqz1", "element_wise_relu", "l2_norm",
    "element_wise_exp", "unsqz2", "axis_sum2", "repeat", "l2norm_last", "sigmoid_1_reverse", "strange_op",
)
BINARY_NAMES = (
    "element_wise_sum", "pairwise_distance", "element_wise_product", "matrix_multiplication", "cosine_similarity",
    "einsum1", "einsum2", "einsum3", "einsum4", "cat",
)
# fmt: on
NO_OP, TRANSPOSE, TOKEN_SUM, SIGMOID_REVERSE = 0, 1, 17, 26

# index -> operator of the language and its axis
_UNARY = {
    1: ("T", None),
    2: ("softmax", -1),
    3: ("logabs", None),
    4: ("logabs", None),
    5: ("abs", None),
    6: ("standardize", None),
    7: ("softsign", None),
    8: ("recip", None),
    9: ("sigmoid", None),
    10: ("log_softmax", -1),
    11: ("sqrt", None),
    12: ("neg", None),
    13: ("minmax", None),
    14: ("sign", None),
    15: ("scale", None),
    16: ("elu1", None),
    19: ("relu", None),
    20: ("l2norm", -2),
    21: ("exp", None),
    25: ("l2norm", -1),
    27: ("sumnorm", -1),
}
_REFUSED_UNARY = {
    22: "unsqz2 puts an axis before the batch, and the heads' outputs are merged across samples",
    23: "axis_sum2 sums over the heads; a graph sees one head",
    24: "repeat tiles a hard-coded 192 times; only a value of another layout could take it",
}
_REFUSED_BINARY = {
    8: "einsum4 contracts values without a head axis; a graph keeps one",
    9: "cat doubles the features; the language has no way back to d",
}
_BATCH_WIDE = "upstream takes its statistics over the whole batch; here over each sample's head"
_UNARY_NOTES = {
    3: "element_wise_log is NaN for negatives upstream; here ln(|x| + 1e-6)",
    6: f"normalize: {_BATCH_WIDE}",
    13: f"min_max_normalize: {_BATCH_WIDE}",
    18: "unsqz1 adds a trailing axis upstream; here sums keep their axis and it does nothing",
}
_BINARY_NOTES = {
    4: "cosine_similarity compares its first operand with itself upstream, which gives the batch size; here the "
    "cosine between the rows of both",
}


class Operand(NamedTuple):
    """What a binary takes: an input (q, k, v) or an earlier binary's result (its number), through slots in order."""

    source: str | int
    slots: tuple[int, ...]


_q, _k, _v = "q", "k", "v"
_KV = (Operand(_k, (0,)), Operand(_v, (1,)))
_QK = (Operand(_q, (0,)), Operand(_k, (1,)))
# type -> operands of each binary, in the order of evaluation; values are never changed in place
GRAPH_TYPES: dict[str, tuple[tuple[Operand, Operand], ...]] = {
    "i3n2": (_QK, (Operand(0, (3,)), Operand(_v, (2,)))),
    "i3n301": (_QK, (Operand(0, (3,)), Operand(_v, (2,))), (Operand(1, (5,)), Operand(0, (4,)))),
    "i3n302": (_KV, (Operand(_v, (2,)), Operand(0, (3,))), (Operand(_q, (4,)), Operand(1, (5,)))),
    "i3n303": (_KV, (Operand(_q, (2,)), Operand(0, (3,))), (Operand(_q, (4,)), Operand(1, (5,)))),
    "i3n304": (_KV, (Operand(_q, (2,)), Operand(0, (3,))), (Operand(_v, (4,)), Operand(1, (5,)))),
    "i3n305": (_KV, (Operand(_q, (2,)), Operand(_v, (3,))), (Operand(0, (4,)), Operand(1, (5,)))),
    "i3n401": (
        _KV,
        (Operand(_q, (2,)), Operand(_k, (3,))),
        (Operand(_q, (4,)), Operand(0, (5,))),
        (Operand(1, (6,)), Operand(2, (7,))),
    ),
    # slot 5 acts before slot 6 too: upstream keeps its result
    "i3n402": (
        _KV,
        (Operand(_q, (2,)), Operand(0, (3,))),
        (Operand(_v, (4,)), Operand(1, (5,))),
        (Operand(1, (5, 6)), Operand(2, (7,))),
    ),
}
SIX_TYPES = ("i3n2", "i3n301", "i3n302", "i3n303", "i3n304", "i3n305")
INPUT_NODES = {"q": Q, "k": K, "v": V}


def slot_count(graph_type: str) -> int:
    """Number of slots of a type: two a binary."""
    return 2 * len(GRAPH_TYPES[graph_type])


def apply_unary(index: int, x: Node, notes: list[str]) -> Node:
    """Upstream's unary operator `index` on `x`; what differs from upstream is added to `notes`.

    Raises: InvalidGraph with the reason, for operators without a sound meaning.
    """
    if index in _REFUSED_UNARY:
        raise InvalidGraph(_REFUSED_UNARY[index])
    _note(_UNARY_NOTES.get(index), notes)
    if index in (NO_OP, 18):
        return x
    if index == TOKEN_SUM:
        # Upstream drops the summed axis: a second sum then finds the features in its place.
        return build("sum", x, axis=-1 if x.shape[0] == "1" else -2)
    if index == SIGMOID_REVERSE:
        return build("sigmoid", build("neg", x))
    if index == 15 and x.shape[1] != "d":
        _note(f"scale divides by the root of the last axis upstream, of size {x.shape[1]}; here by sqrt(d)", notes)
    op, axis = _UNARY[index]
    return build(op, x, axis=axis)


def apply_binary(index: int, a: Node, b: Node, notes: list[str]) -> Node:
    """Upstream's binary operator `index` on `a` and `b`; einsum's two meanings are told apart by static shape.

    Raises: InvalidGraph with the reason, for operators without a sound meaning and shapes that do not fit.
    """
    if index in _REFUSED_BINARY:
        raise InvalidGraph(_REFUSED_BINARY[index])
    _note(_BINARY_NOTES.get(index), notes)
    if index in (5, 6):
        if index == 6:
            a, b = b, a
        if a.shape[0] == b.shape[0]:
            return build("matmul", build("T", a), b)
        if a.shape[1] == b.shape[1]:
            return build("matmul", a, build("T", b))
        raise InvalidGraph(
            f"{BINARY_NAMES[index]} contracts equal tokens or equal features; "
            f"({a.shape[0]}, {a.shape[1]}) and ({b.shape[0]}, {b.shape[1]}) share neither"
        )
    if index == 7:
        return build("sum", build("mul", a, b), axis=-1)
    return build({0: "add", 1: "distance", 2: "mul", 3: "matmul", 4: "cosine"}[index], a, b)


def _note(note: str | None, notes: list[str]) -> None:
    if note is not None and note not in notes:
        notes.append(note)
