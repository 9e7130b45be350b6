"""What the standard libraries export: tables that scripts/standard_names.py writes.

A line of a table is a module and its names; those behind ``*`` need no import. In Go the members of
a package are listed only where another package has the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from msgspec import Struct

__all__ = ["Standard", "standard"]

_TABLES = {"typescript": "javascript", "tsx": "javascript"}
_THERE = frozenset({"python", "go", "java", "javascript", "rust", "cpp"})


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
    return _read(_TABLES.get(language, language))


@cache
def _read(table: str) -> Standard:
    if table not in _THERE:
        return Standard(frozenset(), {}, {})
    text = (files(__name__) / f"{table}.txt").read_text("utf-8")
    rows = [line.split() for line in text.splitlines()]
    modules = {module: frozenset(names) for module, *names in rows}
    implicit = modules.pop("*", frozenset())
    homes: dict[str, tuple[str, ...]] = {}
    for module, names in modules.items():
        for name in names:
            homes[name] = (*homes.get(name, ()), module)
    return Standard(implicit, MappingProxyType(modules), MappingProxyType(homes))
