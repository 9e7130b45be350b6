"""What a file defines for other files, and what they must know of it to import that.

Only what stands at the top of a file counts, and what is passed on from elsewhere does not: a name
has one home. What no other package may use is kept apart, because files of the same package do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace
from tree_sitter import Node

from vivace.syntax.imported import Imported, imported_by
from vivace.syntax.languages import walk
from vivace.syntax.source import Source

__all__ = ["UNREAD", "Exports", "exports_of"]


class Exports(Struct, frozen=True, array_like=True):
    names: tuple[str, ...] = ()
    """Whatever may be imported from elsewhere."""
    own: tuple[str, ...] = ()
    """Whatever only the file or its package sees."""
    package: str = ""
    """What Go and Java say at the top."""
    default: str = ""
    """The name of what a script exports without one."""
    includes: tuple[str, ...] = ()
    """What it imports itself in Python, Go and C, as it is written."""
    imported: tuple[Imported, ...] = ()
    """What it imports itself, name by name."""
    unread: bool = False
    """Whether it may define anything."""


UNREAD = Exports(unread=True)


def exports_of(source: Source) -> Exports:
    if source.language is None or source.language.name not in _READERS:
        return UNREAD
    found = _READERS[source.language.name](source.top)
    return replace(found, imported=imported_by(source))


def _text(node: Node | None) -> str:
    return (node.text or b"").decode("utf-8", "replace") if node else ""


def _named(node: Node, *fields: str) -> str:
    return next((_text(found) for each in fields if (found := node.child_by_field_name(each))), "")


def _parted(pairs: Iterator[tuple[str, bool]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those for others and those that are not, each once."""
    found = dict(pairs)
    return (
        tuple(name for name, public in found.items() if name and public),
        tuple(name for name, public in found.items() if name and not public),
    )


# -- Python ---------------------------------------------------------------------------------------

_BRANCHES = frozenset(
    {"if_statement", "else_clause", "elif_clause", "try_statement", "except_clause", "block"}
)


def _python(top: Sequence[Node]) -> Exports:
    defined: list[str] = []
    imported: list[str] = []
    listed: set[str] | None = None
    for node in _unfolded(top, _BRANCHES):
        imported += _imported_in_python(node)
        bound = list(_bound_in_python(node))
        defined += bound
        if bound == ["__all__"]:
            strings = (each for each in walk(node) if each.type == "string_content")
            listed = {_text(each) for each in strings}
    names, own = _parted((name, _is_public(name, listed)) for name in defined)
    return Exports(names, own, includes=tuple(dict.fromkeys(imported)))


def _imported_in_python(node: Node) -> Iterator[str]:
    """Modules; what is imported from a package may be one too."""
    module = _named(node, "module_name") if node.type == "import_from_statement" else ""
    if module:
        yield module
    if module or node.type == "import_statement":
        dot = "." if module.strip(".") else ""
        for each in node.children_by_field_name("name"):
            name = _named(each, "name") or _text(each)
            yield f"{module}{dot}{name}"


def _is_public(name: str, listed: set[str] | None) -> bool:
    return name in listed if listed is not None else not name.startswith("_")


def _unfolded(nodes: Sequence[Node], folds: frozenset[str]) -> Iterator[Node]:
    """Statements, those in branches of the top level too."""
    for node in nodes:
        if node.type in folds and "TYPE_CHECKING" not in _named(node, "condition"):
            yield from _unfolded(node.named_children, folds)
        else:
            yield node


def _bound_in_python(node: Node) -> Iterator[str]:
    if node.type == "decorated_definition":
        node = node.child_by_field_name("definition") or node
    if node.type in ("function_definition", "class_definition"):
        yield _named(node, "name")
    elif node.type == "type_alias_statement":
        yield _named(node, "left").partition("[")[0]
    elif node.type == "expression_statement" and node.named_children:
        bound = node.named_children[0].child_by_field_name("left")
        parts = bound.named_children if bound and bound.type == "pattern_list" else [bound]
        yield from (_text(each) for each in parts if each and each.type == "identifier")


# -- scripts --------------------------------------------------------------------------------------


def _script(top: Sequence[Node]) -> Exports:
    names: list[str] = []
    own: list[str] = []
    default = ""
    for node in top:
        if node.type == "export_statement":
            declared = node.child_by_field_name("declaration")
            found = list(_declared(declared)) if declared else list(_clause(node))
            if any(child.type == "default" for child in node.children):
                default = next(iter(found), "") or _named(node, "value")
            else:
                names += found
        elif node.type == "expression_statement":
            found, whole = _common(node)
            names += found
            default = whole or default
        else:
            own += _declared(node)
    kept = [name for name in dict.fromkeys(own) if name not in names]
    return Exports(
        tuple(dict.fromkeys(names)), tuple(kept), default=default if default.isidentifier() else ""
    )


def _declared(node: Node) -> Iterator[str]:
    if node.type in ("lexical_declaration", "variable_declaration"):
        names = (each.child_by_field_name("name") for each in node.named_children)
        yield from (_text(each) for each in names if each and each.type == "identifier")
    elif node.type == "ambient_declaration":
        for child in node.named_children:
            yield from _declared(child)
    elif node.type != "import_statement":
        yield _named(node, "name")


