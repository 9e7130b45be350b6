"""A source file as the checkers look at it: parsed by tree-sitter, asked by the names in it.

It shares no code with the edit core on purpose: a checker that finds a function the same way as
what it checks would make the same mistake.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tree_sitter import Node, Tree

from bench.edit_sets.schema import Language
from bench.edit_sets.syntax import parsed, text_of, walk

__all__ = ["Source"]

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


@dataclass(frozen=True)
class Source:
    language: Language
    text: str

    @cached_property
    def tree(self) -> Tree:
        return parsed(self.language, self.text)

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

    def code(self, name: str) -> str:
        """The text of a definition without its comments."""
        node = self.definition(name)
        if node is None:
            return ""
        raw = self.text.encode()
        kept, place = b"", node.start_byte
        for comment in (n for n in walk(node) if n.type == "comment"):
            kept += raw[place : comment.start_byte]
            place = comment.end_byte
        return (kept + raw[place : node.end_byte]).decode()

    def kinds(self, name: str) -> set[str]:
        """The types of all nodes in a definition."""
        node = self.definition(name)
        return set() if node is None else {n.type for n in walk(node)}

    def lines_of(self, name: str) -> range:
        node = self.definition(name)
        if node is None:
            raise LookupError(f"no definition is called {name}")
        return range(node.start_point.row, node.end_point.row + 1)

    def uses(self, word: str) -> bool:
        """Whether it is a name in the code; comments and strings do not count."""
        return any(n.type in _NAMES and text_of(n) == word for n in walk(self.tree.root_node))

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
    return text_of(named)
