"""What each language has of its own that a rename can break, and how it is ruled out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from tree_sitter import Node

from vivace.edits.renaming.proofs import Case, Doubtful
from vivace.edits.renaming.python_proof import python
from vivace.edits.renaming.scopes import Binding, Site, above, field_of, names_in

__all__ = ["BY_LANGUAGE"]

_FORMATTED = frozenset(
    b"print println eprint eprintln format format_args write writeln panic assert assert_eq "
    b"assert_ne debug_assert debug_assert_eq debug_assert_ne todo unimplemented unreachable vec "
    b"dbg".split()
)
"""Macros of Rust's library whose arguments are plain expressions."""
_HARMLESS = re.compile(
    r"#!?\[(?:allow|warn|deny|inline|must_use|derive|doc|cfg|test|deprecated|cold|track_caller)\b"
)
_PASTED = re.compile(r"\w+(?:[\s\\]*##[\s\\]*\w+)+")
"""Words of which a macro makes one."""
_OF_OBJECT = frozenset(
    [
        "clone",
        "equals",
        "finalize",
        "getClass",
        "hashCode",
        "notify",
        "notifyAll",
        "toString",
        "wait",
    ]
)


def _imported(case: Case) -> None:
    if case.binding.kind == "import":
        case.unsure.append(f"`{case.old}` is an import: it has its name in another file")


def _others(case: Case, name: str = "") -> None:
    if case.known_elsewhere(name or case.old):
        case.unsure.append(f"other files may use `{name or case.old}`")


def _nodes(case: Case, *types: str) -> Iterator[Node]:
    return iter(case.source.nodes(types))


def _up_to_scope(case: Case, node: Node) -> Iterator[Node]:
    for outer in above(node):
        if outer == case.binding.scope:
            return
        yield outer


# -- JavaScript and TypeScript --------------------------------------------------------------------


def _script(case: Case) -> None:
    for node in _nodes(case, "with_statement", "call_expression", "new_expression"):
        called = node.child_by_field_name("function") or node.child_by_field_name("constructor")
        runs = called is not None and called.text in (b"eval", b"Function")
        if (runs or node.type == "with_statement") and (case.of_file or case.inside(node)):
            raise Doubtful(f"eval, Function or with in line {node.start_point.row + 1} may use it")
    for site in case.sites:
        _script_site(case, site)
    if case.of_file and case.binding.scope == case.root:
        _script_file(case)


def _script_site(case: Case, site: Site) -> None:
    parent = site.node.parent
    if parent is None:
        return
    if parent.type.startswith("jsx_") and case.old[:1].isupper() != case.new[:1].isupper():
        raise Doubtful(f"`{case.new}` would be no component any more")
    if site.role == "declared":
        outer = next((each for each in above(site.node) if each.type.endswith("_parameter")), None)
        words = {each.type for each in outer.children} if outer is not None else set()
        if words & {"accessibility_modifier", "readonly", "override_modifier"}:
            raise Doubtful(f"`{case.old}` is a field of its class as well")
    name = parent.child_by_field_name("property") if parent.type == "member_expression" else None
    if name is not None and name.text == b"name" and _is_callable(case):
        raise Doubtful(f"line {name.start_point.row + 1} reads the name itself")


def _is_callable(case: Case) -> bool:
    declared = case.binding.declarations[0].parent
    value = declared.child_by_field_name("value") if declared is not None else None
    made = value is not None and ("function" in value.type or value.type == "class")
    return made or case.binding.kind in ("function", "type")


def _script_file(case: Case) -> None:
    text = case.source.text
    module = re.search(r"\bmodule\.exports\b|\bexports\.\w|\brequire\(", text) or any(
        node.type in ("import_statement", "export_statement") for node in case.source.top
    )
    if not module:
        raise Doubtful(f"this is no module, so other scripts may use `{case.old}`")
    for site in case.sites:
        outer = list(_up_to_scope(case, site.node))
        exports = [
            each.type for each in outer if each.type in ("export_statement", "export_specifier")
        ]
        declared = site.role == "declared" and not any(
            each.type in ("statement_block", "class_body") for each in outer
        )
        if "export_specifier" in exports or (exports and declared):
            _others(case)


# -- C and C++ ------------------------------------------------------------------------------------


