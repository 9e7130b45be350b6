"""A source file as the checkers look at it: its definitions and the places between them.

It shares no code with the edit core on purpose: a checker that finds a function the same way as
what it checks would make the same mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import tree_sitter_c
import tree_sitter_cpp
import tree_sitter_go
import tree_sitter_java
import tree_sitter_javascript
import tree_sitter_python
import tree_sitter_rust
import tree_sitter_typescript
from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser, Tree

from bench.edit_sets.schema import Language

__all__ = ["Source", "Span", "name_of", "parsed", "text_of", "walk"]

_GRAMMARS: dict[Language, Grammar] = {
    "python": Grammar(tree_sitter_python.language()),
    "javascript": Grammar(tree_sitter_javascript.language()),
    "typescript": Grammar(tree_sitter_typescript.language_typescript()),
    "c": Grammar(tree_sitter_c.language()),
    "cpp": Grammar(tree_sitter_cpp.language()),
    "go": Grammar(tree_sitter_go.language()),
    "rust": Grammar(tree_sitter_rust.language()),
    "java": Grammar(tree_sitter_java.language()),
}
_FUNCTIONS = {
    "function_definition",
    "function_declaration",
    "generator_function_declaration",
    "function_expression",
    "function_item",
    "arrow_function",
    "method_definition",
    "method_declaration",
    "constructor_declaration",
    "compact_constructor_declaration",
}
# What holds definitions that stand for themselves.
_CONTAINERS = {
    "class_definition",
    "class_declaration",
    "abstract_class_declaration",
    "class",
    "class_body",
    "class_specifier",
    "struct_specifier",
    "field_declaration_list",
    "namespace_definition",
    "linkage_specification",
    "declaration_list",
    "internal_module",
    "module",
    "impl_item",
    "trait_item",
    "mod_item",
    "interface_body",
    "enum_declaration",
    "enum_body",
    "enum_body_declarations",
    "record_declaration",
    "preproc_if",
    "preproc_ifdef",
    "preproc_else",
    "preproc_elif",
    "template_declaration",
    "decorated_definition",
    "export_statement",
}
_IMPORTS = {
    "import_statement",
    "import_from_statement",
    "future_import_statement",
    "import_declaration",
    "use_declaration",
    "extern_crate_declaration",
    "preproc_include",
}
_ATTACHED = {"comment", "line_comment", "block_comment", "attribute_item", "decorator"}
_WRAPPERS = {"decorated_definition", "export_statement", "template_declaration"}
_BODIES = {
    "block",
    "class_body",
    "declaration_list",
    "enum_body",
    "field_declaration_list",
    "interface_body",
    "object",
    "statement_block",
}
_NAMED = {
    "variable_declarator",
    "public_field_definition",
    "pair",
    "struct_item",
    "enum_item",
    "const_item",
    "static_item",
    "type_item",
    "macro_definition",
    "type_spec",
    "const_spec",
    "var_spec",
    "interface_declaration",
    "type_alias_declaration",
    "enum_specifier",
    "preproc_def",
    "preproc_function_def",
    "type_definition",
    "declaration",
}
_LONG = 60


@dataclass(frozen=True, order=True)
class Span:
    """Lines counted from 0, without the last."""

    start: int
    end: int

    def holds(self, line: int) -> bool:
        return self.start <= line < self.end


def parsed(language: Language, text: str) -> Tree:
    return Parser(_GRAMMARS[language]).parse(text.encode())


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, in the order of the text."""
    yield node
    for child in node.children:
        yield from walk(child)


def text_of(node: Node | None) -> str:
    return (node.text or b"").decode() if node is not None else ""


