"""The canonical text of an expression, and the key made from it: one for every spelling of a function."""

from __future__ import annotations

from hashlib import blake2b

from attnbench.space import rewrite_activations, rewrite_axes, rewrite_matrices, rewrite_sums  # noqa: F401  (the rules)
from attnbench.space.forms import INPUT_FORMS, TRANSPOSED_INPUTS, Form, shown
from attnbench.space.graph import Node
from attnbench.space.rewrite import OPAQUE_TO_T, rewrite, transposed

PREFIX = "ag1-"


def canonical_text(root: Node) -> str:
    """The text that every spelling of a function shares, as far as the rules of `rewrite` know."""
    return shown(_form(root, False))


def key_of(canonical: str) -> str:
    """`ag1-` and the 128-bit BLAKE2b of a canonical text in hex."""
    return PREFIX + blake2b(canonical.encode(), digest_size=16).hexdigest()


def _form(node: Node, flipped: bool) -> Form:
    """The canonical form of a sub-expression, or of its transpose: T travels down with the walk."""
    op, args, axis, shape, _ = node
    if not args:
        return TRANSPOSED_INPUTS[op] if flipped else INPUT_FORMS[op]
    if op == "T":
        return _form(args[0], not flipped)
    if flipped:
        if op in OPAQUE_TO_T or shape == "11":
            return transposed(_form(node, False))
        if axis is not None:
            axis = -3 - axis
    if len(args) == 1:
        return rewrite(op, axis, _form(args[0], flipped))
    a, b = args
    if flipped and op == "matmul":
        a, b = b, a
    return rewrite(op, axis, _form(a, flipped), _form(b, flipped))
