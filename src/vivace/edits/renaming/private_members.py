"""Members that only the body of their class can name: ``#x`` in JavaScript, ``__x`` in Python."""

from __future__ import annotations

import re

from tree_sitter import Node

from vivace.edits.renaming.proofs import Change, Doubtful
from vivace.edits.renaming.scopes import above, field_of, word_leaves
from vivace.syntax.languages import SCRIPTS
from vivace.syntax.source import Source

__all__ = ["is_private", "renamed_member"]

_CLASSES = frozenset(
    {"class_definition", "class_declaration", "abstract_class_declaration", "class"}
)


def is_private(source: Source, name: str) -> bool:
    if source.is_in("python"):
        return name.startswith("__") and not name.endswith("__")
    return source.is_in(*SCRIPTS) and name.startswith("#")


def renamed_member(source: Source, old: str, new: str) -> list[Change]:
    """The changes; Doubtful where another class has such a member, or text may name it."""
    if not is_private(source, new):
        raise Doubtful(f"`{new}` would not be the class's alone, as `{old}` is")
    root = source.tree.root_node
    leaves = word_leaves(root, old)
    classes = {found.id: found for node in leaves for found in [_class_of(node)] if found}
    if len(classes) != 1 or any(_class_of(node) is None for node in leaves):
        raise Doubtful(f"`{old}` is a member of several classes, or of none")
    home = next(iter(classes.values()))
    if word_leaves(home, new):
        raise Doubtful(f"`{new}` means something else in that class")
    for node in leaves:
        if source.is_in("python") and not field_of(node).startswith("attribute.attribute"):
            raise Doubtful(f"`{old}` is more than an attribute in line {node.start_point.row + 1}")
    by_force = re.search(rf"\w{re.escape(old)}\b|['\"]{re.escape(old)}\b", source.text)
    if by_force and source.is_in("python"):
        raise Doubtful(f"`{old}` is known by its name as text, or from outside of the class")
    return [(node.start_byte, node.end_byte, new.encode()) for node in leaves]


def _class_of(node: Node) -> Node | None:
    return next((outer for outer in above(node) if outer.type in _CLASSES), None)