def _c(case: Case) -> None:
    includes = [node.child_by_field_name("path") for node in _nodes(case, "preproc_include")]
    quoted = any(path is not None and path.type == "string_literal" for path in includes)
    _macros(case, quoted=quoted)
    for each in case.names.bindings:
        # `T x(a * b);` reads as a function of a parameter `b`, and is none.
        local = any(outer.type == "compound_statement" for outer in above(each.scope))
        if local and (each.scope.type == "function_declarator" or _is_product(case, each)):
            raise Doubtful(f"`{case.old}` may be a parameter or a value there, several things")
    for site in case.sites:
        _in_class(case, site.node)
    if includes and case.new.isupper():
        raise Doubtful(f"`{case.new}` may be a macro of a header")
    storage = {
        (word.text or b"")
        for node in case.binding.declarations
        for outer in above(node)
        if outer.type in ("declaration", "function_definition")
        for word in outer.children
        if word.type == "storage_class_specifier"
    }
    if not case.of_file:
        if b"extern" in storage:
            _others(case)
        return
    simple = includes and re.fullmatch(r"[a-z]+\d*|\w+_t|(?:pthread|posix|str|mem)_\w+", case.new)
    if simple:
        raise Doubtful(f"a header may declare `{case.new}`")
    if case.language == "cpp" and case.binding.kind == "type" and len(case.names.bindings) > 1:
        raise Doubtful(f"`{case.old}` has constructors or members of its name, several things")
    if not _of_this_unit(case, storage, quoted=quoted):
        _others(case)


def _is_product(case: Case, binding: Binding) -> bool:
    """``a * b;`` reads as the declaration of a pointer, and is none where `a` is a variable."""
    for node in binding.declarations:
        outer = next((each for each in above(node) if each.type == "declaration"), None)
        kind = outer.child_by_field_name("type") if outer is not None else None
        if kind is not None and kind.type == "type_identifier":
            meant = names_in(case.source, (kind.text or b"").decode()).meant_at(kind)
            if meant is not None and meant.kind != "type":
                return True
    return False


def _in_class(case: Case, node: Node) -> None:
    """In a class, or in a method that is defined outside of it, a name may be a member."""
    for outer in _up_to_scope(case, node):
        head = outer.child_by_field_name("declarator") if case.of_file else None
        method = head is not None and b"::" in (head.text or b"").partition(b"(")[0]
        if outer.type == "field_declaration_list" or (method and case.language == "cpp"):
            line = node.start_point.row + 1
            raise Doubtful(f"`{case.old}` in line {line} may be a member of the class")


def _of_this_unit(case: Case, storage: set[bytes], *, quoted: bool) -> bool:
    """Whether no other file can see it, whatever it says."""
    guarded = any(node.type == "preproc_ifdef" for node in case.source.top)
    if guarded or "#pragma once" in case.source.text:
        return False
    scopes = (case.binding.scope, *above(case.binding.scope))
    unnamed = any(
        each.type == "namespace_definition" and each.child_by_field_name("name") is None
        for each in scopes
    )
    own_type = case.language == "c" and case.binding.kind == "type" and not quoted
    return b"static" in storage or unnamed or own_type


def _macros(case: Case, *, quoted: bool) -> None:
    showing: set[bytes] = set()
    own: set[bytes] = set()
    for node in _nodes(case, "preproc_def", "preproc_function_def"):
        name, body = node.child_by_field_name("name"), node.child_by_field_name("value")
        taken = node.child_by_field_name("parameters")
        text = (body.text or b"").decode("utf-8", "replace") if body is not None else ""
        words = set(re.findall(r"\w+", text)) | {((name and name.text) or b"").decode()}
        given = (
            set(re.findall(r"\w+", (taken.text or b"").decode())) if taken is not None else set()
        )
        hit = (words - given) & {case.old, case.new}
        hit |= {each for each in (case.old, case.new) if _pasted(case, each, text, given)}
        if hit:
            line = node.start_point.row + 1
            raise Doubtful(f"the macro in line {line} uses `{hit.pop()}` of whoever uses it")
        own.add((name.text or b"") if name is not None else b"")
        showing |= {(name.text or b"")} if "#" in text and name is not None else set()
    for node in _nodes(case, "call_expression"):
        called = node.child_by_field_name("function")
        text = (called.text or b"").decode() if called is not None else ""
        foreign = quoted and text.isupper() and text.encode() not in own and case.inside(node)
        inside = any(node.start_byte <= s.node.start_byte < node.end_byte for s in case.sites)
        if foreign or (inside and text.encode() in showing):
            raise Doubtful(f"the macro {text} in line {node.start_point.row + 1} may use its name")


