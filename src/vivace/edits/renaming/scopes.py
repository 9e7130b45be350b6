"""Which of the places where a name stands mean the same thing: the scopes of one file.

Only one name is looked at. Each of its places is a ``Site`` with a role; those that declare it make
``Binding``s, and those that read it belong to the innermost binding that reaches them. What cannot
be told from the syntax alone (a member of some object, a word in a macro) is said to be just that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

from msgspec import Struct, field
from tree_sitter import Node

from vivace.edits.renaming.scope_rules import RULES, Kind, Reach, Rules
from vivace.syntax.source import Source

__all__ = ["Binding", "Names", "Role", "Site", "above", "field_of", "names_in", "word_leaves"]

Role = Literal["declared", "read", "member", "keyword", "label", "tag", "path", "token", "unknown"]
"""``keyword`` is the name of an argument in a call, ``tag`` that of a struct in C, ``path`` a name
behind ``::`` or in an import, ``token`` one in a macro's brackets, ``unknown`` nothing we know."""

_TYPE_LEAVES = frozenset({"type_identifier"})
_C_TAGS = frozenset({"struct_specifier", "union_specifier", "enum_specifier"})
_BODIES = frozenset({"block", "statement_block", "compound_statement", "constructor_body"})
_TOKENS = frozenset({"token_tree", "token_tree_pattern", "macro_rule", "attribute_item"})


class Binding(Struct, eq=False, kw_only=True):
    """One thing that has the name."""

    scope: Node
    kind: Kind
    reach: Reach
    start: int
    end: int
    """The bytes in which it can be meant."""
    hole: tuple[int, int] = (0, 0)
    """Bytes among these that belong to the scope around."""
    declarations: list[Node] = field(default_factory=list)

    def reaches(self, node: Node) -> bool:
        at = node.start_byte
        return self.start <= at < self.end and not self.hole[0] <= at < self.hole[1]


class Site(Struct, frozen=True, eq=False):
    node: Node
    role: Role
    binding: Binding | None = None
    short: bool = False
    """It names a field as well, which keeps its name."""


class Names(Struct, frozen=True, eq=False):
    """All places of a name in a file, and what they mean."""

    sites: Sequence[Site]
    bindings: Sequence[Binding]
    meant_at: Callable[[Node], Binding | None]
    """What the name would mean where this node stands."""

    def of(self, binding: Binding) -> list[Site]:
        return [site for site in self.sites if site.binding is binding]


def names_in(source: Source, name: str) -> Names:
    assert source.language is not None
    return _Reader(source, name, RULES[source.language.name]).read()


def word_leaves(root: Node, name: str) -> list[Node]:
    """The named leaves below a node that are spelled so."""
    wanted, text = name.encode(), root.text or b""
    found: list[Node] = []
    for each in re.finditer(rb"(?<![\w$])" + re.escape(wanted) + rb"(?![\w$])", text):
        start, end = root.start_byte + each.start(), root.start_byte + each.end()
        node = root.descendant_for_byte_range(start, end)
        exact = node is not None and (node.start_byte, node.end_byte) == (start, end)
        if node is not None and exact and node.is_named and not node.child_count:
            found.append(node)
    return found


def above(node: Node) -> Iterator[Node]:
    """What a node stands in, from the inside out."""
    outer = node.parent
    while outer is not None:
        yield outer
        outer = outer.parent


def field_of(node: Node) -> str:
    """``parent.field`` of a node, as the tables have it."""
    parent = node.parent
    if parent is None:
        return ""
    for at, child in enumerate(parent.children):
        if child == node:
            return f"{parent.type}.{parent.field_name_for_child(at) or ''}"
    return ""