@dataclass(frozen=True)
class Source:
    language: Language
    text: str

    @cached_property
    def tree(self) -> Tree:
        return parsed(self.language, self.text)

    @cached_property
    def lines(self) -> list[str]:
        lines = self.text.split("\n")
        return lines[:-1] if lines[-1] == "" else lines

    @property
    def errors(self) -> bool:
        return self.tree.root_node.has_error

    @cached_property
    def code(self) -> str:
        """The text without its comments."""
        raw, kept, place = self.text.encode(), b"", 0
        for node in walk(self.tree.root_node):
            if node.type in {"comment", "line_comment", "block_comment"}:
                kept += raw[place : node.start_byte]
                place = node.end_byte
        return (kept + raw[place:]).decode()

    @cached_property
    def units(self) -> list[Span]:
        """Definitions and statements that stand for themselves, with what is attached above."""
        return sorted({self._with_attached(node) for node in self._unit_nodes()})

    @cached_property
    def functions(self) -> list[tuple[Span, str]]:
        """All functions that are units, with their texts."""
        nodes = (node for node in self._unit_nodes() if _function(node))
        return [(self._with_attached(node), text_of(node)) for node in nodes]

    @cached_property
    def import_words(self) -> set[str]:
        found = (text_of(node) for node in walk(self.tree.root_node) if node.type in _IMPORTS)
        return {word for text in found for word in re.findall(r"\w+", text)}

    @cached_property
    def import_lines(self) -> set[int]:
        nodes = (node for node in walk(self.tree.root_node) if node.type in _IMPORTS)
        return {line for node in nodes for line in range(*_rows(node))}

    @cached_property
    def gaps(self) -> set[int]:
        """The lines before which something may stand without being inside something else."""
        rows = {0, len(self.lines)}
        for node in self._members(self.tree.root_node):
            rows |= set(_rows(node))
        return rows

    def unit(self, line: int) -> Span | None:
        return next((span for span in self.units if span.holds(line)), None)

    def top(self) -> list[Node]:
        return self.tree.root_node.named_children

    def named(self, name: str) -> list[Span]:
        """The definitions of this name, ``Class.method`` or plain."""
        *outer, last = name.split(".")
        nodes = (node for node in walk(self.tree.root_node) if name_of(node) == last)
        return [self._with_attached(_declaration(node)) for node in nodes if _within(node, outer)]

    def _members(self, node: Node) -> Iterator[Node]:
        for child in node.named_children:
            yield child
            if self._splits(child):
                yield from self._members(child)

    def _unit_nodes(self) -> Iterator[Node]:
        members = self._members(self.tree.root_node)
        yield from (node for node in members if not self._splits(node))

    def _splits(self, node: Node) -> bool:
        """Whether what is in it counts for itself: in classes, and in what wraps a whole file."""
        if node.type in _CONTAINERS:
            return True
        if node.type in {"block", "statement_block"} and node.parent is not None:
            return self._splits(node.parent)
        start, end = _rows(node)
        return end - start > max(_LONG, len(self.lines) // 2) and any(
            _function(below) for below in walk(node) if below.id != node.id
        )

    def _with_attached(self, node: Node) -> Span:
        start, end = _rows(node)
        while node.parent is not None and node.parent.type in _WRAPPERS:
            node = node.parent
            start = node.start_point.row
        above = node.prev_sibling
        while above is not None and above.type in _ATTACHED and _rows(above)[1] == start:
            start = _rows(above)[0]
            above = above.prev_sibling
        return Span(start, end)


def _rows(node: Node) -> tuple[int, int]:
    end = node.end_point
    # A node may end with its newline, at the start of the next line.
    return node.start_point.row, end.row + (end.column > 0)


def _function(node: Node) -> bool:
    return node.type in _FUNCTIONS


def name_of(node: Node) -> str | None:
    """What a definition is called; in C the name stands at the end of a chain of declarators."""
    if node.type == "impl_item":
        return text_of(node.child_by_field_name("type")).split("<")[0]
    if node.type in {"assignment_expression", "assignment"}:
        return text_of(node.child_by_field_name("left")).split(".")[-1]
    if node.type not in _FUNCTIONS | _CONTAINERS | _NAMED:
        return None
    inner: Node | None = node
    while inner is not None:
        if found := inner.child_by_field_name("name"):
            return text_of(found).split("::")[-1]
        if not inner.named_children and inner is not node:
            return text_of(inner)
        inner = inner.child_by_field_name("declarator")
    return None


def _declaration(node: Node) -> Node:
    """The whole statement that the definition is the content of."""
    while (above := node.parent) is not None and above.parent is not None:
        begins = above.start_point.row == node.start_point.row and above.type not in _BODIES
        if not begins and above.type not in _WRAPPERS:
            break
        node = above
    return node


def _within(node: Node, outer: list[str]) -> bool:
    waiting, above = list(outer), node.parent
    while waiting and above is not None:
        if name_of(above) == waiting[-1]:
            waiting.pop()
        above = above.parent
    return not waiting
