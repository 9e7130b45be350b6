"""Names that an edit calls or names as types, and that nothing defines: Go, Java, Rust, scripts.

Python has its own way (names.py). Said only where the project is known and nothing brings names
unseen: a wildcard, a class of elsewhere that hands down its members, a file that was not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from vivace.edits.importing.project import Modules
from vivace.edits.importing.standard import standard
from vivace.edits.importing.uses import Use, newly_used
from vivace.syntax.exports import exports_of
from vivace.syntax.source import Source

__all__ = ["bound_nowhere"]

_TRIES = re.compile(r"(^|/)(tests?|__tests__|spec)/|[._](test|spec)\.\w+$")
_DOT_IMPORT = re.compile(r'^\s*(?:import )?\. "', re.MULTILINE)
_GLOB = re.compile(r"\buse\s+[^;]*\*|\bmacro_use\b")
_MODULE = re.compile(r"^(?:import|export)\b|\bmodule\.exports\b|\brequire\s*\(", re.MULTILINE)
_WILDCARD = re.compile(r"^import (?:static )?([\w.]+)\.\*;", re.MULTILINE)
_JAVA_WORDS = frozenset({"var", "yield", "super", "this"})
_HANDED_DOWN = frozenset(
    {"superclass", "super_interfaces", "extends_interfaces", "enum_declaration"}
)


def bound_nowhere(before: Source, after: Source, modules: Modules | None) -> list[str]:
    judge = _JUDGES.get(after.language.name) if after.language else None
    if judge is None or modules is None or not modules.complete:
        return []
    if after.errors or before.errors:
        return []
    uses = {name: use for name, use in newly_used(before, after).items() if len(name) > 1}
    return sorted(judge(uses, after, modules)) if uses else []


def _go(uses: dict[str, Use], after: Source, modules: Modules) -> Iterator[str]:
    if _DOT_IMPORT.search(after.text) or any(each.unread for each in modules.neighbours()):
        return
    there = standard("go").implicit | modules.near
    imports = " ".join(exports_of(after).includes)
    for name, use in uses.items():
        # A package may have another name than its path ends in.
        if (use.called or use.typed) and name not in there and name not in imports:
            yield name


def _java(uses: dict[str, Use], after: Source, modules: Modules) -> Iterator[str]:
    library = standard("java")
    near = list(modules.neighbours())
    if any(each.unread for each in near):
        return
    wild = _WILDCARD.findall(after.text)
    if any(each not in library.modules for each in wild):
        return
    there = library.implicit | modules.near | _JAVA_WORDS
    there |= {name for each in wild for name in library.modules[each]}
    # What is handed down comes from classes that may be anywhere.
    made = after.nodes({"object_creation_expression"})
    heirs = any(node.named_children[-1].type == "class_body" for node in made)
    if heirs or after.nodes(_HANDED_DOWN):
        return
    there |= {name for each in modules.project.files.values() for name in each.own}
    for name, use in uses.items():
        if (use.typed or (use.called and not use.qualifies)) and name not in there:
            yield name


def _rust(uses: dict[str, Use], after: Source, modules: Modules) -> Iterator[str]:
    if _GLOB.search(after.text):
        return
    there = standard("rust").implicit
    for name, use in uses.items():
        if (
            use.called or use.typed or (use.qualifies and name[:1].isupper())
        ) and name not in there:
            yield name


def _typescript(uses: dict[str, Use], after: Source, modules: Modules) -> Iterator[str]:
    if _TRIES.search(modules.path):
        return  # whoever runs tests brings names of their own
    ambient = {
        name
        for path, exports in modules.project.files.items()
        if path.endswith(".d.ts")
        for name in (*exports.names, *exports.own)
    }
    there = standard("typescript").implicit | ambient
    for name, use in uses.items():
        if (use.called or use.typed) and name not in there:
            yield name


def _javascript(uses: dict[str, Use], after: Source, modules: Modules) -> Iterator[str]:
    if _MODULE.search(after.text):  # else names may come from whatever is loaded beside it
        yield from _typescript(uses, after, modules)


_JUDGES: dict[str, Callable[[dict[str, Use], Source, Modules], Iterator[str]]] = {
    "go": _go,
    "java": _java,
    "javascript": _javascript,
    "rust": _rust,
    "typescript": _typescript,
    "tsx": _typescript,
}
