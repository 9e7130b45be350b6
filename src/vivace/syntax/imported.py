"""What a file imports, one name at a time: how one file does it is how another one may.

Paths that start at the file itself are left out, since they lead elsewhere from another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct
from tree_sitter import Node

from vivace.syntax.languages import walk
from vivace.syntax.source import Source

__all__ = ["Imported", "imported_by"]

_VERSION = re.compile(r"/v\d+$|\.v\d+$")


class Imported(Struct, frozen=True, array_like=True):
    name: str
    """What it is called in the file."""
    module: str
    """In Java and Rust with the name of what is imported."""
    member: str = ""
    """What of the module; empty for all of it, ``*`` for a script's namespace."""


def imported_by(source: Source) -> tuple[Imported, ...]:
    read = _READERS.get(source.language.name) if source.language else None
    found = (each for node in source.top for each in read(node)) if read else ()
    return tuple(each for each in found if each.name.isidentifier())


def _text(node: Node | None) -> str:
    return (node.text or b"").decode("utf-8", "replace") if node else ""


def _python(node: Node) -> Iterator[Imported]:
    module = _text(node.child_by_field_name("module_name"))
    if node.type not in ("import_statement", "import_from_statement") or module.startswith("."):
        return
    for each in node.children_by_field_name("name"):
        name = _text(each.child_by_field_name("name")) or _text(each)
        called = _text(each.child_by_field_name("alias")) or name
        yield Imported(called, module, name) if module else Imported(called, name)


def _script(node: Node) -> Iterator[Imported]:
    if node.type == "import_statement":
        module = _text(node.child_by_field_name("source")).strip("'\"")
        if not module.startswith("."):
            yield from _clause(node, module)
    elif node.type in ("lexical_declaration", "variable_declaration"):
        for each in node.named_children:
            value = _text(each.child_by_field_name("value"))
            required = re.fullmatch(r"require\(['\"]([^.'\"][^'\"]*)['\"]\)", value)
            if required:
                yield from _pattern(each.child_by_field_name("name"), required[1])


def _clause(node: Node, module: str) -> Iterator[Imported]:
    for each in walk(node):
        if each.type == "import_clause" and each.named_children[0].type == "identifier":
            yield Imported(_text(each.named_children[0]), module)
        elif each.type == "namespace_import":
            yield Imported(_text(each.named_children[0]), module, "*")
        elif each.type == "import_specifier":
            name = _text(each.child_by_field_name("name"))
            yield Imported(_text(each.child_by_field_name("alias")) or name, module, name)


def _pattern(node: Node | None, module: str) -> Iterator[Imported]:
    if node is not None and node.type == "identifier":
        yield Imported(_text(node), module)
    for each in node.named_children if node else ():
        if each.type == "shorthand_property_identifier_pattern":
            yield Imported(_text(each), module, _text(each))


def _go(node: Node) -> Iterator[Imported]:
    for each in walk(node) if node.type == "import_declaration" else ():
        if each.type == "import_spec":
            path = _text(each.child_by_field_name("path")).strip('"')
            alias = _text(each.child_by_field_name("name"))
            last = _VERSION.sub("", path).rpartition("/")[2]
            yield Imported(alias or last, path, alias)


def _java(node: Node) -> Iterator[Imported]:
    words = _text(node).rstrip(";").split()
    if node.type == "import_declaration" and not words[-1].endswith("*"):
        static = "static" if "static" in words else ""
        yield Imported(words[-1].rpartition(".")[2], words[-1], static)


def _rust(node: Node) -> Iterator[Imported]:
    if node.type == "use_declaration":
        for name, path in _used(node.child_by_field_name("argument"), ""):
            if not path.startswith(("self::", "super::")):
                yield Imported(name, path)


def _used(node: Node | None, above: str) -> Iterator[tuple[str, str]]:
    """The names that a tree of Rust's ``use`` brings, with their whole paths."""
    if node is None:
        return
    if node.type == "scoped_use_list":
        above += _text(node.child_by_field_name("path")) + "::"
        yield from _used(node.child_by_field_name("list"), above)
    elif node.type == "use_list":
        for each in node.named_children:
            yield from _used(each, above)
    elif node.type == "self":
        yield above[:-2].rpartition("::")[2], above[:-2]
    elif node.type in ("identifier", "scoped_identifier"):
        yield _text(node).rpartition("::")[2], above + _text(node)


_READERS: dict[str, Callable[[Node], Iterator[Imported]]] = {
    "python": _python,
    "javascript": _script,
    "typescript": _script,
    "tsx": _script,
    "go": _go,
    "java": _java,
    "rust": _rust,
}
