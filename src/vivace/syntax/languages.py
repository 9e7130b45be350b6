"""The languages we can read, in one table: what a definition, an import and a comment are in each.

Code is read with tree-sitter, never with regular expressions. A grammar comes as a wheel of its
own; nothing is downloaded when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType

import tree_sitter
import tree_sitter_c
import tree_sitter_cpp
import tree_sitter_go
import tree_sitter_java
import tree_sitter_javascript
import tree_sitter_python
import tree_sitter_rust
import tree_sitter_typescript
from msgspec import Struct
from tree_sitter import Node, Parser, Point, Query, QueryCursor, Tree

__all__ = [
    "LANGUAGES",
    "SCRIPTS",
    "Language",
    "errors_in",
    "field_id",
    "kind_id",
    "language_of",
    "nests_too_deep",
    "nodes_of",
    "parse",
    "row_after",
    "walk",
]

_DEEPEST = 300
"""Brackets in brackets; no person writes so many."""
_NO_BRACKETS = bytes(each for each in range(256) if each not in b"()[]{}")


class Language(Struct, frozen=True, kw_only=True, eq=False):
    """One row: names of node types are the grammar's."""

    name: str
    """Also what stands behind a fence."""
    suffixes: tuple[str, ...]
    grammar: Callable[[], object]
    definitions: Mapping[str, str]
    """Node type -> ``function`` or ``class``."""
    imports: frozenset[str]
    wrappers: frozenset[str] = frozenset()
    """What may stand around a definition and belongs to it: decorators, ``export``, templates."""
    leading: frozenset[str] = frozenset({"comment"})
    """What may stand before a definition and belongs to it."""
    comment: str = "//"


def _kinds(functions: str, classes: str) -> Mapping[str, str]:
    kinds = dict.fromkeys(functions.split(), "function")
    return MappingProxyType(kinds | dict.fromkeys(classes.split(), "class"))


_SCRIPT = _kinds(
    "function_declaration generator_function_declaration method_definition variable_declarator "
    "assignment_expression",
    "class_declaration abstract_class_declaration interface_declaration enum_declaration "
    "type_alias_declaration",
)
_SCRIPT_WRAPPERS = frozenset(
    {"export_statement", "expression_statement", "lexical_declaration", "variable_declaration"}
)
_C_CLASSES = "struct_specifier union_specifier enum_specifier type_definition"
_INCLUDES = frozenset({"preproc_include", "using_declaration"})

LANGUAGES: tuple[Language, ...] = (
    Language(
        name="python",
        suffixes=(".py", ".pyi"),
        grammar=tree_sitter_python.language,
        definitions=_kinds("function_definition", "class_definition"),
        imports=frozenset({"import_statement", "import_from_statement", "future_import_statement"}),
        wrappers=frozenset({"decorated_definition"}),
        comment="#",
    ),
    Language(
        name="javascript",
        suffixes=(".js", ".mjs", ".cjs", ".jsx"),
        grammar=tree_sitter_javascript.language,
        definitions=_SCRIPT,
        imports=frozenset({"import_statement"}),
        wrappers=_SCRIPT_WRAPPERS,
        leading=frozenset({"comment", "decorator"}),
    ),
    Language(
        name="typescript",
        suffixes=(".ts", ".mts", ".cts"),
        grammar=tree_sitter_typescript.language_typescript,
        definitions=_SCRIPT,
        imports=frozenset({"import_statement"}),
        wrappers=_SCRIPT_WRAPPERS,
        leading=frozenset({"comment", "decorator"}),
    ),
    Language(
        name="tsx",
        suffixes=(".tsx",),
        grammar=tree_sitter_typescript.language_tsx,
        definitions=_SCRIPT,
        imports=frozenset({"import_statement"}),
        wrappers=_SCRIPT_WRAPPERS,
        leading=frozenset({"comment", "decorator"}),
    ),
    Language(
        name="c",
        suffixes=(".c", ".h"),
        grammar=tree_sitter_c.language,
        definitions=_kinds("function_definition", _C_CLASSES),
        imports=_INCLUDES,
    ),
    Language(
        name="cpp",
        suffixes=(".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"),
        grammar=tree_sitter_cpp.language,
        definitions=_kinds("function_definition", "class_specifier " + _C_CLASSES),
        imports=_INCLUDES,
        wrappers=frozenset({"template_declaration"}),
    ),
    Language(
        name="go",
        suffixes=(".go",),
        grammar=tree_sitter_go.language,
        definitions=_kinds("function_declaration method_declaration", "type_declaration"),
        imports=frozenset({"import_declaration"}),
    ),
    Language(
        name="rust",
        suffixes=(".rs",),
        grammar=tree_sitter_rust.language,
        definitions=_kinds(
            "function_item", "struct_item enum_item trait_item impl_item mod_item union_item"
        ),
        imports=frozenset({"use_declaration"}),
        leading=frozenset({"line_comment", "block_comment", "attribute_item"}),
    ),
    Language(
        name="java",
        suffixes=(".java",),
        grammar=tree_sitter_java.language,
        definitions=_kinds(
            "method_declaration constructor_declaration",
            "class_declaration interface_declaration enum_declaration record_declaration",
        ),
        imports=frozenset({"import_declaration"}),
        leading=frozenset({"line_comment", "block_comment"}),
    ),
)

