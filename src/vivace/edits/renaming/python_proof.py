"""What a rename can break in Python: names as text, names of arguments, and what others import."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from tree_sitter import Node

from vivace.edits.renaming.proofs import Case, Doubtful, docstring
from vivace.edits.renaming.scopes import Binding, above, field_of, names_in
from vivace.syntax.languages import walk

__all__ = ["python"]

_BY_NAME = frozenset({b"locals", b"vars", b"eval", b"exec", b"dir", b"globals"})
"""Functions that know variables by their names."""
_CODE = re.compile(r"[\w.\[\]|,\s]+")
_PROSE = re.compile(r"\w\s+\w")
_OWN_NAME = (b"__name__", b"__qualname__")


def python(case: Case) -> None:
    scope = case.binding.scope
    if scope.type == "class_definition":
        why = f"`{case.old}` is an attribute, and of which object it is used cannot be seen"
        raise Doubtful(why, by_types=True)
    _dynamic(case)
    _shown(case)
    if case.of_file:
        _module(case)
    if case.binding.kind == "parameter" and scope.type == "function_definition":
        _parameter(case, scope)


def _dynamic(case: Case) -> None:
    for node in case.source.nodes({"wildcard_import", "call"}):
        if node.type == "wildcard_import" and case.of_file:
            raise Doubtful("an import of everything may bring the name, too")
        called = node.child_by_field_name("function") if node.type == "call" else None
        if called is None or called.text not in _BY_NAME:
            continue
        if case.of_file or case.inside(node):
            name = (called.text or b"").decode()
            raise Doubtful(f"{name}() in line {node.start_point.row + 1} knows it by its name")


def _shown(case: Case) -> None:
    for site in case.sites:
        for outer in above(site.node):
            if outer.type == "interpolation" and any(each.type == "=" for each in outer.children):
                raise Doubtful(
                    f"an f-string shows the name itself in line {outer.start_point.row + 1}"
                )
        parent = site.node.parent
        asked = parent.child_by_field_name("attribute") if parent is not None else None
        if asked is not None and asked.text in _OWN_NAME:
            raise Doubtful(f"line {asked.start_point.row + 1} reads the name itself")


def _module(case: Case) -> None:
    exported = list(_exported(case))
    private = case.old.startswith("_") and not exported
    known = case.elsewhere is not None and case.old in case.elsewhere
    if known or (not private and case.known_elsewhere(case.old)):
        case.unsure.append(f"other files may use `{case.old}`")
    _decorated(case)
    _examples(case, rf"\b{re.escape(case.old)}\b")
    for node in exported:
        case.change(node)
    word = re.compile(rf"\b{re.escape(case.old)}\b")
    for node in case.source.nodes({"string_content"}):
        if node in exported:
            continue
        text = (node.text or b"").decode("utf-8", "replace")
        line = node.start_point.row + 1
        alone = _CODE.fullmatch(text) and not _PROSE.search(text)
        if alone and word.search(text) and not docstring(node):
            raise Doubtful(f"the text in line {line} may stand for `{case.old}`")


def _examples(case: Case, use: str) -> None:
    """Those in docstrings are run as well."""
    run = re.compile(rf"^\s*(?:>>>|\.\.\.).*{use}", re.MULTILINE)
    for node in case.source.nodes({"string_content"}):
        if docstring(node) and run.search((node.text or b"").decode("utf-8", "replace")):
            line = node.start_point.row + 1
            raise Doubtful(f"the examples in the text of line {line} use `{case.old}`")


def _decorated(case: Case) -> None:
    """What decorates it may hand it to whoever asks for it by name: fixtures of tests are."""
    definitions = [each.parent for each in case.binding.declarations]
    if not any(each is not None and _is_decorated(each) for each in definitions):
        return
    for site in case.names.sites:
        if site.role == "keyword" or (site.role == "declared" and site.binding is not case.binding):
            line = site.node.start_point.row + 1
            raise Doubtful(f"`{case.old}` is decorated, and may be what is named in line {line}")


def _is_decorated(definition: Node) -> bool:
    return definition.parent is not None and definition.parent.type == "decorated_definition"


def _exported(case: Case) -> Iterator[Node]:
    """The name in ``__all__``."""
    for node in case.source.top:
        for assigned in node.named_children if node.type == "expression_statement" else ():
            left = assigned.child_by_field_name("left")
            if left is not None and left.text == b"__all__":
                yield from (
                    each
                    for each in walk(assigned)
                    if each.type == "string_content" and each.text == case.old.encode()
                )


# -- parameters -----------------------------------------------------------------------------------


def _parameter(case: Case, function: Node) -> None:
    """Calls may name it: all of them have to be known."""
    if not _by_keyword(case.binding.declarations[0], function):
        return
    if _is_decorated(function):
        raise Doubtful("the function is decorated, so its arguments may be known by their names")
    name = function.child_by_field_name("name")
    called = (name.text or b"").decode() if name is not None else ""
    if called.startswith(("test", "pytest_")):
        raise Doubtful("a test gets its arguments by their names")
    texts = case.source.nodes({"string_content"})
    if any(each.text == case.old.encode() for each in texts):
        raise Doubtful(f"`**` may pass `{case.old}` by keyword: its name is a text of the file")
    _examples(case, rf"\b{re.escape(case.old)}\s*=(?!=)")
    names = names_in(case.source, called)
    own = next((each for each in names.bindings if name in each.declarations), None)
    if own is None or own.scope.type == "class_definition":
        _method(case, called)
        return
    public = own.scope == case.root and not called.startswith("_")
    if public and case.known_elsewhere(called) and case.known_elsewhere(case.old):
        case.unsure.append(f"other files may pass `{case.old}` to {called} by keyword")
    for site in names.of(own):
        if site.role != "declared":
            _call(case, site.node, called)
    _declared_alone(own, called)


def _declared_alone(own: Binding, called: str) -> None:
    if len(own.declarations) > 1:
        raise Doubtful(f"{called} is defined several times")


def _by_keyword(node: Node, function: Node) -> bool:
    """Whether a call may name this parameter at all."""
    parameters = function.child_by_field_name("parameters")
    inside = takewhile(lambda outer: outer != parameters, above(node))
    if any(each.type.endswith("splat_pattern") for each in inside):
        return False
    ends = [each for each in (parameters.children if parameters else ()) if each.text == b"/"]
    return not any(node.start_byte < each.start_byte for each in ends)


def _method(case: Case, called: str) -> None:
    used = [site for site in case.names.sites if site.role == "keyword"]
    if used or case.known_elsewhere(case.old):
        case.unsure.append(f"others may pass `{case.old}` to the method {called} by keyword")


def _call(case: Case, node: Node, called: str) -> None:
    call = node.parent
    line = node.start_point.row + 1
    if call is None or field_of(node) != "call.function":
        raise Doubtful(f"{called} is passed on in line {line}, and may be called by keyword")
    arguments = call.child_by_field_name("arguments")
    for each in arguments.named_children if arguments is not None else ():
        if each.type == "dictionary_splat":
            raise Doubtful(f"the call in line {line} may pass `{case.old}` by **")
        name = each.child_by_field_name("name") if each.type == "keyword_argument" else None
        if name is not None and name.text == case.old.encode():
            case.change(name)
