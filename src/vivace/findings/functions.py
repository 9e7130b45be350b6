"""What the grammars of all languages have in common about functions, their names and what they are
given: by node types and fields."""

from __future__ import annotations

import re

from tree_sitter import Node

__all__ = [
    "FILES",
    "adds",
    "child_of",
    "is_bound",
    "is_filled_in",
    "is_number",
    "name_of",
    "parameters_of",
    "parts_of",
    "text_of",
]

FILES = ("module", "program", "translation_unit", "source_file")
"""What is outside all functions is a scope of its own."""
_ROUTED = re.compile(
    r"^@[\w.]*\.?(route|get|post|put|delete|patch|head|websocket|command|event|message|tool|task|"
    r"expose|api_view|view_config)\b",
    re.MULTILINE,
)
"""Decorators of functions that requests come to."""
_NAMED = ("variable_declarator", "pair", "public_field_definition", "field_definition")
"""What gives a function a name that has none of its own."""
_BOUND = re.compile(
    r"""["']?(values|params|parameters|args|arguments|bind(s|ings)?|replacements)["']?\s*(:|$)"""
)
"""What a record calls values that a query is given beside its text."""
_NUMBER = re.compile(
    r":?\s*(u?int\d*|[iu](8|16|32|64|128|size)|[fF](32|64)|float(32|64)?|double|long|short|byte|char|"
    r"bool(ean)?|number|bigint|Integer|Long|Double|Boolean|[uU]{2}[iI][dD](\.UUID)?|(date)?time|"
    r"time\.\w+)"
)
"""The type of a parameter that no text comes through."""


def child_of(node: Node, number: int) -> Node | None:
    """Half-typed code may not have it."""
    return node.child(number) if number < node.child_count else None


def is_bound(pair: Node) -> bool:
    return _BOUND.match(text_of(pair)) is not None


def is_filled_in(function: Node, parameter: Node) -> bool:
    """Whether a framework fills it in, as far as that can be told: other callers know what they
    hand over, and what it is for."""
    around = function.parent
    if function.type == "function_item" or "@" in text_of(parameter):
        return True  # extractors of Rust say so by their types
    if around is None or around.type != "decorated_definition":
        return around is not None and around.type == "arguments"
    return _ROUTED.search(text_of(around)) is not None


def is_number(parameter: Node) -> bool:
    """Whether no text can come in by it."""
    kind, declarator = (parameter.child_by_field_name(each) for each in ("type", "declarator"))
    if declarator is not None and declarator.type in ("pointer_declarator", "array_declarator"):
        return False
    return kind is not None and _NUMBER.fullmatch(text_of(kind)) is not None


def name_of(function: Node) -> str:
    name = function.child_by_field_name("name")
    if name is None and function.parent is not None and function.parent.type in _NAMED:
        parent = function.parent
        name = parent.child_by_field_name("name") or parent.child_by_field_name("key")
    declarator = function
    while name is None and (inner := declarator.child_by_field_name("declarator")) is not None:
        declarator = inner
        if inner.child_by_field_name("declarator") is None:
            name = inner
    text = b"" if name is None else name.text or b""
    return text.decode("utf-8", "replace").rpartition("::")[2]


def parts_of(pattern: Node) -> list[Node]:
    return [each for each in pattern.named_children if each.type != "comment"]


def parameters_of(function: Node) -> Node | None:
    """All of them, or the only one that an arrow function has; in C they are a level below."""
    at: Node | None = function
    while at is not None:
        for field in ("parameters", "parameter"):
            if (found := at.child_by_field_name(field)) is not None:
                return found
        at = at.child_by_field_name("declarator")
    return None


def adds(node: Node) -> bool:
    """``+=`` and its like leave what was there."""
    operator = node.child_by_field_name("operator")
    return operator is not None and operator.type not in ("=", ":=")


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
