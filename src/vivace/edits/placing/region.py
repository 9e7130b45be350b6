"""A part of a file that an edit is about: what the model is shown, and may change.

A small model keeps its hands off what it never sees, so a region is as small as it can be.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct
from tree_sitter import Node

from vivace.syntax.languages import Language, errors_in, parse, row_after, walk
from vivace.syntax.lines import dedented, margin_of
from vivace.syntax.source import Source

__all__ = ["Kind", "Region", "Selection", "around", "regions", "selected", "whole_file"]

Kind = Literal["function", "class", "selection", "file"]
Selection = tuple[int, int]
"""The first selected line, from 0, and the line after the last."""

_CONTAINERS = frozenset(
    {
        "module",
        "program",
        "translation_unit",
        "source_file",
        "block",
        "statement_list",
        "declaration_list",
        "field_declaration_list",
        "class_body",
    }
)
"""What begins with its first statement and does not belong to it."""
_BODIES = frozenset({"class_body", "field_declaration_list", "interface_body", "enum_body"})


_TEST = re.compile(r"(?:^|[._])tests?(?:$|[._])")


class Region(Struct, frozen=True):
    """Lines ``start`` up to, not including, ``end``; ``name`` is dotted, as ``Class.method``."""

    start: int
    end: int
    kind: Kind = "selection"
    name: str = ""

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end

    @property
    def lines(self) -> str:
        """As people count them."""
        return f"lines {self.start + 1}-{self.end}"

    @property
    def title(self) -> str:
        """What to call it where a person chooses."""
        return f"{self.name} ({self.lines})" if self.name else self.lines

    @property
    def is_test(self) -> bool:
        return _TEST.search(self.name) is not None

    def contains(self, other: Region) -> bool:
        return self.start <= other.start and other.end <= self.end


def whole_file(source: Source) -> Region:
    return Region(0, len(source.lines), "file")


def regions(source: Source) -> list[Region]:
    """Every definition, outer before inner."""
    return [Region(each.start, each.end, each.kind, each.name) for each in source.definitions]


def selected(source: Source, selection: Selection) -> Region:
    """The lines a person selected, as far as they can be rewritten by themselves; else what they
    stand in."""
    lines = source.lines
    start = min(max(0, selection[0]), len(lines))
    end = max(start, min(len(lines), selection[1]))
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    chosen = Region(start, end)
    if source.language is None:
        return chosen if len(chosen) else whole_file(source)
    around = [each for each in regions(source) if each.contains(chosen)]
    smallest = min(around, key=len, default=None)
    if len(chosen) > 1 and _whole_statements(source, chosen, source.language):
        same = smallest is not None and (smallest.start, smallest.end) == (start, end)
        return smallest if same and smallest is not None else chosen
    return smallest or _widened(source, chosen)


def _widened(source: Source, chosen: Region) -> Region:
    """The statements of the file that a selection touches; the whole file where it touches none."""
    touched = [
        node
        for node in source.top
        if node.start_point.row < chosen.end and chosen.start <= node.end_point.row
    ]
    if not touched or not len(chosen):
        return whole_file(source)
    start, end = touched[0].start_point.row, row_after(touched[-1])
    return Region(min(chosen.start, start), max(chosen.end, end))


def _whole_statements(source: Source, chosen: Region, language: Language) -> bool:
    """Whether they could stand alone: a model asked to rewrite half a statement completes it."""
    lines = source.lines[chosen.start : chosen.end]
    margin = margin_of(lines)
    if lines[0][len(margin)] in " \t":
        return False
    alone = not errors_in(parse("".join(dedented(line, margin) for line in lines), language))
    nodes = list(walk(source.tree.root_node))
    if not alone and not any(_holds_members(node, chosen) for node in nodes):
        return False
    return not any(
        chosen.start
        <= node.start_point.row
        < chosen.end
        <= node.end_point.row - (not node.end_point.column)
        for node in nodes
        if node.type not in _CONTAINERS
    )


def _holds_members(node: Node, chosen: Region) -> bool:
    """Whether the lines are whole members of this class; a field is no statement by itself."""
    if node.type not in _BODIES:
        return False
    rows = [(child.start_point.row, child.end_point.row + 1) for child in node.named_children]
    touched = [(first, end) for first, end in rows if first < chosen.end and chosen.start < end]
    return bool(touched) and chosen.start <= touched[0][0] and touched[-1][1] <= chosen.end


def around(source: Source, chosen: Region) -> Region:
    """The function around it, if there is one."""
    known = regions(source)
    around = [each for each in known if each.kind == "function" and each.contains(chosen)]
    return min(around, key=len, default=chosen)
