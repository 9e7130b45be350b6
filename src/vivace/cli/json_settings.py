"""Settings files in JSON: our keys go in and out, and the person's stay.

Pure, as ``settings_files.py`` is. What is no plain JSON is left to its owner: a program that wrote
the file anew would lose the comments.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from vivace.cli.settings_files import CannotEdit

__all__ = ["JsonTable", "as_json", "loaded", "merged", "pruned", "table"]


class JsonTable(Struct, frozen=True):
    """A table of our own at a path of keys in somebody's JSON file."""

    path: Path
    keys: tuple[str, ...]
    value: dict[str, Any]
    head: dict[str, Any] = {}
    """What a file that is made for it begins with; alone, it is no reason to keep the file."""

    @property
    def text(self) -> str:
        return as_json(self._nested())

    def holds(self, text: str) -> bool:
        settings = loaded(text)
        name = self.keys[-1]
        return f'"{name}"' in text if settings is None else bool(table(settings, *self.keys))

    def apply(self, before: str | None) -> str:
        now = loaded(before) if before is not None and before.strip() else dict(self.head)
        if now is None:
            raise CannotEdit(f"{self._unreadable} Put these keys in by hand:\n\n{self.text}")
        if table(now, *self.keys) == self.value and before is not None:
            return before
        table(now, *self.keys[:-1]).pop(self.keys[-1], None)
        return as_json(merged(now, self._nested()))

    def without(self, text: str) -> str | None:
        now = loaded(text)
        if now is None:
            raise CannotEdit(f"{self._unreadable} Take out {'.'.join(self.keys)} by hand.")
        table(now, *self.keys[:-1]).pop(self.keys[-1], None)
        left = pruned(now, self.keys[:-1])
        return as_json(left) if left and left != self.head else None

    @property
    def _unreadable(self) -> str:
        return f"{self.path} has comments, or is not JSON, and a program would lose them."

    def _nested(self) -> dict[str, Any]:
        value = self.value
        for key in reversed(self.keys):
            value = {key: value}
        return value


def loaded(text: str) -> dict[str, Any] | None:
    """None for what is not a plain JSON object."""
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError):  # also for a number that is too long
        return None
    return settings if isinstance(settings, dict) else None


def table(settings: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The table at the end of a path; an empty one where there is none."""
    found: Any = settings
    for key in keys:
        found = found.get(key)
        if not isinstance(found, dict):
            return {}
    return cast("dict[str, Any]", found)


def merged(into: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    both = into | new
    for key in into.keys() & new.keys():
        if isinstance(into[key], dict) and isinstance(new[key], dict):
            both[key] = merged(into[key], new[key])
    return both


def pruned(settings: dict[str, Any], *paths: tuple[str, ...]) -> dict[str, Any]:
    """Without the tables along these paths that have become empty."""
    for path in paths:
        for length in range(len(path), 0, -1):
            above = table(settings, *path[: length - 1])
            if above.get(path[length - 1]) == {}:
                del above[path[length - 1]]
    return settings


def as_json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
