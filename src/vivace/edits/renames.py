"""Renames that need no model: every use of a name is known once the code is parsed.

Only what is beyond doubt is done here. Where a name could be two things (a variable and a field of
something else, a name that is taken already), or where more than a rename is asked, a model is
asked as for any other edit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from tree_sitter import Node

from vivace.syntax.languages import Language, walk
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source

__all__ = ["Rename", "asked", "renamed"]

Sort = Literal["plain", "type", "member", "keyword", "short"]
"""A variable or function; a type; something of an object; the name of an argument in a call; and
``{ name }`` in JavaScript, which is a variable and a member at once."""

_NODES: dict[str, Sort] = {
    "identifier": "plain",
    "type_identifier": "type",
    "property_identifier": "member",
    "field_identifier": "member",
    "private_property_identifier": "member",
    "shorthand_property_identifier": "short",
    "shorthand_property_identifier_pattern": "short",
}
_VARIABLE = frozenset[Sort]({"plain", "short"})
_TYPE = frozenset[Sort]({"plain", "type"})
_MEMBER = frozenset[Sort]({"member"})
_WORDS = (
    (_VARIABLE, "variable", "parameter", "param", "argument", "function", "local", "constant"),
    (_TYPE, "class", "struct", "type", "interface", "enum"),
    (_MEMBER, "method", "field", "property", "attribute", "member"),
)
_MEANT = {noun: meant for meant, *nouns in _WORDS for noun in nouns}

_NAME = r"`?([A-Za-z_$][\w$]*)`?"
_HEAD = r"(?:please )?rename (?:the |its |this |these )?(?:local )?(?:(\w+) )??"
_SCOPE = (
    r"(?: (?:in|inside|of|within) (?:the )?(?:function |method |class )?"
    r"(?!(?:this|the|whole|entire|file|module|all)\b)`?([A-Za-z_$][\w$.]*)`?(?:\(\))?)?"
)
_REST = r"(?![\w`$])([^`]*)"
_ONE = re.compile(rf"{_HEAD}{_NAME}{_SCOPE} (?:to|into|as) {_NAME}{_SCOPE}{_REST}", re.IGNORECASE)
_TWO = re.compile(
    rf"{_HEAD}{_NAME} and {_NAME}{_SCOPE} (?:to|into|as) {_NAME} and {_NAME}{_SCOPE}{_REST}",
    re.IGNORECASE,
)
_NO_MORE = re.compile(
    r"(?:\W|\b(?:and|also|with|update|adjust|change|fix|adapt|all|every|each|any|its|the|their|of|"
    r"to|it|that|use|uses|usage|usages|call|calls|caller|callers|reference|references|occurrence|"
    r"occurrences|everywhere|in|this|whole|file|module|throughout|too|as|well|place|places|where|"
    r"is|used|called|accordingly|including|wherever)\b)*",
    re.IGNORECASE,
)


class Rename(Struct, frozen=True):
    names: tuple[tuple[str, str], ...]
    """Old and new."""
    noun: str = ""
    """What the old ones are called, if anything: ``variable``, ``method`` …"""
    scope: str = ""
    """The definition in which they are to be renamed, if one is named."""


def asked(instruction: str) -> Rename | None:
    """The rename that an instruction asks for, if it asks for nothing else."""
    text = instruction.strip()
    if found := _TWO.fullmatch(text):
        noun, old, other, scope, new, another, after, rest = found.groups()
        names: tuple[tuple[str, str], ...] = ((old, new), (other, another))
    elif found := _ONE.fullmatch(text):
        noun, old, scope, new, after, rest = found.groups()
        names = ((old, new),)
    else:
        return None
    if not _NO_MORE.fullmatch(rest):
        return None
    return Rename(names, _singular(noun or ""), (scope or after or "").rstrip("."))


def _singular(noun: str) -> str:
    noun = noun.lower()
    return noun if noun in _MEANT else noun.removesuffix("s")


def renamed(source: Source, start: int, end: int, instruction: str) -> str | None:
    """The lines from ``start`` up to ``end`` after the rename that is asked for.

    None where more is asked, or where it is not certain what is meant.
    """
    rename = asked(instruction)
    if rename is None or source.language is None:
        return None
    names = [
        (node, sort)
        for node in walk(source.tree.root_node)
        if start <= node.start_point.row < end and (sort := _sort(node)) is not None
    ]
    changes: list[tuple[int, int, bytes]] = []
    for old, new in rename.names:
        uses = [(node, sort) for node, sort in names if node.text == old.encode()]
        taken = {sort for node, sort in names if node.text == new.encode()}
        meant = _meant({sort for _, sort in uses}, rename.noun)
        if meant is None or taken & (meant | {"short"}):
            return None
        if _several([node for node, sort in uses if sort in meant], source.language):
            return None
        changes += [_change(node, sort, new) for node, sort in uses if sort in meant]
    raw = source.text.encode("utf-8", "surrogatepass")
    for first, last, put in sorted(changes, reverse=True):
        raw = raw[:first] + put + raw[last:]
    return "".join(lines_of(raw.decode("utf-8", "surrogatepass"))[start:end])


def _change(node: Node, sort: Sort, new: str) -> tuple[int, int, bytes]:
    kept = (node.text or b"") + b": " if sort == "short" else b""
    return node.start_byte, node.end_byte, kept + new.encode()


def _meant(sorts: set[Sort], noun: str) -> frozenset[Sort] | None:
    """Which of the uses are to be renamed; None where that would be a guess."""
    if noun in _MEANT:
        meant = _MEANT[noun]
        return meant if sorts & meant and not (meant is _MEMBER and "short" in sorts) else None
    ours = sorts - {"keyword"}
    fitting = [each for each in (_VARIABLE, _TYPE, _MEMBER) if ours and ours <= each]
    return fitting[0] if fitting else None


def _several(uses: Sequence[Node], language: Language) -> bool:
    """Whether the name is given to several things: variables of several functions, or methods of
    several classes."""
    homes = {home for node in uses for home in [_home(node, language)]}
    named = [node for node in uses if _names(node.parent, node)]
    return len(named) > 1 or (len(homes) > 1 and None not in homes)


def _home(node: Node, language: Language) -> int | None:
    """The outermost function that a name is used in; a function's own name is not used in it."""
    home = None
    outer = node.parent
    while outer is not None:
        if language.definitions.get(outer.type) == "function" and not _names(outer, node):
            home = outer.start_byte
        outer = outer.parent
    return home


def _names(definition: Node | None, node: Node) -> bool:
    """Whether the definition is called by this very node."""
    inner = definition
    while inner is not None and inner != node:
        inner = inner.child_by_field_name("name") or inner.child_by_field_name("declarator")
    return inner is not None and definition != node


def _sort(node: Node) -> Sort | None:
    sort, parent = _NODES.get(node.type), node.parent
    if sort != "plain" or parent is None:
        return sort
    if parent.type == "attribute" and parent.child_by_field_name("attribute") == node:
        return "member"
    if parent.type == "keyword_argument" and parent.child_by_field_name("name") == node:
        return "keyword"
    if parent.type == "function_definition" and parent.child_by_field_name("name") == node:
        return "member" if _in_class(parent) else "plain"
    return "plain"


def _in_class(node: Node) -> bool:
    """Python's methods are functions in the body of a class."""
    outer = node.parent
    if outer is not None and outer.type == "decorated_definition":
        outer = outer.parent
    return (
        outer is not None and outer.parent is not None and outer.parent.type == "class_definition"
    )
