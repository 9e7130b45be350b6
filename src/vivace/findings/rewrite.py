"""What a rule's fix puts in the place of the code it matched.

It must not lose or change what the rule is not about. Where the rule's patterns passed over code,
or there is a comment, and the fix does not take it over, there is no rewrite; and the lines of a
string stay as they are, wherever it is moved to.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import chain

from tree_sitter import Node

from vivace.findings.pattern import LEFT, Bindings
from vivace.syntax.languages import walk

__all__ = ["breaks_string", "placed", "rewritten", "spelled"]

_NAME = re.compile(r"\$\$\$([A-Z_][A-Z0-9_]*)|\$([A-Z_][A-Z0-9_]*)")
_SHOWN = 60
_LINE = "\n\uffff"
"""A line that is to be moved in; the second is no character."""
_LAYOUT = ("line_continuation",)
"""What may stand anywhere, as comments do, and is no loss."""


def rewritten(template: str, node: Node, bound: Bindings) -> str | None:
    """The template with the code its names stand for, to be ``placed``; ``None`` where something
    would be lost. As in ast-grep, that code is moved in as far as its name is in the template, and
    all of it as far as the node's line is. How far that is does not follow from the node's text, so
    it is left open here."""
    if _loses(template, node, bound):
        return None

    def code(match: re.Match[str]) -> str:
        text = _code(match, bound) or ""
        if "\n" not in text:
            return text
        nodes = _nodes(match, bound)
        first = nodes[0]
        stay = _rows_in_strings(nodes)
        begun = template[: match.start()].rpartition(_LINE)[2]
        into = len(begun) - len(begun.lstrip(" "))
        if first.start_point.row == node.start_point.row:  # it is as far in as it has to be
            return _moved(text, into, stay, "\n")
        before = (node.text or b"")[: first.start_byte - node.start_byte].rpartition(b"\n")[2]
        return _moved(text, into - len(before) + len(before.lstrip(b" ")), stay, _LINE)

    template = template.replace("\n", _LINE)
    return _NAME.sub(code, template)


def placed(text: str, line: str) -> str:
    """What was rewritten, for a node that begins on this line."""
    return text.replace(_LINE, "\n" + line[: len(line) - len(line.lstrip(" \t"))])


def breaks_string(node: Node, text: str) -> bool:
    """Whether this text in the place of a node may break the string that has the node in it, or
    change what it says. Before Python 3.12 what stands in an f-string may have no backslash and not
    its quotes; with ``=`` it is shown as it is written."""
    around = node.parent
    while around is not None:
        if around.type == "interpolation":
            shown = any(child.type == "=" for child in around.children)
            if shown or any(sign in text for sign in "'\"\\\n"):
                return True
        around = around.parent
    return False


def spelled(message: str, bound: Bindings) -> str:
    """A message with what its names stand for, in a line."""
    if "$" not in message:
        return message
    return _NAME.sub(lambda match: _short(_code(match, bound) or match.group()), message)


def _code(match: re.Match[str], bound: Bindings) -> str | None:
    nodes = _nodes(match, bound)
    return _text_between(nodes[0], nodes[-1]) if nodes else None


def _nodes(match: re.Match[str], bound: Bindings) -> tuple[Node, ...]:
    """What a name of the template stands for."""
    many, one = match.groups()
    value = bound.get("$$$" + many if many else one, ())
    return value if isinstance(value, tuple) else (value,)


def _loses(template: str, node: Node, bound: Bindings) -> bool:
    """Whether the node has something that neither the rule's patterns are about nor the template
    has a name for: other code, a comment, or what the grammar does not know."""
    named = (_nodes(match, bound) for match in _NAME.finditer(template))
    kept = [(nodes[0].start_byte, nodes[-1].end_byte) for nodes in named if nodes]
    kept = [(start, end) for start, end in kept if _is_in(start, end, node)]

    def is_kept(each: Node) -> bool:
        return any(start <= each.start_byte and each.end_byte <= end for start, end in kept)

    left = bound.get(LEFT, ())
    assert isinstance(left, tuple)
    passed = (each for each in left if _is_in(each.start_byte, each.end_byte, node))
    odd = (each for each in walk(node) if each.is_extra or each.is_error)
    return any(
        each != node and each.type not in _LAYOUT and not is_kept(each)
        for each in chain(passed, odd)
    )


def _is_in(start: int, end: int, node: Node) -> bool:
    return node.start_byte <= start and end <= node.end_byte


def _rows_in_strings(nodes: Collection[Node]) -> frozenset[int]:
    """The lines of this code, counted from its first, that begin within a string: what they begin
    with is part of it."""
    first = min(node.start_point.row for node in nodes)
    strings = (each for node in nodes for each in walk(node) if _is_string(each))
    return frozenset(row - first for each in strings for row in _later_rows(each))


def _is_string(node: Node) -> bool:
    return "string" in node.type and not node.type.startswith("concatenated")


def _later_rows(node: Node) -> range:
    return range(node.start_point.row + 1, node.end_point.row + 1)


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


def _moved(text: str, by: int, stay: Collection[int], end: str) -> str:
    """All lines but the first, and those that have to stay as they are, moved in, or out as far as
    that goes; ``end`` is what ends a line before one that was moved."""
    first, *rest = text.split("\n")
    parts = [first]
    for row, line in enumerate(rest, 1):
        if row in stay:
            parts.append("\n" + line)
        elif by >= 0:
            parts.append(end + " " * by + line)
        else:
            parts.append(end + line[min(-by, len(line) - len(line.lstrip(" "))) :])
    return "".join(parts)
