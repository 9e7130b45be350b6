"""Whether a rename is certain: every place that has to follow it is known, and nothing else would.

A proof is given up with a reason, which is told to the person: the rename is then asked of a model
and looked at, like any other edit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct, field
from tree_sitter import Node

from vivace.edits.renaming.scopes import Binding, Names, Site, above, field_of, names_in
from vivace.errors import EditError
from vivace.syntax.languages import SCRIPTS, parse
from vivace.syntax.source import Source

__all__ = ["Case", "Change", "Doubtful", "applied", "docstring", "prove"]

Change = tuple[int, int, bytes]
"""From this byte to that one, these instead."""

_APART = frozenset({"member", "keyword", "label", "tag"})
"""Roles in which a name is never taken for a variable."""
_COMMENTS = frozenset({"comment", "line_comment", "block_comment"})
_ORDERS = re.compile(r"\s*(?://\s*(?:go:|export\b)|#\s*type:)")
"""Comments that a compiler or a checker obeys."""
_RESERVED = {
    "go": "_ init main",
    "java": "goto const _",
    "c": "errno stdin stdout stderr assert linux unix complex I typeof asm main",
    "cpp": "errno stdin stdout stderr assert linux unix typeof asm main",
    "javascript": "arguments eval await yield let static implements interface package",
    "rust": "main _",
    "python": "_ __name__ __file__ __all__ self cls super",
}
"""Names that no grammar refuses and that are taken all the same."""


class Doubtful(EditError):
    """What speaks against doing the rename unseen."""

    def __init__(self, why: str, *, by_types: bool = False) -> None:
        super().__init__(why)
        self.by_types = by_types
        """Whether one who knows the types and the other files could tell."""


class Case(Struct, eq=False, kw_only=True):
    """One thing that is to have a new name, and what follows from that."""

    source: Source
    old: str
    new: str
    names: Names
    binding: Binding
    elsewhere: frozenset[str] | None
    """Words of other files; None where they are not known."""
    changes: dict[int, Change] = field(default_factory=dict)
    unsure: list[str] = field(default_factory=list)
    """What only the types and the other files can tell."""

    @property
    def language(self) -> str:
        assert self.source.language is not None
        return self.source.language.name

    @property
    def root(self) -> Node:
        return self.source.tree.root_node

    @property
    def sites(self) -> list[Site]:
        return self.names.of(self.binding)

    @property
    def of_file(self) -> bool:
        """Whether it belongs to the file, not to a function of it."""
        functions = (each.type for each in (self.binding.scope, *above(self.binding.scope)))
        return not any(_IS_FUNCTION.search(each) for each in functions)

    def inside(self, node: Node) -> bool:
        scope = self.binding.scope
        return scope.start_byte <= node.start_byte < scope.end_byte

    def change(self, node: Node, put: str | None = None) -> None:
        self.changes[node.start_byte] = (
            node.start_byte,
            node.end_byte,
            (self.new if put is None else put).encode(),
        )

    def known_elsewhere(self, name: str) -> bool:
        """Whether another file may use this name of ours."""
        return self.elsewhere is None or name in self.elsewhere


_IS_FUNCTION = re.compile(
    r"function_definition|function_declaration|function_item|function_expression|lambda|closure|"
    r"arrow_function|method_d|constructor_declaration|func_literal|block$|compound_statement|"
    r"comprehension|generator|function_declarator|template_declaration"
)


def prove(case: Case, rules: Iterable[Callable[[Case], None]]) -> None:
    """Find all changes of a case; Doubtful where it is not certain. The rules are those of its
    language."""
    for check in (_reserved, _declared_once, _not_taken, *rules, _every_place):
        check(case)
    if case.unsure:
        raise Doubtful(case.unsure[0], by_types=True)
    _written(case)
    _comments(case)


def _reserved(case: Case) -> None:
    language = "javascript" if case.language in SCRIPTS else case.language
    words = _RESERVED.get(language, "").split()
    for word in (case.old, case.new):
        if word in words or (word.startswith("__") and word.endswith("__")):
            raise Doubtful(f"`{word}` is a macro or a name with a meaning of its own")


def _declared_once(case: Case) -> None:
    binding = case.binding
    bodies = [
        node for node in binding.declarations if field_of(_head(node)).startswith("function_defin")
    ]
    prototypes = len(binding.declarations) - len(bodies)
    several = {
        "c": len(bodies) > 1,
        "cpp": binding.kind == "function" and (len(bodies) > 1 or prototypes > 1),
        "java": len(binding.declarations) > 1,
        "typescript": binding.kind == "function" and len(binding.declarations) > 1,
        "python": binding.kind in ("function", "type") and len(binding.declarations) > 1,
    }
    flows = [each for each in case.names.bindings if each.reach == "flow"]
    crowded = flows and len(case.names.bindings) > 1
    if several.get(case.language, False) or (crowded and case.language == "java"):
        case.unsure.append(f"`{case.old}` is declared several times, as different things perhaps")


def _head(node: Node) -> Node:
    while node.parent is not None and node.parent.type.endswith("declarator"):
        node = node.parent
    return node


def _not_taken(case: Case) -> None:
    apart = _APART if case.binding.kind not in ("field", "method") else frozenset({"label"})
    for site in names_in(case.source, case.new).sites:
        if case.inside(site.node) and site.role not in apart:
            line = site.node.start_point.row + 1
            raise Doubtful(f"`{case.new}` means something else in line {line}")


def _every_place(case: Case) -> None:
    """No place is left of which it is not known whether it is meant."""
    for site in case.names.sites:
        if site.node.start_byte in case.changes or not case.inside(site.node):
            continue
        line = site.node.start_point.row + 1
        if site.binding is case.binding:
            kind_of_leaf = site.node.type == "type_identifier"
            ambiguous = case.language in ("c", "cpp")  # where only the name tells what it is
            if kind_of_leaf and case.binding.kind not in ("type", "import") and not ambiguous:
                case.unsure.append(f"`{case.old}` is read as a type in line {line}")
            if site.role == "token":
                raise Doubtful(f"a macro uses `{case.old}` in line {line}")
        elif site.role == "unknown":
            case.unsure.append(
                f"in line {line} `{case.old}` may be a field of a literal, or a variable"
            )
        elif case.of_file and site.role == "token":
            raise Doubtful(f"a macro uses `{case.old}` in line {line}")
        elif case.of_file and site.role == "path":
            case.unsure.append(f"line {line} names `{case.old}` by a path")
        elif case.of_file and site.role == "read" and site.binding is None:
            case.unsure.append(f"what `{case.old}` means in line {line} is not certain")


def _written(case: Case) -> None:
    for site in case.sites:
        if site.node.start_byte not in case.changes:
            case.change(site.node, f"{case.old}: {case.new}" if site.short else None)


def _comments(case: Case) -> None:
    """Comments follow where the word in them can only be the name."""
    telling = re.search(r"_|\d|[a-z][A-Z]", case.old)
    word = re.compile(rf"(?<![\w$]){re.escape(case.old)}(?![\w$])".encode())
    for node in _remarks(case):
        text = (node.text or b"").decode("utf-8", "replace")
        found = list(word.finditer(node.text or b""))
        if found and _ORDERS.match(text) and node.type in _COMMENTS:
            raise Doubtful(f"the comment in line {node.start_point.row + 1} is obeyed")
        for each in found if telling else ():
            start = node.start_byte + each.start()
            case.changes[start] = (start, node.start_byte + each.end(), case.new.encode())


def _remarks(case: Case) -> Iterator[Node]:
    for node in case.source.nodes(_COMMENTS | {"string_content"}):
        remark = node.type in _COMMENTS or (case.language == "python" and docstring(node))
        if remark and case.inside(node):
            yield node


def docstring(node: Node) -> bool:
    """Whether this is the text of a string that stands for itself."""
    if node.type != "string_content" or node.parent is None:
        return False
    return field_of(node.parent) == "expression_statement."


def applied(source: Source, changes: Sequence[Change]) -> str:
    """The text after the changes; Doubtful where they make something else of the code."""
    raw = source.text.encode("utf-8", "surrogatepass")
    for first, last, put in sorted(changes, reverse=True):
        raw = raw[:first] + put + raw[last:]
    text = raw.decode("utf-8", "surrogatepass")
    assert source.language is not None
    plain = not any(b": " in put for _, _, put in changes)
    after = parse(text, source.language).root_node
    if after.has_error or (plain and str(after) != str(source.tree.root_node)):
        raise Doubtful("the code would read otherwise with that name")
    return text
