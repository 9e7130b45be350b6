"""Names that an edit uses and that its file binds nowhere, in every language but Python.

Without the rules of each language's scopes: a name counts only if it is nowhere in the file but
where it is called, read, named as a type or asked for a member. Whoever stands anywhere else may be
bound there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct
from tree_sitter import Node

from vivace.syntax.source import Source

__all__ = ["Use", "newly_used"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LEAVES = _words(
    "identifier type_identifier package_identifier namespace_identifier "
    "shorthand_property_identifier shorthand_property_identifier_pattern"
)
_CALLS = {
    ("call_expression", "function"),
    ("new_expression", "constructor"),
    ("generic_function", "function"),
    ("method_invocation", "name"),
    ("jsx_opening_element", "name"),
    ("jsx_self_closing_element", "name"),
}
_QUALIFIES = {
    ("member_expression", "object"),
    ("selector_expression", "operand"),
    ("qualified_type", "package"),
    ("nested_type_identifier", "module"),
    ("field_access", "object"),
    ("method_invocation", "object"),
    ("scoped_identifier", "path"),
    ("scoped_type_identifier", "path"),
}
_TYPES = {
    ("annotation", "name"),
    ("marker_annotation", "name"),
}
_MEMBERS = {
    ("qualified_type", "name"),
    ("nested_type_identifier", "name"),
    ("scoped_type_identifier", "name"),
    ("scoped_identifier", "name"),
    ("qualified_identifier", "name"),
    ("jsx_attribute", None),
}
"""Where a name is looked for in another one, which the file need not bind."""
_READS = _words(
    "arguments argument_list return_statement return_expression unary_expression "
    "await_expression spread_element array template_substitution ternary_expression "
    "parenthesized_expression reference_expression binary_expression jsx_expression "
    "field_expression"
)
_NAMES_A_TYPE = _words(
    "type_parameter type_parameters constrained_type_parameter optional_type_parameter "
    "const_parameter infer_type mapped_type_clause associated_type type_definition"
)
"""Where a type is bound without standing in a field for names."""
_MACROS = frozenset({"token_tree", "macro_definition", "attribute_item", "preproc_arg"})


class Use(Struct):
    """How a name is used."""

    called: bool = False
    typed: bool = False
    read: bool = False
    qualifies: bool = False
    members: set[str] = set()
    """What of it is used."""

    @property
    def used(self) -> bool:
        return self.called or self.typed or self.read or self.qualifies


def newly_used(before: Source, after: Source) -> dict[str, Use]:
    """The names that an edit brought into a file and did not bind there."""
    if after.language is None or before.language is not after.language:
        return {}
    found: dict[str, Use] = {}
    bound: set[str] = set()
    inner = [node for node in after.nodes({"mod_item"}) if node.child_by_field_name("body")]
    inner += after.nodes(after.language.imports)
    for node in after.nodes(_LEAVES, _changed(before, after)):
        name = (node.text or b"").decode("utf-8", "replace")
        apart = any(each.start_byte < node.start_byte < each.end_byte for each in inner)
        if apart or not _notes(node, found.setdefault(name, Use())):
            bound.add(name)
    raw = before.text.encode("utf-8", "surrogatepass")
    return {
        name: use
        for name, use in found.items()
        if use.used and name not in bound and not _stood(before, raw, name)
    }


def _changed(before: Source, after: Source) -> tuple[int, int]:
    """The lines from the first that is new to the last."""
    old, new = before.lines, after.lines
    most = min(len(old), len(new))
    start = next((at for at in range(most) if old[at] != new[at]), most)
    rest = most - start
    end = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    return start, len(new) - end


def _stood(source: Source, raw: bytes, name: str) -> bool:
    """Whether a name stands in a text as such, not in a comment or as another's member."""
    word = rb"(?<![\w$])" + re.escape(name.encode("utf-8", "surrogatepass")) + rb"(?![\w$])"
    for found in re.finditer(word, raw):
        at = found.start()
        node = source.tree.root_node.named_descendant_for_byte_range(at, at + 1)
        if node is None or node.type not in _LEAVES:
            continue
        if not _is_member(node) or _is_imported(node, source):
            return True
    return False


def _notes(node: Node, use: Use) -> bool:
    """Whether this is a use, of which a note is made, or stands for nothing; else it may bind."""
    parent = node.parent
    if parent is None or parent.type in _MACROS:
        return False
    if _is_member(node):
        return True
    if _is(node, _QUALIFIES):
        use.qualifies = True
        use.members.update(_member(parent))
    elif _is(node, _CALLS):
        use.called = True
    elif _is(node, _TYPES) or _is_type(node):
        use.typed = True
    elif parent.type in _READS:
        use.read = True
    else:
        return False
    return True


def _is(node: Node, places: Iterable[tuple[str, str | None]]) -> bool:
    parent = node.parent
    if parent is None:
        return False
    fields = [field for kind, field in places if kind == parent.type]
    return any(field is None or node in parent.children_by_field_name(field) for field in fields)


def _is_member(node: Node) -> bool:
    parent = node.parent
    if parent is None:
        return False
    if parent.type == "method_invocation":
        return _is(node, {("method_invocation", "name")}) and _has_object(parent)
    if parent.type == "scoped_type_identifier" and not parent.child_by_field_name("name"):
        return parent.named_children[0] != node  # Java's, whose names are in no fields
    return _is(node, _MEMBERS)


def _is_imported(node: Node, source: Source) -> bool:
    row = node.start_point.row
    imports = source.nodes(source.language.imports if source.language else (), (row, row + 1))
    return any(each.start_byte < node.start_byte < each.end_byte for each in imports)


def _has_object(call: Node) -> bool:
    return call.child_by_field_name("object") is not None


def _is_type(node: Node) -> bool:
    parent = node.parent
    if node.type != "type_identifier" or parent is None or parent.type in _NAMES_A_TYPE:
        return False
    return parent.type == "struct_expression" or parent.child_by_field_name("name") != node


def _member(parent: Node) -> Iterable[str]:
    for field in ("property", "field", "name"):
        found = parent.child_by_field_name(field)
        if found is not None:
            return ((found.text or b"").decode("utf-8", "replace"),)
    return ()
