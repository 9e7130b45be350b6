"""What a file defines: functions and classes, with the lines that belong to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct
from tree_sitter import Node

from vivace.syntax.languages import Language, row_after

__all__ = ["Definition", "Kind", "definitions_among"]

Kind = Literal["function", "class"]

_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*")
_SPECIAL = re.compile(r"(?:^|::)(?:~\w+|operator\W\S*)$")
"""Destructors and operators of C++."""
_ASSIGNED = {"variable_declarator": "value", "assignment_expression": "right"}
"""Where a name is given to a function or a class that is a value, and which part that is."""
_OBJECT = re.compile(r"^(?:module\.)?exports\.|(?<=\.)prototype\.")
"""What stands before a name because JavaScript had no modules and classes."""


class Definition(Struct, frozen=True):
    """Lines ``start`` up to, not including, ``end``; ``name`` is dotted, as ``Class.method``."""

    start: int
    end: int
    kind: Kind
    name: str
    code: int
    """The line on which it begins itself, behind the comments that lead it."""


def definitions_among(nodes: Iterable[Node], language: Language) -> Iterator[Definition]:
    """Of nodes in the order of the text, those that define something, outer before inner; each with
    its decorators and the comments that lead it."""
    around: list[tuple[int, str]] = []
    for node in nodes:
        kind = _kind(node, language)
        name = _name(node) if kind is not None else ""
        if kind is None or not name:
            continue
        while around and around[-1][0] <= node.start_byte:
            around.pop()
        name = f"{around[-1][1]}.{name}" if around else name
        around.append((node.end_byte, name))
        start, code, end = _lines(node, language)
        yield Definition(start, end, kind, name, code)


def _kind(node: Node, language: Language) -> Kind | None:
    kind = language.definitions.get(node.type)
    if kind is None or not node.is_named:
        return None
    if (part := _ASSIGNED.get(node.type)) is not None:
        value = node.child_by_field_name(part)
        if value is None or value.type not in ("arrow_function", "function_expression", "class"):
            return None
    if node.type.endswith("_specifier") and node.child_by_field_name("body") is None:
        return None  # a struct that is only mentioned
    return "function" if kind == "function" else "class"


def _name(node: Node) -> str:
    child = node.child_by_field_name("name") or _declared(node)
    child = child or node.child_by_field_name("left") or node.child_by_field_name("type")
    if child is None:
        specs = [each for each in node.named_children if each.child_by_field_name("name")]
        return _name(specs[0]) if specs else ""
    if child.type == "qualified_identifier" or _declared(child) is None:
        text = (child.text or b"").decode("utf-8", "replace")
        known = _NAME.fullmatch(text) or _SPECIAL.search(text)
        return _OBJECT.sub("", text.replace("::", ".")) if known else ""
    return _name(child)


def _declared(node: Node) -> Node | None:
    """What is inside a declarator; the grammar of C++ gives that of a reference no name."""
    if node.type == "reference_declarator":
        return node.named_children[-1]
    return node.child_by_field_name("declarator")


def _lines(node: Node, language: Language) -> tuple[int, int, int]:
    end = node.end_point.row + 1
    while node.parent is not None and node.parent.type in language.wrappers:
        node = node.parent
    first = _first_row(node, language)
    return first, node.start_point.row, max(end, node.end_point.row + 1)


def _first_row(node: Node, language: Language) -> int:
    """Where what leads it begins: what stands right above it, on lines of its own."""
    first, at = node.start_point.row, node
    while (before := _before(at)) is not None and before.type in language.leading:
        if row_after(before) + _is_documentation(before) < at.start_point.row:
            break
        at = before
        if at.prev_sibling is None or row_after(at.prev_sibling) <= at.start_point.row:
            first = at.start_point.row
    return first


def _is_documentation(node: Node) -> bool:
    """Whether it is about what follows even behind an empty line."""
    return (node.text or b"").startswith(b"/**")


def _before(node: Node) -> Node | None:
    """Python has the comments above the first statement of a block before the block."""
    before = node.prev_named_sibling
    if before is None and node.parent is not None and node.parent.type == "block":
        return node.parent.prev_named_sibling
    return before
