"""A source file as the checkers look at it: parsed by tree-sitter, asked by the names in it.

It shares no code with the edit core on purpose: a checker that finds a function the same way as
what it checks would make the same mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import tree_sitter_c
import tree_sitter_cpp
import tree_sitter_python
import tree_sitter_typescript
from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser, Tree

__all__ = ["Language", "Source", "walk"]

Language = Literal["python", "typescript", "c", "c++"]

_GRAMMARS = {
    "python": Grammar(tree_sitter_python.language()),
    "typescript": Grammar(tree_sitter_typescript.language_typescript()),
    "c": Grammar(tree_sitter_c.language()),
    "c++": Grammar(tree_sitter_cpp.language()),
}
_DEFINITIONS = {
    "function_definition",
    "class_definition",
    "function_declaration",
    "class_declaration",
    "interface_declaration",
    "method_definition",
    "struct_specifier",
    "class_specifier",
}
_WRAPPERS = {"decorated_definition", "export_statement"}
_NAMES = {
    "identifier",
    "field_identifier",
    "property_identifier",
    "type_identifier",
    "shorthand_property_identifier",
    "shorthand_property_identifier_pattern",
}


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, in the order of the text."""
    yield node
    for child in node.children:
        yield from walk(child)


def _text(node: Node) -> str:
    return (node.text or b"").decode()


@dataclass(frozen=True)
class Source:
    language: Language
    text: str

    @cached_property
    def tree(self) -> Tree:
        return Parser(_GRAMMARS[self.language]).parse(self.text.encode())

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines(keepends=True)

    def errors(self) -> int:
        return sum(node.is_error or node.is_missing for node in walk(self.tree.root_node))

    def definition(self, name: str) -> Node | None:
        """``function``, ``Class`` or ``Class.method``, with its decorators or ``export``."""
        found = self.tree.root_node
        for part in name.split("."):
            inner = next((node for node in walk(found) if _name(node) == part), None)
            if inner is None:
                return None
            found = inner
        while found.parent is not None and found.parent.type in _WRAPPERS:
            found = found.parent
        return found

    def code(self, name: str | None = None) -> str:
        """The text of a definition, or of the file, without its comments."""
        node = self.tree.root_node if name is None else self.definition(name)
        if node is None:
            return ""
        raw = self.text.encode()
        kept, place = b"", node.start_byte
        for comment in (n for n in walk(node) if n.type == "comment"):
            kept += raw[place : comment.start_byte]
            place = comment.end_byte
        return (kept + raw[place : node.end_byte]).decode()

    def kinds(self, name: str | None = None) -> list[str]:
        """The types of all nodes in a definition, or in the file."""
        node = self.tree.root_node if name is None else self.definition(name)
        return [] if node is None else [n.type for n in walk(node)]

    def lines_of(self, name: str) -> range:
        node = self.definition(name)
        if node is None:
            raise LookupError(f"no definition is called {name}")
        return range(node.start_point.row, node.end_point.row + 1)

    def lines_with(self, word: str) -> list[int]:
        whole = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
        return [number for number, line in enumerate(self.lines) if whole.search(line)]

    def lines_between(self, first: str, last: str) -> range:
        """From the one line that contains this text to the next that contains that one."""
        [start] = [number for number, line in enumerate(self.lines) if first in line]
        ends = (n for n in range(start, len(self.lines)) if last in self.lines[n])
        return range(start, next(ends) + 1)

    def uses(self, word: str) -> bool:
        """Whether it is a name in the code; comments and strings do not count."""
        return any(n.type in _NAMES and _text(n) == word for n in walk(self.tree.root_node))

    def top_level(self) -> set[int]:
        """The lines before which something may stand without being inside something else."""
        outer = [self.tree.root_node]
        outer += [node for node in walk(outer[0]) if node.type == "declaration_list"]
        rows = {0, len(self.lines)}
        for node in (child for parent in outer for child in parent.named_children):
            end = node.end_point
            # A node may end with its newline, at the start of the next line.
            rows |= {node.start_point.row, end.row + (end.column > 0)}
        return rows


def _name(node: Node) -> str | None:
    """What a definition is called; in C the name stands at the end of a chain of declarators."""
    if node.type not in _DEFINITIONS:
        return None
    named = node.child_by_field_name("name")
    while named is None:
        inner = node.child_by_field_name("declarator")
        if inner is None:
            return None
        named = inner if inner.type in _NAMES else None
        node = inner
    return _text(named)
