"""Subnets from text and from the dictionaries and tuples in which the published code writes them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import fields

from attnbench.errors import InvalidSubnet
from attnbench.space.subnet import AutoFormerSubnet, PiTSubnet, Subnet, whole

MAX_CHARACTERS = 2000
FAMILIES: dict[str, type[AutoFormerSubnet] | type[PiTSubnet]] = {"autoformer": AutoFormerSubnet, "pit": PiTSubnet}
_EXAMPLE = "autoformer(embed_dim=192, heads=[3, 4], mlp_ratios=[3.5, 4])"


def parse_subnet(text: str) -> Subnet:
    """A subnet from its text, `autoformer(...)` or `pit(...)`, fields in any order; nothing is evaluated.

    Raises: InvalidSubnet (syntax, family, fields, values).
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidSubnet(f"the text has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read")
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError
        given = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise InvalidSubnet(f"{text!r:.80} is no subnet; one is written like {_EXAMPLE}") from None
    if len(given) < len(call.keywords):
        raise InvalidSubnet(f"{text!r:.80} gives a field twice; give each once, as in {_EXAMPLE}")
    family = call.func.id
    if family not in FAMILIES:
        raise InvalidSubnet(f"unknown family {family!r}; known: {', '.join(FAMILIES)}")
    return _make(family, given)


def read_subnet(source: object) -> Subnet:
    """A subnet from a subnet, its text, a mapping or AutoFormer's candidate tuple.

    Mapping: `base_dim`, `depth`, `num_heads`, `mlp_ratio` for PiT; `embed_dim` or `hidden_dim` (one number, or one per
    layer), `depth` or `layer_num`, `num_heads`, `mlp_ratio`, and `head_dim` unless 64, for AutoFormer; keys in any
    case. Tuple: (depth, a ratio per layer, heads per layer, embed dim).
    Raises: InvalidSubnet, naming what is missing or wrong.
    """
    if isinstance(source, Subnet):
        return source
    if isinstance(source, str):
        return parse_subnet(source)
    if isinstance(source, Mapping):
        return _from_mapping({str(key).lower(): value for key, value in source.items()})
    if isinstance(source, tuple | list):
        return _from_candidate(tuple(source))
    raise InvalidSubnet(f"a subnet is a text, a mapping or a tuple, got {type(source).__name__}")


def candidate(subnet: AutoFormerSubnet) -> tuple[float, ...]:
    """The tuple in which AutoFormer's evolution writes a subnet: depth, ratios, heads, embed dim."""
    return (subnet.depth, *subnet.mlp_ratios, *subnet.heads, subnet.embed_dim)


def _from_candidate(given: tuple[object, ...]) -> AutoFormerSubnet:
    depth = given[0] if given else None
    if not isinstance(depth, int) or len(given) != 2 * depth + 2:
        raise InvalidSubnet(
            f"a candidate tuple is (depth, a ratio per layer, heads per layer, embed dim), 2 * depth + 2 numbers; got "
            f"{len(given)} with depth {depth!r}"
        )
    return AutoFormerSubnet(given[-1], given[depth + 1 : -1], given[1 : depth + 1])  # type: ignore[arg-type]


def _from_mapping(given: Mapping[str, object]) -> Subnet:
    if "base_dim" in given:
        found = _pick(given, base_dim=("base_dim",), depths=("depth",), heads=("num_heads",), mlp_ratio=("mlp_ratio",))
        return _make("pit", found)
    names = {
        "embed_dim": ("embed_dim", "hidden_dim"),
        "depth": ("depth", "layer_num"),
        "heads": ("num_heads",),
        "mlp_ratios": ("mlp_ratio",),
    }
    found = _pick(given, **names)
    widths = found["embed_dim"]
    if isinstance(widths, list | tuple):
        known = {whole(width, f"embed_dim of layer {i}") for i, width in enumerate(widths)}
        if len(known) != 1:
            raise InvalidSubnet(f"embed_dim differs between layers, {list(widths)!r:.60}; a subnet has one width")
        found["embed_dim"] = known.pop()
    depth = whole(found.pop("depth"), "depth")
    found.update({name: given[name] for name in ("head_dim",) if name in given})
    subnet = _make("autoformer", found)
    if subnet.depth != depth:
        raise InvalidSubnet(f"depth is {depth}, but heads and mlp_ratio are given for {subnet.depth} layers")
    return subnet


def _pick(given: Mapping[str, object], **names: tuple[str, ...]) -> dict[str, object]:
    """The value of every field under whichever of its spellings is there."""
    found = {field: given[name] for field, spellings in names.items() for name in spellings if name in given}
    missing = [" or ".join(spellings) for field, spellings in names.items() if field not in found]
    if missing:
        raise InvalidSubnet(f"the subnet lacks {', '.join(missing)}; it has {', '.join(given)}")
    return found


def _make(family: str, given: dict[str, object]) -> Subnet:
    cls = FAMILIES[family]
    known = {field.name: field for field in fields(cls)}
    wrong = [name for name in given if name not in known]
    missing = [name for name in known if name not in given and name != "head_dim"]
    if wrong or missing:
        problem = f"no field {wrong[0]!r}" if wrong else f"no {missing[0]}"
        raise InvalidSubnet(f"{family} got {problem}; its fields are {', '.join(known)}")
    return cls(**given)  # type: ignore[arg-type]
