"""What the standard libraries export: tables that scripts/standard_names.py writes.

A line of a table is a module and its names; those behind ``*`` need no import. In Go the members of
a package are listed only where another package has the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from msgspec import Struct

from vivace.edits.importing.standard import cpp, go, java, javascript, python, rust

__all__ = ["Standard", "standard"]

_TABLES = {
    "cpp": cpp.TABLE,
    "go": go.TABLE,
    "java": java.TABLE,
    "javascript": javascript.TABLE,
    "python": python.TABLE,
    "rust": rust.TABLE,
    "tsx": javascript.TABLE,
    "typescript": javascript.TABLE,
}


class Standard(Struct, frozen=True):
    implicit: frozenset[str]
    """Names that need no import."""
    modules: Mapping[str, frozenset[str]]
    homes: Mapping[str, tuple[str, ...]]
    """Name -> the modules that export it."""

    def home(self, name: str) -> str | None:
        """The one module that exports the name."""
        found = self.homes.get(name, ())
        return found[0] if len(found) == 1 else None


def standard(language: str) -> Standard:
    """That of a language, by its name; an empty one where there is no table."""
    return _read(_TABLES.get(language, ""))


@cache
def _read(table: str) -> Standard:
    rows = [line.split() for line in table.splitlines()]
    modules = {module: frozenset(names) for module, *names in rows}
    implicit = modules.pop("*", frozenset())
    homes: dict[str, tuple[str, ...]] = {}
    for module, names in modules.items():
        for name in names:
            homes[name] = (*homes.get(name, ()), module)
    return Standard(implicit, MappingProxyType(modules), MappingProxyType(homes))