class _Reader:
    def __init__(self, source: Source, name: str, rules: Rules) -> None:
        assert source.language is not None
        self._language = source.language.name
        self._root = source.tree.root_node
        self._rules = rules
        self._leaves = word_leaves(self._root, name)
        self._bindings: dict[tuple[int, ...], Binding] = {}
        self._elsewhere: dict[int, str] = {}
        """Python's functions that say ``global`` or ``nonlocal`` of the name."""

    def read(self) -> Names:
        for node in self._leaves:
            outer = node.parent
            if outer is not None and outer.type in ("global_statement", "nonlocal_statement"):
                self._elsewhere[self._scope(outer, self._rules.functions).id] = outer.type
        owned = {node.id: self._declared(node) for node in self._leaves}
        sites = [self._site(node, owned[node.id]) for node in self._leaves]
        meant_at = partial(self._meant, role="read", place="")
        return Names(sites, list(self._bindings.values()), meant_at)

    # -- declarations -----------------------------------------------------------------------------

    def _declared(self, node: Node) -> Binding | None:
        """The binding that this very place makes, or makes part of."""
        if any(outer.type in _TOKENS for outer in above(node)):
            return None
        inner, place = self._outermost(node)
        row = self._rules.declares.get(place)
        if row is None or not self._really(node, inner, place, row[1]):
            return None
        declaring = inner.parent
        assert declaring is not None
        reach, kind = self._refined(declaring, inner, *row)
        return self._bind(node, declaring, reach, kind)

    def _outermost(self, node: Node) -> tuple[Node, str]:
        """The pattern that a name is part of, and where that stands."""
        inner, place = node, field_of(node)
        while place in self._rules.patterns and inner.parent is not None:
            if place == "dotted_name." and inner.parent.named_child(0) != inner:
                return inner, ""
            if place == "structured_binding_declarator." and node.type != "identifier":
                return inner, ""
            inner = inner.parent
            place = field_of(inner)
        if place == "as_pattern." and inner.parent is not None:
            outer = inner.parent.parent
            if outer is not None and outer.type == "case_pattern" and inner.type == "identifier":
                return inner, "case_pattern."
        return inner, place

    def _really(self, node: Node, inner: Node, place: str, kind: Kind) -> bool:
        """Whether what looks like a declaration is one."""
        parent = inner.parent
        assert parent is not None
        if node.type in _TYPE_LEAVES and kind != "type":
            return False
        if place == "for_in_statement.left":
            return parent.child_by_field_name("kind") is not None
        if place == "import_specifier.name":
            return parent.child_by_field_name("alias") is None
        if place == "case_pattern." and inner.type == "dotted_name":
            return inner.named_child_count == 1
        if place.removesuffix(".name") in _C_TAGS | {"class_specifier"}:
            return parent.child_by_field_name("body") is not None
        if self._language == "rust" and kind in ("variable", "parameter"):
            item = place in ("const_item.name", "static_item.name")
            return item or not (node.text or b"").decode()[:1].isupper()
        return True

    def _refined(
        self, declaring: Node, inner: Node, reach: Reach, kind: Kind
    ) -> tuple[Reach, Kind]:
        if declaring.type == "variable_declarator" and declaring.parent is not None:
            reach = "function" if declaring.parent.type == "variable_declaration" else reach
        if declaring.type == "for_in_statement":
            word = declaring.child_by_field_name("kind")
            reach = "function" if word is not None and word.type == "var" else "within"
        if declaring.type == "declaration" and inner.type == "function_declarator":
            kind = "function"
        return reach, kind

    def _bind(self, node: Node, declaring: Node, reach: Reach, kind: Kind) -> Binding | None:
        scope = self._owner(declaring, reach)
        said = self._elsewhere.get(scope.id)
        if said is not None and reach == "function":
            return None  # it is read there, and means what the statement says
        start, end = self._extent(scope, declaring, node, reach)
        key: tuple[int, ...] = (scope.id, int(kind == "method"))
        if (self._rules.own_let and reach == "after") or reach == "flow":
            key = (*key, declaring.start_byte)
        found = self._bindings.get(key)
        if found is None:
            found = Binding(scope=scope, kind=kind, reach=reach, start=start, end=end)
            found.hole = self._hole(scope)
            self._bindings[key] = found
        found.start = min(found.start, start)
        if kind == "import" or found.kind == "variable":
            found.kind = kind
        found.declarations.append(node)
        return found

    def _owner(self, declaring: Node, reach: Reach) -> Node:
        if reach == "prototype":
            return self._of_parameters(declaring)
        if reach in ("function", "flow"):
            return self._scope(declaring, self._rules.functions)
        if reach in ("within", "arm", "then") and declaring.type in self._rules.scopes:
            return declaring
        around = self._scope(declaring, self._rules.scopes)
        # A template is around what it makes a template of, and names only its parameters.
        template = around.type == "template_declaration" and declaring.parent == around
        return self._scope(around, self._rules.scopes) if template else around

    def _scope(self, node: Node, types: frozenset[str]) -> Node:
        """The innermost scope around a node. The body of a function is the function itself, but
        for Rust, where it may declare a parameter's name anew."""
        for outer in above(node):
            if outer.type not in types:
                continue
            parent = outer.parent
            of_function = parent is not None and parent.type in self._rules.functions
            if outer.type in _BODIES and of_function and not self._rules.own_let:
                continue
            return outer
        return self._root

    def _of_parameters(self, declaring: Node) -> Node:
        """What C's parameters belong to: a function with a body, a lambda, a template, or only the
        declaration they stand in."""
        outer = declaring.parent.parent if declaring.parent is not None else None
        if outer is None or declaring.parent is None:
            return self._root
        if declaring.parent.type == "template_parameter_list":
            return outer
        if outer.type == "abstract_function_declarator" and outer.parent is not None:
            return outer.parent if outer.parent.type == "lambda_expression" else outer
        if outer.type == "catch_clause":
            return outer
        head = outer
        while head.parent is not None and head.parent.type in (
            "pointer_declarator",
            "reference_declarator",
        ):
            head = head.parent
        if head.parent is not None and head.parent.type == "function_definition":
            return head.parent
        return outer

    def _extent(self, scope: Node, declaring: Node, node: Node, reach: Reach) -> tuple[int, int]:
        start, end = scope.start_byte, scope.end_byte
        body = scope.child_by_field_name("body")
        if self._language == "python":
            return (body.start_byte, body.end_byte) if body is not None else (start, end)
        match reach:
            case "after" | "flow":
                start = declaring.end_byte
            case "next":
                start = node.end_byte
            case "within" | "prototype":
                start = node.start_byte
            case "arm":
                value = scope.child_by_field_name("value")
                switch = scope.type == "type_switch_statement" and value is not None
                begin = value if switch else body
                start = begin.start_byte if begin is not None else node.start_byte
                start = value.end_byte if switch and value is not None else start
            case "then":
                inside = scope.child_by_field_name("consequence") or body
                start, end = declaring.end_byte, inside.end_byte if inside is not None else end
            case _:
                pass
        return start, end

    def _hole(self, scope: Node) -> tuple[int, int]:
        """What a comprehension loops over is read outside of it."""
        clause = next((each for each in scope.children if each.type == "for_in_clause"), None)
        first = clause.child_by_field_name("right") if clause is not None else None
        return (first.start_byte, first.end_byte) if first is not None else (0, 0)

    # -- what is read -----------------------------------------------------------------------------

    def _site(self, node: Node, owned: Binding | None) -> Site:
        place = field_of(node)
        short = node.type in self._rules.short or place in self._rules.short
        if owned is not None:
            return Site(node, "declared", owned, short)
        role = self._role(node, place)
        binding = self._meant(node, "read" if role == "token" else role, place)
        return Site(node, role, binding, short)

    def _role(self, node: Node, place: str) -> Role:
        rules = self._rules
        if any(outer.type in _TOKENS for outer in above(node)):
            return "token"
        if node.type in rules.members or place in rules.members:
            return "member"
        if node.type in rules.labels or place in rules.labels:
            return "label"
        if place in rules.paths or place.startswith(("preproc_", "macro_definition")):
            return "path"
        if place == "keyword_argument.name":
            return "keyword"
        if self._language == "c" and place.removesuffix(".name") in _C_TAGS:
            return "tag"
        if place == "dotted_name.":
            return self._dotted(node)
        parent = node.parent
        if place == "method_invocation.name" and parent is not None:
            return "member" if parent.child_by_field_name("object") is not None else "read"
        if place == "keyed_element.key" or place == "literal_element.":
            return _of_literal(node)
        known = node.type.endswith("identifier") or node.type in rules.short
        return "read" if known else "unknown"

    def _dotted(self, node: Node) -> Role:
        """Python's names with dots in imports and patterns."""
        assert node.parent is not None
        outside = field_of(node.parent)
        if node.parent.named_child(0) != node:
            return "path" if outside.startswith("import") else "member"
        return "path" if outside in self._rules.paths or outside.startswith("import") else "read"

    def _meant(self, node: Node, role: Role, place: str) -> Binding | None:
        if role != "read":
            return None
        called = place == "method_invocation.name"
        fitting = [
            each
            for each in self._bindings.values()
            if each.reaches(node)
            and (each.kind == "method") == called
            and not self._hidden(each, node)
        ]
        size = lambda each: (each.scope.end_byte - each.scope.start_byte, -each.start)  # noqa: E731
        return min(fitting, key=size, default=None)

    def _hidden(self, binding: Binding, node: Node) -> bool:
        """Whether something stands between them through which the name is not seen."""
        between = []
        for outer in above(node):
            if outer == binding.scope:
                break
            between.append(outer)
        if self._language == "python":
            scopes = [each for each in between if each.type in self._rules.scopes]
            if any(self._elsewhere.get(each.id) == "global_statement" for each in scopes):
                return binding.scope != self._root
            if binding.scope.type == "class_definition":
                return any(each.reaches_body(node) for each in map(_Body, scopes))
        if self._language == "rust":
            walls = {"mod_item"} if binding.reach == "around" else {"mod_item", "function_item"}
            inner = [each for each in between if each.type in walls]
            return bool(inner) and not (
                len(inner) == 1 and inner[0].type == "mod_item" and _takes_all(inner[0])
            )
        return False