def _pasted(case: Case, name: str, body: str, given: set[str]) -> bool:
    """Whether a macro may put the name together of words of its own and those it is given. Without
    any of its own it makes everything; then the file has to have the others."""
    there = set(re.findall(r"\w+", case.source.text)) - {name}
    pieces = "|".join(each for each in sorted(there) if each in name)
    for pasted in _PASTED.findall(body):
        parts = re.findall(r"\w+", pasted)
        other = r"\w*" if set(parts) - given else f"(?:{pieces})"
        if re.fullmatch("".join(other if each in given else each for each in parts), name):
            return True
    return False


# -- Go -------------------------------------------------------------------------------------------


def _go(case: Case) -> None:
    if not case.of_file:
        return
    for site in case.sites:
        embedded = next(
            (each for each in above(site.node) if each.type == "field_declaration"), None
        )
        if embedded is not None and embedded.child_by_field_name("name") is None:
            raise Doubtful(f"`{case.old}` is a field as well, where it is embedded")
    _others(case)


# -- Rust -----------------------------------------------------------------------------------------


def _rust(case: Case) -> None:
    local = case.binding.kind in ("variable", "parameter") and not case.of_file
    if local and case.new[:1].isupper():
        raise Doubtful(f"`{case.new}` would be a constant in a pattern")
    outer = case.binding.scope.parent
    if outer is not None and outer.type in ("impl_item", "trait_item"):
        why = f"`{case.old}` belongs to an object, and whose it is the types must tell"
        raise Doubtful(why, by_types=True)
    if case.of_file:
        _rust_item(case)
    for site in case.names.sites:
        if site.role == "path" and _leads_here(case, site.node):
            case.change(site.node)
        elif site.binding is case.binding and site.role == "token":
            _rust_token(case, site.node)
        elif site.short and site.binding is case.binding:
            parent = site.node.parent
            if parent is not None and parent.type == "field_pattern" and parent.child_count > 1:
                raise Doubtful("a field is bound in short there, with `mut` or `ref`")
    _rust_texts(case)


def _rust_item(case: Case) -> None:
    for node in case.binding.declarations:
        item = node.parent
        while item is not None and not item.type.endswith("_item"):
            item = item.parent
        if item is None:
            continue
        if any(each.type == "visibility_modifier" for each in item.children):
            _others(case)
        before = item.prev_named_sibling
        while before is not None and before.type == "attribute_item":
            if not _HARMLESS.match((before.text or b"").decode()):
                raise Doubtful(f"an attribute of `{case.old}` may use its name")
            before = before.prev_named_sibling
    for module in _nodes(case, "mod_item"):
        if module.child_by_field_name("body") is None:
            _others(case)


def _leads_here(case: Case, node: Node) -> bool:
    """``super::name`` and ``self::name``, where that is the module of the binding."""
    parent = node.parent
    path = parent.child_by_field_name("path") if parent is not None else None
    if path is None or path.type not in ("super", "self"):
        return False
    modules = [each for each in above(node) if each.type in ("mod_item", "source_file")]
    at = 1 if path.type == "super" else 0
    module = modules[at] if at < len(modules) else None
    body = module.child_by_field_name("body") if module is not None else None
    return case.binding.scope in (module, body)


def _rust_token(case: Case, node: Node) -> None:
    """A name among the tokens of a macro: an expression, if the macro is known to take some."""
    line = node.start_point.row + 1
    trees = [each for each in above(node) if each.type == "token_tree"]
    macro = trees[-1].parent if trees else None
    name = macro.child_by_field_name("macro") if macro is not None else None
    words = {child.type for tree in trees for child in tree.children}
    siblings = node.parent.children if node.parent is not None else []
    at = siblings.index(node)
    before = siblings[at - 1].type if at else ""
    after = siblings[at + 1].type if at + 1 < len(siblings) else ""
    if before == "." and name is not None:
        case.changes[node.start_byte] = (node.start_byte, node.end_byte, case.old.encode())
        return
    if name is None or name.text not in _FORMATTED or words & {"|", "||", "=>", "let", "{", "!"}:
        raise Doubtful(f"a macro uses `{case.old}` in line {line}")
    if "::" in (before, after) or after in ("=", ":") or before == "'":
        raise Doubtful(f"a macro may mean something else by `{case.old}` in line {line}")
    case.change(node)


