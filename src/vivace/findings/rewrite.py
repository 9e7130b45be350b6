"""What a rule's fix puts in the place of the code it matched."""

from __future__ import annotations

import re

from tree_sitter import Node

from vivace.findings.pattern import Bindings

__all__ = ["placed", "rewritten", "spelled"]

_NAME = re.compile(r"\$\$\$([A-Z_][A-Z0-9_]*)|\$([A-Z_][A-Z0-9_]*)")
_SHOWN = 60
_LINE = "\n\uffff"
"""A line that is to be moved in; the second is no character."""


def rewritten(template: str, node: Node, bound: Bindings) -> str:
    """The template with the code its names stand for, to be ``placed``. As in ast-grep, that code
    is moved in as far as its name is in the template, and all of it as far as the node's line is.
    How far that is does not follow from the node's text, so it is left open here."""

    def code(match: re.Match[str]) -> str:
        text = _code(match, bound) or ""
        if "\n" not in text:
            return text
        value = bound["$$$" + match.group(1) if match.group(1) else match.group(2)]
        first = value[0] if isinstance(value, tuple) else value
        begun = template[: match.start()].rpartition(_LINE)[2]
        into = len(begun) - len(begun.lstrip(" "))
        if first.start_point.row == node.start_point.row:  # it is as far in as it has to be
            return _moved(text, into)
        before = (node.text or b"")[: first.start_byte - node.start_byte].rpartition(b"\n")[2]
        return _moved(text, into - len(before) + len(before.lstrip(b" "))).replace("\n", _LINE)

    template = template.replace("\n", _LINE)
    return _NAME.sub(code, template)


def placed(text: str, line: str) -> str:
    """What was rewritten, for a node that begins on this line."""
    return text.replace(_LINE, "\n" + line[: len(line) - len(line.lstrip(" \t"))])


def spelled(message: str, bound: Bindings) -> str:
    """A message with what its names stand for, in a line."""
    if "$" not in message:
        return message
    return _NAME.sub(lambda match: _short(_code(match, bound) or match.group()), message)


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


def _moved(text: str, by: int) -> str:
    """All lines but the first, moved in, or out as far as that goes."""
    first, *rest = text.split("\n")
    if by >= 0:
        return "\n".join([first, *(" " * by + line for line in rest)])
    out = [line[min(-by, len(line) - len(line.lstrip(" "))) :] for line in rest]
    return "\n".join([first, *out])