def _clause(node: Node) -> Iterator[str]:
    if node.child_by_field_name("source"):
        return  # passed on from elsewhere
    for each in walk(node):
        if each.type == "export_specifier":
            yield _named(each, "alias", "name")


def _common(statement: Node) -> tuple[list[str], str]:
    """What CommonJS exports in a statement: names, and the whole of it."""
    for node in statement.named_children[:1]:
        left, right = _named(node, "left"), node.child_by_field_name("right")
        if left in ("module.exports", "exports") and right and right.type == "object":
            return [name for each in right.named_children if (name := _property(each))], ""
        if left == "module.exports":
            return [], _text(right) if right and right.type == "identifier" else ""
        head, _, name = left.rpartition(".")
        if head in ("module.exports", "exports"):
            return [name], ""
    return [], ""


def _property(node: Node) -> str:
    if node.type == "shorthand_property_identifier":
        return _text(node)
    return _named(node, "key", "name")


# -- Go, Rust, Java -------------------------------------------------------------------------------


def _go(top: Sequence[Node]) -> Exports:
    package = next((_text(each)[8:].strip() for each in top if each.type == "package_clause"), "")
    names, own = _parted((name, name[:1].isupper()) for node in top for name in _bound_in_go(node))
    imports = [each for each in top if each.type == "import_declaration"]
    paths = (
        _named(each, "path").strip('"')
        for node in imports
        for each in walk(node)
        if each.type == "import_spec"
    )
    return Exports(names, own, package, includes=tuple(paths))


def _bound_in_go(node: Node) -> Iterator[str]:
    if node.type == "function_declaration":
        yield _named(node, "name")
    elif node.type in ("var_declaration", "const_declaration", "type_declaration"):
        for each in walk(node):
            if each.type in ("var_spec", "const_spec", "type_spec", "type_alias"):
                yield from (_text(name) for name in each.children_by_field_name("name"))


def _rust(top: Sequence[Node]) -> Exports:
    return Exports(*_parted(_bound_in_rust(top)))


def _bound_in_rust(top: Sequence[Node]) -> Iterator[tuple[str, bool]]:
    for node in top:
        if node.type.endswith("_item") and node.type not in ("impl_item", "attribute_item"):
            public = any(child.type == "visibility_modifier" for child in node.children)
            yield _named(node, "name"), public
        elif node.type == "macro_definition":
            yield _named(node, "name"), False


_JAVA_KINDS = "class interface enum record annotation_type"
_JAVA_TYPES = frozenset(f"{each}_declaration" for each in _JAVA_KINDS.split())


def _java(top: Sequence[Node]) -> Exports:
    names: list[str] = []
    own: list[str] = []
    package = ""
    for node in top:
        if node.type == "package_declaration":
            package = _text(node.named_children[-1])
        elif node.type in _JAVA_TYPES:
            public = any("public" in _text(each) for each in node.children[:1])
            (names if public else own).append(_named(node, "name"))
            own += _members(node)
    return Exports(tuple(names), tuple(dict.fromkeys(own)), package)


def _members(node: Node) -> Iterator[str]:
    """What a class hands down: types and methods."""
    body = node.child_by_field_name("body")
    for each in body.named_children if body else ():
        if each.type in _JAVA_TYPES or each.type == "method_declaration":
            yield _named(each, "name")
        if each.type in _JAVA_TYPES:
            yield from _members(each)


# -- C and C++ ------------------------------------------------------------------------------------

_FOLDS = (
    "preproc_ifdef preproc_if preproc_else preproc_elif linkage_specification declaration_list "
    "namespace_definition template_declaration ERROR"
)
_AROUND = frozenset(_FOLDS.split())


def _c(top: Sequence[Node]) -> Exports:
    names: list[str] = []
    includes: list[str] = []
    for node in _unfolded(top, _AROUND):
        if node.type == "preproc_include":
            includes.append(_named(node, "path"))
        elif node.type in ("preproc_def", "preproc_function_def"):
            names.append(_named(node, "name"))
        else:
            names += _declared_in_c(node)
    found = dict.fromkeys(name for name in names if name.isidentifier())
    return Exports(tuple(found), includes=tuple(includes))


def _declared_in_c(node: Node) -> Iterator[str]:
    kind = node if node.type.endswith("_specifier") else node.child_by_field_name("type")
    if kind and kind.child_by_field_name("body"):
        yield _named(kind, "name")
        if kind.type == "enum_specifier":
            yield from (_named(each, "name") for each in walk(kind) if each.type == "enumerator")
    if node.type == "alias_declaration":
        yield _named(node, "name")
    for declared in node.children_by_field_name("declarator"):
        inner: Node | None = declared
        while inner and not inner.type.endswith("identifier"):
            inner = inner.child_by_field_name("declarator") or next(
                (each for each in inner.named_children if each.type.endswith("identifier")), None
            )
        yield _text(inner)


_READERS: dict[str, Callable[[Sequence[Node]], Exports]] = {
    "python": _python,
    "javascript": _script,
    "typescript": _script,
    "tsx": _script,
    "go": _go,
    "rust": _rust,
    "java": _java,
    "c": _c,
    "cpp": _c,
}