def _rust_texts(case: Case) -> None:
    """``"{name}"`` in a text that is formatted."""
    shown = re.compile(rf"\{{{re.escape(case.old)}(?=[:}}])")
    for node in _nodes(case, "string_content"):
        raw = (node.text or b"").decode("utf-8", "replace").replace("{{", "\0\0")
        if case.of_file and raw == case.old:
            raise Doubtful(f"the text in line {node.start_point.row + 1} is its name")
        if case.of_file or case.names.meant_at(node) is not case.binding:
            continue
        trees = [each for each in above(node) if each.type == "token_tree"]
        macro = trees[-1].parent if trees else None
        name = macro.child_by_field_name("macro") if macro is not None else None
        found = list(shown.finditer(raw))
        sized = re.search(rf"\b{re.escape(case.old)}\$", raw)
        if trees and (sized or (found and (name is None or name.text not in _FORMATTED))):
            raise Doubtful(f"a macro may use `{case.old}` in line {node.start_point.row + 1}")
        for each in found if trees else ():
            start = node.start_byte + len(raw[: each.start() + 1].encode())
            case.changes[start] = (start, start + len(case.old.encode()), case.new.encode())


# -- Java -----------------------------------------------------------------------------------------


def _java(case: Case) -> None:
    kind = case.binding.kind
    for site in case.sites:
        for outer in _up_to_scope(case, site.node):
            if outer.type == "class_body" and site.role == "read" and _inherits(outer):
                line = site.node.start_point.row + 1
                raise Doubtful(f"`{case.old}` in line {line} may be inherited")
    for node in case.binding.declarations:
        declared = next((each for each in above(node) if _modifiers(each) is not None), None)
        if kind == "parameter" and declared is not None and declared.type == "formal_parameter":
            raise Doubtful(f"`{case.old}` has modifiers, by which its name may be read")
    if kind in ("field", "method"):
        _java_member(case)
    elif kind == "type" and case.of_file:
        _java_type(case)


def _modifiers(node: Node) -> str | None:
    found = next((each for each in node.children if each.type == "modifiers"), None)
    return None if found is None else (found.text or b"").decode()


def _inherits(body: Node) -> bool:
    owner = body.parent
    if owner is None or owner.type == "object_creation_expression":
        return True
    return any(each.type in ("superclass", "super_interfaces") for each in owner.children)


def _java_private(case: Case) -> bool:
    declared = next(
        each for each in above(case.binding.declarations[0]) if each.type.endswith("_declaration")
    )
    words = _modifiers(declared) or ""
    if "@" in words:
        raise Doubtful(f"`{case.old}` has annotations, by which its name may be read")
    if case.binding.kind == "type" and "public" in words and case.binding.scope == case.root:
        raise Doubtful("a public class is named as its file is, which other files use")
    return "private" in words.split()


def _java_member(case: Case) -> None:
    owner = case.binding.scope.parent
    if not _java_private(case) or owner is None or owner.type != "class_declaration":
        raise Doubtful(f"other files may use `{case.old}`, which is not private")
    if case.binding.kind == "method" and case.new in _OF_OBJECT:
        raise Doubtful(f"`{case.new}` is a method of Object")
    if _inherits(case.binding.scope):
        raise Doubtful(f"its class may inherit `{case.new}`")
    _java_texts(case)
    for site in case.names.sites:
        place = field_of(site.node)
        fits = "method_invocation.name" if case.binding.kind == "method" else "field_access.field"
        if site.role != "member" or place not in (fits, "method_reference."):
            continue
        if not _own_object(case, site.node, owner):
            line = site.node.start_point.row + 1
            raise Doubtful(f"of which object `{case.old}` is in line {line}, the types must tell")
        case.change(site.node)


def _own_object(case: Case, node: Node, owner: Node) -> bool:
    assert node.parent is not None
    thing = node.parent.child_by_field_name("object")
    name = owner.child_by_field_name("name")
    if thing is None or name is None:
        return False
    inner = next((each for each in above(node) if each.type == "class_body"), None)
    return (thing.type == "this" and inner == case.binding.scope) or thing.text == name.text


def _java_texts(case: Case) -> None:
    for node in _nodes(case, "string_literal"):
        if (node.text or b"").strip(b'"') == case.old.encode():
            raise Doubtful(f"the text in line {node.start_point.row + 1} is its name")


def _java_type(case: Case) -> None:
    if not _java_private(case):
        _others(case)
    _java_texts(case)
    for site in case.names.sites:
        if field_of(site.node) == "constructor_declaration.name":
            case.change(site.node)


_Rule = Callable[[Case], None]
_SCRIPT: Sequence[_Rule] = (_imported, _script)

BY_LANGUAGE: Mapping[str, Sequence[_Rule]] = {
    "python": (_imported, python),
    "javascript": _SCRIPT,
    "typescript": _SCRIPT,
    "tsx": _SCRIPT,
    "c": (_c,),
    "cpp": (_c,),
    "go": (_imported, _go),
    "rust": (_imported, _rust),
    "java": (_java,),
}
