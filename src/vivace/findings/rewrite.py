"""What a rule's fix puts in the place of the code it matched."""

from __future__ import annotations

import re

from tree_sitter import Node

from vivace.findings.pattern import Bindings

__all__ = ["rewritten", "spelled"]

_NAME = re.compile(r"\$\$\$([A-Z_][A-Z0-9_]*)|\$([A-Z_][A-Z0-9_]*)")
_SHOWN = 60


def rewritten(template: str, node: Node, bound: Bindings) -> str:
    """The template with the code its names stand for, moved in as far as the node is."""
    margin = _margin_at(node)
    text = _filled(template, bound)
    return text.replace("\n", "\n" + margin) if margin else text


def spelled(message: str, bound: Bindings) -> str:
    """A message with what its names stand for, in a line."""
    if "$" not in message:
        return message
    return _NAME.sub(lambda match: _short(_code(match, bound) or match.group()), message)


def _filled(template: str, bound: Bindings) -> str:
    return _NAME.sub(lambda match: _code(match, bound) or "", template)


def _code(match: re.Match[str], bound: Bindings) -> str | None:
    many, one = match.groups()
    value = bound.get("$$$" + many if many else one)
    if value is None or value == ():
        return None
    nodes = value if isinstance(value, tuple) else (value,)
    return _text_between(nodes[0], nodes[-1])


def _text_between(first: Node, last: Node) -> str:
    """The text from one node to another, which is a sibling of it."""
    if first == last:
        raw = first.text or b""
    else:
        parent = first.parent
        assert parent is not None
        start = parent.start_byte
        raw = (parent.text or b"")[first.start_byte - start : last.end_byte - start]
    return raw.decode("utf-8", "surrogatepass")


def _short(code: str) -> str:
    line = " ".join(code.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _margin_at(node: Node) -> str:
    return ""
