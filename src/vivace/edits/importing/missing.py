"""Imports that an edit needs and forgot, in every language.

A name that the edit uses and the file binds nowhere is looked for in the project and in the
language's standard library. It is imported where exactly one module exports it; a guess would make
an error that anybody sees into one that nobody does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from vivace.edits.importing import headers
from vivace.edits.importing.names import bound_by, imports_for, newly_unbound
from vivace.edits.importing.project import Modules
from vivace.edits.importing.spelling import ScriptStyle, go_package, import_as, import_from
from vivace.edits.importing.standard import standard
from vivace.edits.importing.uses import Use, newly_used
from vivace.syntax.exports import exports_of
from vivace.syntax.imported import imported_by
from vivace.syntax.source import Source

__all__ = ["missing"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WILDCARD = re.compile(r"^import (?!static)([\w.]+)\.\*;", re.MULTILINE)
_MEMBERS = re.compile(
    r"(?P<head>from \S+ import |import (?:type )?\{ |const \{ )(?P<name>\w+)(?P<end>.*\n)"
)
_MOMENT = re.compile(r"(?<![\w.])(time|datetime|copy)\b(?:\.(\w+))?")
_MODULES_OF_CLASSES = {
    "time": _words("monotonic monotonic_ns perf_counter process_time sleep strftime time"),
    "datetime": _words("date datetime timedelta timezone"),
    "copy": frozenset({"copy", "deepcopy"}),
}
"""Modules that are named like something in them: what is used of them tells which is meant."""


def missing(before: Source, after: Source, modules: Modules | None, came: str = "") -> list[str]:
    """The import lines that an edit needs; ``came`` are those it brought."""
    if after.language is None:
        return []
    if after.is_in("python"):
        names = newly_unbound(before, after) - bound_by(came)
        custom = _customary(names, after, modules)
        rest = _python(names - custom.keys(), after, modules)
        return _combined([*custom.values(), *rest])
    brought = {*re.findall(r"\w+", came), *(each.name for each in imported_by(after))}
    uses = newly_used(before, after)
    uses = {name: use for name, use in uses.items() if name not in brought}
    custom = _customary(_importable(uses, after, modules), after, modules)
    others = {name: use for name, use in uses.items() if name not in custom}
    find = _FINDERS.get(after.language.name)
    found = list(find(others, after, modules)) if find else []
    if after.is_in("c", "cpp"):
        found = [*headers.forgotten(before.text, after.text), *found]
    return _combined(dict.fromkeys([*custom.values(), *found]))


def _customary(names: Iterable[str], after: Source, modules: Modules | None) -> dict[str, str]:
    """Those that all who import them import in the same way."""
    found: dict[str, str] = {}
    for name in sorted(names) if modules else ():
        assert modules is not None
        custom = modules.custom(name)
        line = import_as(modules, custom, after) if custom else None
        if line is not None:
            found[name] = line
    return found


def _importable(uses: dict[str, Use], after: Source, modules: Modules | None) -> Iterator[str]:
    """Those that neither the language nor the package has."""
    assert after.language is not None
    there = standard(after.language.name).implicit | (modules.near if modules else frozenset())
    package = after.is_in("go")
    for name, use in uses.items():
        if name not in there and (not package or _is_package(use)):
            yield name


def _is_package(use: Use) -> bool:
    """Whether only what a package of Go exports is used of it."""
    exported = all(member[:1].isupper() for member in use.members)
    return use.qualifies and exported and not (use.called or use.typed)


def _combined(lines: Iterable[str]) -> list[str]:
    """What comes from one module in one line, as far as that is the custom."""
    heads: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        found = _MEMBERS.fullmatch(line)
        key = (found["head"], found["end"]) if found else (line, "")
        heads.setdefault(key, []).extend([found["name"]] if found else [])
    return [head + ", ".join(names) + end for (head, end), names in heads.items()]


def _project(names: Iterable[str], after: Source, modules: Modules | None) -> Iterator[str]:
    """Those that exactly one module of the project exports."""
    for name in sorted(names):
        homes = modules.exporting(name) if modules else []
        if modules and len(homes) == 1:
            line = import_from(modules, homes[0], name, after)
            yield from [line] if line else []


def _is_exported(name: str, modules: Modules | None) -> bool:
    return bool(modules and modules.exporting(name))


def _python(names: set[str], after: Source, modules: Modules | None) -> Iterator[str]:
    for name in sorted(names):
        known = imports_for([name])
        home = standard("python").home(name)
        if name in _MODULES_OF_CLASSES:
            used = {found[2] for found in _MOMENT.finditer(after.text) if found[1] == name}
            known = [f"import {name}\n"] if used <= _MODULES_OF_CLASSES[name] else []
        elif not known and home:
            known = [f"from {home} import {name}\n"]
        project = _is_exported(name, modules)
        if not (known and project):
            yield from known or _project([name], after, modules)


def _script(uses: dict[str, Use], after: Source, modules: Modules | None) -> Iterator[str]:
    library = standard("javascript")
    style = ScriptStyle(after, path=modules.path if modules else "")
    for name, use in sorted(uses.items()):
        if name in library.implicit:
            continue
        home = library.home(name) if re.search(r"[a-z][A-Z]|^[A-Z]", name) else None
        whole = use.qualifies and use.members <= library.modules.get(name, frozenset())
        if _is_exported(name, modules):
            if not home and name not in library.modules:
                lines = list(_project([name], after, modules))
                yield from (_as_type(line, use, after) for line in lines)
        elif whole and not use.called and not use.typed:
            yield style.whole(name, _as_written(name, after), builtin=True)
        elif home and (use.called or use.typed):
            yield style.members(name, _as_written(home, after))


def _as_type(line: str, use: Use, after: Source) -> str:
    """Types are imported as such where the file does so."""
    only = use.typed and not (use.called or use.read or use.qualifies)
    types = only and re.search(r"^import type\b", after.text, re.MULTILINE)
    return line.replace("import ", "import type ", 1) if types else line


def _as_written(module: str, after: Source) -> str:
    return f"node:{module}" if re.search(r"['\"]node:", after.text) else module


def _go(uses: dict[str, Use], after: Source, modules: Modules | None) -> Iterator[str]:
    table = standard("go").modules
    near = modules.near if modules else frozenset()
    there = {word for each in exports_of(after).includes for word in re.findall(r"\w+", each)}
    for name, use in sorted(uses.items()):
        if not _is_package(use) or name in near or name in there:
            continue
        found = [each for each in table if each.rpartition("/")[2] == name]
        if len(found) > 1:
            found = [each for each in found if use.members <= table[each]]
        own = go_package(modules, name) if modules else None
        paths = [*found, own] if own else found
        if len(paths) == 1:
            yield f'import "{paths[0]}"\n'


def _java(uses: dict[str, Use], after: Source, modules: Modules | None) -> Iterator[str]:
    library = standard("java")
    near = modules.near if modules else frozenset()
    wild = set(_WILDCARD.findall(after.text))
    for name, use in sorted(uses.items()):
        named = (use.typed or use.qualifies) and name[:1].isupper()
        if not named or name in library.implicit or name in near:
            continue
        homes = library.homes.get(name, ())
        if not wild.isdisjoint(homes):
            continue
        if _is_exported(name, modules):
            yield from _project([name], after, modules) if not homes else ()
        elif len(homes) == 1:
            yield f"import {homes[0]}.{name};\n"


def _rust(uses: dict[str, Use], after: Source, modules: Modules | None) -> Iterator[str]:
    library = standard("rust")
    bare = "use core::" in after.text and "use std::" not in after.text
    for name, use in sorted(uses.items()):
        if name in library.implicit or (modules and modules.has(name)):
            continue  # also a crate, which is there by its name
        home = library.home(name) if use.typed or use.qualifies else None
        module = f"std::{name}" if use.qualifies and f"std::{name}" in library.modules else None
        if _is_exported(name, modules):
            yield from _project([name], after, modules) if not home else ()
        elif bare:
            continue  # a crate that may have no std
        elif home:
            yield f"use {home}::{name};\n"
        elif module:
            yield f"use {module};\n"


def _c(uses: dict[str, Use], after: Source, modules: Modules | None) -> Iterator[str]:
    names = (name for name, use in uses.items() if use.called or use.typed)
    yield from _project(names, after, modules)


_Finder = Callable[[dict[str, Use], Source, Modules | None], Iterator[str]]
_FINDERS: dict[str, _Finder] = {
    "javascript": _script,
    "typescript": _script,
    "tsx": _script,
    "go": _go,
    "java": _java,
    "rust": _rust,
    "c": _c,
    "cpp": _c,
}