class _Body(Struct, frozen=True):
    """A scope of Python, for what is evaluated in it and not around it."""

    scope: Node

    def reaches_body(self, node: Node) -> bool:
        body = self.scope.child_by_field_name("body") or self.scope
        return body.start_byte <= node.start_byte < body.end_byte


def _takes_all(module: Node) -> bool:
    """Whether a module of Rust says ``use super::*``."""
    body = module.child_by_field_name("body")
    uses = [each for each in body.children if each.type == "use_declaration"] if body else []
    return any((each.text or b"").replace(b" ", b"") == b"usesuper::*;" for each in uses)


def _of_literal(node: Node) -> Role:
    """What the key of an element is in Go: a field of a struct, or a variable as key of a map."""
    element = node if field_of(node).startswith("keyed_element") else node.parent
    if element is None or not field_of(element).startswith("keyed_element.key"):
        return "read"
    outer = next((each for each in above(element) if each.type == "composite_literal"), None)
    kind = outer.child_by_field_name("type") if outer is not None else None
    direct = outer is not None and element.parent is not None
    body = outer.child_by_field_name("body") if outer is not None else None
    if kind is None or not direct or element.parent is None or element.parent.parent != body:
        return "unknown"
    if kind.type in ("map_type", "array_type", "slice_type", "implicit_length_array_type"):
        return "read"
    return "member" if kind.type == "type_identifier" and _is_struct(kind) else "unknown"


def _is_struct(kind: Node) -> bool:
    """Whether the file says of a type that it is a struct."""
    root = [*above(kind)][-1]
    for leaf in word_leaves(root, (kind.text or b"").decode()):
        if field_of(leaf) == "type_spec.name" and leaf.parent is not None:
            made_of = leaf.parent.child_by_field_name("type")
            return made_of is not None and made_of.type == "struct_type"
    return False
