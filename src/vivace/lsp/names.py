"""Which name stands at a place of a document, if one does that could be another."""

from __future__ import annotations

import re

from lsprotocol.types import Position

from vivace.lsp.documents import Document

__all__ = ["name_at"]

_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_LONGEST = 400_000
"""Characters of a document that is looked into while somebody waits."""


def name_at(document: Document, position: Position) -> str | None:
    """A word that is a name in the document's language: no word of its own, of a string or of a
    comment."""
    offset = document.offset(position)
    line = document.line_of(offset)
    start, end = document.line_start(line), document.line_end(line)
    words = _NAME.finditer(document.text, start, end)
    found = next((each for each in words if each.start() <= offset <= each.end()), None)
    if found is None or len(document.text) > _LONGEST or document.source.language is None:
        return None
    first = len(document.text[start : found.start()].encode("utf-8", "surrogatepass"))
    last = first + len(found[0].encode())
    root = document.source.tree.root_node
    node = root.descendant_for_point_range((line, first), (line, last))
    is_name = node is not None and "identifier" in node.type and not node.child_count
    return found[0] if is_name else None
