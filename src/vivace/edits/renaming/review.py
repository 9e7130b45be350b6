"""A rename that a language server made, looked at before anybody takes it.

A server knows the types it knows: a method of an object without one it leaves as it was, and says
nothing. So each place where the old name still stands has to be explained, by the scopes of its
file or by the server, which can be asked what stands there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from tree_sitter import Node

from vivace.edits.renaming.proofs import docstring
from vivace.edits.renaming.renames import asked
from vivace.edits.renaming.scopes import Site, field_of, names_in
from vivace.syntax.languages import walk
from vivace.syntax.source import Source

__all__ = ["Pointed", "against", "pointed_at", "position_of", "unexplained"]

_MEMBERS = frozenset(
    {
        "method_definition.name",
        "public_field_definition.name",
        "field_definition.property",
        "property_signature.name",
        "method_signature.name",
        "field_declaration.declarator",
        "field_declaration.name",
        "method_declaration.name",
        "method_elem.name",
        "function_declarator.declarator",
        "pointer_declarator.declarator",
        "array_declarator.declarator",
    }
)
"""Where a member is declared."""
_OWNERS = frozenset({"impl_item", "trait_item"})
_TEXTS = frozenset({"string_content", "string_fragment", "interpreted_string_literal_content"})


class Pointed(Struct, frozen=True, eq=False):
    """The place where a server is to rename."""

    node: Node
    old: str
    new: str
    member: bool
    parameter: bool


def pointed_at(source: Source, rows: tuple[int, int], instruction: str) -> Pointed | None:
    """The one thing of that name which these lines declare; None if there is not just one."""
    rename = asked(instruction)
    if rename is None or len(rename.names) != 1 or source.language is None or source.errors:
        return None
    [(old, new)] = rename.names
    names = names_in(source, old)
    declared = [
        (each.declarations[0], each.kind, _is_member(each.scope))
        for each in names.bindings
        if rows[0] <= each.declarations[0].start_point.row < rows[1]
    ]
    members = [
        site.node
        for site in names.sites
        if site.role == "member"
        and field_of(site.node) in _MEMBERS
        and rows[0] <= site.node.start_point.row < rows[1]
    ]
    wanted = rename.noun in ("method", "field", "property", "attribute", "member")
    if wanted:
        declared = [each for each in declared if each[2]]
    elif rename.noun in ("parameter", "param", "argument"):
        declared, members = [each for each in declared if each[1] == "parameter"], []
    if len(declared) + len(members) != 1:
        return None
    if members:
        return Pointed(members[0], old, new, member=True, parameter=False)
    node, kind, member = declared[0]
    return Pointed(node, old, new, member, kind == "parameter")


def _is_member(scope: Node) -> bool:
    owner = scope.parent.type if scope.parent is not None else ""
    return scope.type == "class_definition" or owner in _OWNERS


def position_of(source: Source, node: Node) -> tuple[int, int]:
    """Line and column as the protocol counts them: in units of UTF-16."""
    row, column = node.start_point
    before = source.lines[row].encode("utf-8", "surrogatepass")[:column]
    return row, len(before.decode("utf-8", "surrogatepass").encode("utf-16-le")) // 2


def against(pointed: Pointed, before: Source, after: Source) -> str | None:
    """What speaks against the change of one file, whatever the server knows."""
    old, new = pointed.old, pointed.new
    if len(after.errors) > len(before.errors):
        return "the code would not be read any more"
    if before.text != after.text:
        for site in names_in(before, new).sites:
            if (site.role == "member") == pointed.member and site.role not in ("label", "tag"):
                return f"`{new}` means something else in line {site.node.start_point.row + 1}"
    word = re.compile(rf"(?<![\w$])(?:{re.escape(old)}|{re.escape(new)})(?![\w$])")
    for node in walk(after.tree.root_node):
        text = (node.text or b"").decode("utf-8", "replace") if not node.child_count else ""
        line = node.start_point.row + 1
        if node.type == "preproc_arg" and word.search(text):
            return f"the macro in line {line} may use it"
        if node.type in _TEXTS and not docstring(node) and _names(text, old):
            return f"the text in line {line} may stand for `{old}`"
    return None


def _names(text: str, old: str) -> bool:
    return text == old or text.endswith("." + old)


def unexplained(pointed: Pointed, after: Source) -> Iterator[Site]:
    """Places where the old name stands after the rename, and might mean what was renamed."""
    outer = after.is_in("c", "cpp", "go")
    for site in names_in(after, pointed.old).sites:
        role, binding = site.role, site.binding
        if role in ("label", "tag") or (role == "keyword" and not pointed.parameter):
            continue
        of_file = binding is not None and binding.scope.parent is None
        own = binding is not None and binding.kind != "import" and not (outer and of_file)
        if own and (not pointed.member or not _is_member(binding.scope if binding else site.node)):
            continue
        if own and role == "declared" and not _inherits(site.node):
            continue
        if pointed.parameter and role == "member":
            continue
        yield site


def _inherits(node: Node) -> bool:
    """Whether a method of Python may take the place of one that was renamed."""
    outer = node.parent
    while outer is not None and outer.type != "class_definition":
        outer = outer.parent
    return outer is not None and outer.child_by_field_name("superclasses") is not None
