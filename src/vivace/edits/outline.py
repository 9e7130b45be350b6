"""A file in short: its imports and the heads of its definitions.

Enough for a small model to call what is there by its name, too little to be copied.
"""

from __future__ import annotations

from tree_sitter import Node

from vivace.edits.hunk import lines_of
from vivace.edits.languages import Language, parse, walk
from vivace.edits.region import Region

__all__ = ["outline"]

_MOST = 24
"""Lines."""


def outline(text: str, language: Language, region: Region) -> str:
    """What stands around a region, itself left out."""
    lines = lines_of(text)
    root = parse(text, language).root_node
    shown: set[int] = set()
    for node in root.named_children:
        if node.type in language.imports:
            shown.update(range(node.start_point.row, node.end_point.row + 1))
    for node in walk(root):
        if node.type in language.definitions and (body := node.child_by_field_name("body")):
            shown.update(_head(node, body))
    outside = sorted(row for row in shown if not region.start <= row < region.end)
    return "".join(lines[row] for row in outside[:_MOST])


def _head(node: Node, body: Node) -> range:
    """The rows of a definition before its body; a body in braces begins on the head's last row."""
    first, start = node.start_point.row, body.start_point.row
    return range(first, max(first + 1, start))
