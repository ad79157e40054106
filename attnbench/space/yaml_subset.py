"""The corner of YAML that AttnZero's configurations are written in: nested mappings, lists, integers and words.

Written out so that the language needs nothing but the standard library. JSON is inside the corner.
"""

from __future__ import annotations

import json
import re

from attnbench.errors import InvalidGraph

MAX_LENGTH = 100_000
MAX_DEPTH = 40
_KEY = re.compile(r"""(?:"([^"]*)"|'([^']*)'|([^\s\[\]{}"'#:,-](?:[^:#]*[^\s:#])?))\s*:(?:\s+(.*)|$)""")

_SCALAR = re.compile(r'"[^"]*"|[^\s\[\]{},:"][^\[\]{},:"]*')

Line = tuple[int, str, int]  # indent, text, line number


def read_yaml(text: str) -> object:
    """Mappings, lists, integers and strings of a YAML or JSON text. Raises: InvalidGraph, with the line."""
    if len(text) > MAX_LENGTH:
        raise InvalidGraph(f"the configuration has {len(text)} characters; at most {MAX_LENGTH} are read")
    if text.lstrip().startswith("{"):
        return _flow(text.strip(), 1)
    lines: list[Line] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        if line.strip() and line.strip() != "---":
            indent = len(line) - len(line.lstrip(" "))
            lines.append((indent, line.strip(), number))
    if not lines:
        raise InvalidGraph("the configuration is empty")
    lines = _joined(lines)
    value, rest = _block(lines, 0, 0)
    if rest < len(lines):
        raise InvalidGraph(f"line {lines[rest][2]} is indented otherwise than the lines before: {lines[rest][1]!r:.60}")
    return value


def _joined(lines: list[Line]) -> list[Line]:
    """Flow lists that run over several lines, each on one."""
    joined: list[Line] = []
    open_brackets = 0
    for indent, line, number in lines:
        if open_brackets > 0:
            start, before, first = joined[-1]
            joined[-1] = (start, f"{before} {line}", first)
        else:
            joined.append((indent, line, number))
        open_brackets += line.count("[") + line.count("{") - line.count("]") - line.count("}")
    return joined


def _block(lines: list[Line], at: int, depth: int) -> tuple[object, int]:
    """The value that starts at line `at`, and the first line after it."""
    _, line, number = lines[at]
    if depth > MAX_DEPTH:
        raise InvalidGraph(f"line {number} is nested too deeply; at most {MAX_DEPTH} levels are read")
    if line == "-" or line.startswith("- "):
        return _list(lines, at, depth)
    if _KEY.match(line):
        return _mapping(lines, at, depth)
    return _flow(line, number), at + 1


def _list(lines: list[Line], at: int, depth: int) -> tuple[list[object], int]:
    indent = lines[at][0]
    items: list[object] = []
    while at < len(lines) and lines[at][0] == indent and (lines[at][1] == "-" or lines[at][1].startswith("- ")):
        _, line, number = lines[at]
        inside = line[1:].lstrip()
        if inside:
            # What follows the dash is a block of its own, indented by where it stands.
            lines[at] = (indent + len(line) - len(inside), inside, number)
            value, at = _block(lines, at, depth + 1)
        else:
            value, at = _nested(lines, at, indent, depth)
        items.append(value)
    return items, at


def _mapping(lines: list[Line], at: int, depth: int) -> tuple[dict[str, object], int]:
    indent = lines[at][0]
    found: dict[str, object] = {}
    while at < len(lines) and lines[at][0] == indent:
        _, line, number = lines[at]
        match = _KEY.match(line)
        if match is None:
            raise InvalidGraph(f"line {number} is no 'key: value': {line!r:.60}")
        key = next(group for group in match.groups()[:3] if group is not None)
        if match[4]:
            found[key], at = _flow(match[4], number), at + 1
        elif at + 1 < len(lines) and lines[at + 1][0] == indent and lines[at + 1][1].startswith("-"):
            found[key], at = _list(lines, at + 1, depth + 1)
        else:
            found[key], at = _nested(lines, at, indent, depth)
    return found, at


def _nested(lines: list[Line], at: int, indent: int, depth: int) -> tuple[object, int]:
    """What is indented under line `at`; None where nothing is."""
    if at + 1 < len(lines) and lines[at + 1][0] > indent:
        return _block(lines, at + 1, depth + 1)
    return None, at + 1


def _flow(text: str, number: int) -> object:
    """A scalar, or a list or mapping in brackets; round ones count as lists, as they do for yacs."""
    if text[:1] in "[{(":
        body = _SCALAR.sub(_quoted, text.replace("'", '"').replace("(", "[").replace(")", "]"))
        try:
            return json.loads(re.sub(r",\s*([\]}])", r"\1", body))
        except (ValueError, RecursionError) as error:
            raise InvalidGraph(f"line {number} is no list or mapping: {text!r:.60} ({error!s:.60})") from None
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if re.fullmatch(r"[+-]?\d{1,9}", text):
        return int(text)
    return text


def _quoted(match: re.Match[str]) -> str:
    """A bare word in quotes; a number, a quoted string, and JSON's own words as they are."""
    word = match[0].strip()
    if word[0] == '"' or word in ("null", "true", "false") or re.fullmatch(r"-?\d+(\.\d+)?", word):
        return word
    return json.dumps(word)
