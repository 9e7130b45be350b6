"""Files that an edit changes only if the person names them: programs run because of what they say.

protected.toml lists them with the tool that reads each. Hidden names that it does not know are
protected, too: they belong to the settings of a tool, and every week brings another one.

Names are compared as the most careless file system would: without regard to case, Unicode form,
invisible characters, trailing dots and what follows a colon.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

__all__ = [
    "Entry",
    "Table",
    "is_short_name",
    "may_hold_links",
    "plain_name",
    "table",
    "why_protected",
]

_FILE = Path(__file__).with_name("protected.toml")
_HIDDEN = (
    "a name that begins with a dot belongs to the settings of a tool, and tools run commands that "
    "their settings name"
)
_SHORT_NAME = re.compile(r"\.?[^.~]{1,6}~\d{1,6}(?:\.[^.]{0,3})?")
"""A name that Windows gives to a file beside its own one, so that it has eight characters."""


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """Files of one tool; ``source`` is the page of its documentation that gives the reason."""

    tool: str
    patterns: tuple[str, ...]
    reason: str
    source: str


class _Editable(Struct, frozen=True, forbid_unknown_fields=True):
    patterns: tuple[str, ...]


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """protected.toml."""

    protected: tuple[Entry, ...]
    editable: _Editable
    """Hidden names that hold no more than data."""


class _Patterns:
    """Patterns with something to say of each."""

    def __init__(self, given: Iterable[tuple[str, str]]) -> None:
        known = dict(given)
        self._literal = {each: about for each, about in known.items() if not _is_wild(each)}
        wild = [(_regex(each), about) for each, about in known.items() if _is_wild(each)]
        self._about = [about for _, about in wild]
        self._wild = re.compile("|".join(f"({regex})" for regex, _ in wild))
        self._depth = max(each.rstrip("/").count("/") for each in known) + 1
        self.hidden_folders = {
            first for each in known if (first := each.partition("/")[0])[0] == "." and "/" in each
        }

    def found_in(self, names: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        """Yield the first name that a pattern matches, the one after the last, and what is said."""
        for end in range(1, len(names) + 1):
            for start in range(max(0, end - self._depth), end):
                key = "/".join(names[start:end]) + ("/" if end < len(names) else "")
                if (about := self._literal.get(key)) is not None:
                    yield start, end, about
                elif (match := self._wild.fullmatch(key)) is not None and match.lastindex:
                    yield start, end, self._about[match.lastindex - 1]


class _Rules(NamedTuple):
    protected: _Patterns
    editable: _Patterns


@cache
def table() -> Table:
    return msgspec.convert(tomllib.loads(_FILE.read_text(encoding="utf-8")), Table)


@cache
def _rules() -> _Rules:
    known = table()
    return _Rules(
        _Patterns((each, entry.reason) for entry in known.protected for each in entry.patterns),
        _Patterns((each, "") for each in known.editable.patterns),
    )


def plain_name(name: str) -> str:
    """Return what a name is compared by."""
    visible = (each for each in name if unicodedata.category(each) != "Cf")
    folded = unicodedata.normalize("NFKC", "".join(visible)).upper().casefold()
    return folded.partition(":")[0].rstrip(" .")


def is_short_name(name: str) -> bool:
    """Return whether Windows may mean a file of another name by this one, as by GIT~1."""
    return _SHORT_NAME.fullmatch(plain_name(name)) is not None


def why_protected(parts: Sequence[str]) -> str | None:
    """Return why an edit must not touch the file with this path by itself; None if it may."""
    names = [plain_name(part) for part in parts]
    protected, editable = _rules()
    for _, _, why in protected.found_in(names):
        return why
    hidden = {place for place, name in enumerate(names) if name.startswith(".")}
    for start, end, _ in editable.found_in(names) if hidden else ():
        hidden.difference_update(range(start, end))
    return _HIDDEN if hidden else None


def may_hold_links(name: str) -> bool:
    """Return whether links in a folder of this name would be read by the tool it belongs to."""
    return plain_name(name) in _rules().protected.hidden_folders


def _is_wild(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


def _regex(pattern: str) -> str:
    """Translate a pattern as shells read it: no wildcard matches a slash or a leading dot."""
    names = []
    for name in pattern.split("/"):
        signs = {"*": "[^/]*", "?": "[^/]"}
        regex = "".join(signs.get(sign, re.escape(sign)) for sign in name)
        names.append(f"(?!\\.){regex}" if name[:1] in signs else regex)
    return "/".join(names)