SCRIPTS = ("javascript", "typescript", "tsx")
"""The names of those that are JavaScript, with types or without."""

_BY_SUFFIX = {suffix: language for language in LANGUAGES for suffix in language.suffixes}


def language_of(path: str) -> Language | None:
    """By the end of its name; ``None`` where we cannot read it, which an edit can live with."""
    name = path.replace("\\", "/").rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    return _BY_SUFFIX.get(dot + suffix.lower()) if stem else None


def nests_too_deep(text: str) -> bool:
    """Whether to leave a text unread. A node finds its parent by going down from the root, so to
    ask each for its own takes a time that is quadratic in the depth."""
    depth = 0
    for bracket in text.encode("utf-8", "surrogatepass").translate(None, delete=_NO_BRACKETS):
        depth += 1 if bracket in b"([{" else -1 if depth else 0
        if depth > _DEEPEST:
            return True
    return False


@cache
def _grammar(language: Language) -> tree_sitter.Language:
    return tree_sitter.Language(language.grammar())


@cache
def _parser(language: Language) -> Parser:
    return Parser(_grammar(language))


def kind_id(language: Language, kind: str) -> int | None:
    """The number of a kind of named nodes, if the grammar has it."""
    return _grammar(language).id_for_node_kind(kind, True)


def field_id(language: Language, field: str) -> int | None:
    """The number of a field of nodes, if the grammar has it."""
    return _grammar(language).field_id_for_name(field)


def parse(text: str, language: Language, edited: Tree | None = None) -> Tree:
    """``edited`` is the tree of the text before, told what was touched: only that is read again."""
    raw, parser = text.encode("utf-8", "surrogatepass"), _parser(language)
    return parser.parse(raw) if edited is None else parser.parse(raw, edited)


@cache
def _query(language: Language, types: frozenset[str]) -> Query | None:
    grammar = _grammar(language)
    there = [each for each in sorted(types) if grammar.id_for_node_kind(each, True) is not None]
    return Query(grammar, f"[{''.join(f'({each})' for each in there)}] @it") if there else None


def nodes_of(
    tree: Tree, language: Language, types: frozenset[str], rows: tuple[int, int] | None = None
) -> list[Node]:
    """All named nodes of these types, as far as the grammar has them, in the order of the text and
    outer before inner; with ``rows``, those that touch the lines from the first up to the second.
    Far cheaper than to walk."""
    query = _query(language, types)
    if query is None:
        return []
    cursor = QueryCursor(query)
    if rows is not None:
        cursor.set_point_range(Point(rows[0], 0), Point(rows[1], 0))
    found = cursor.captures(tree.root_node).get("it", [])
    return sorted(found, key=lambda node: (node.start_byte, -node.end_byte))


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, in the order of the text."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def row_after(node: Node) -> int:
    """The line after its last one. What takes its line's end with it, as doc comments of Rust do,
    ends at the beginning of that."""
    return node.end_point.row + (node.end_point.column > 0)


def errors_in(tree: Tree) -> list[int]:
    """The lines on which the text breaks the grammar; empty for a right one."""
    return [node.start_point.row for node in _wrong(tree.root_node)]


def _wrong(node: Node) -> Iterator[Node]:
    """Those that break the grammar, in the order of the text; what is right is not looked into."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.has_error:
            if node.is_error or node.is_missing:
                yield node
            waiting.extend(reversed(node.children))
