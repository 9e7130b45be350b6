"""Search/replace blocks: the model quotes old lines and gives the new ones.

path/of/the/file
<<<<<<< SEARCH
old lines
=======
new lines
>>>>>>> REPLACE
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from vivace.edits.diff import changes
from vivace.edits.matching import find, fitted
from vivace.errors import EditError
from vivace.syntax.hunk import Hunk, replacing
from vivace.syntax.lines import lines_of

__all__ = ["Block", "Blocks", "hunks_for"]

_SEARCH = re.compile(r"<{7} ?SEARCH\s*$")
_DIVIDER = re.compile(r"={7}\s*$")
_REPLACE = re.compile(r">{7} ?REPLACE\s*$")
_PATH = re.compile(r"[#*`\s]*(?:(?:File|Path|Datei)\s*:\s*)?[`*]*([^\s`*:][^\s`*]*?)[`*:]*\s*$")


class Block(Struct, frozen=True):
    """``search`` gives way to ``replace``; an empty search makes a new file."""

    path: str | None
    """``None``: the file that was shown."""
    search: tuple[str, ...]
    replace: tuple[str, ...]


class Blocks:
    """Text in, each block out as soon as it is closed."""

    def __init__(self) -> None:
        self._partial = ""
        self._where: Literal["outside", "search", "replace"] = "outside"
        self._path: str | None = None
        self._search: list[str] = []
        self._replace: list[str] = []

    def feed(self, text: str) -> list[Block]:
        lines = lines_of(self._partial + text)
        self._partial = lines.pop() if lines and not lines[-1].endswith("\n") else ""
        return [block for line in lines for block in self._line(line)]

    def finish(self) -> list[Block]:
        """The last block; refuses one that was cut off."""
        found = self._line(self._partial + "\n") if self._partial else []
        self._partial = ""
        if self._where != "outside":
            raise EditError("The answer ends inside a search/replace block: it was cut off.")
        return found

    def _line(self, line: str) -> list[Block]:
        match self._where:
            case "outside":
                self._outside(line)
            case "search":
                if _DIVIDER.match(line):
                    self._where = "replace"
                else:
                    self._search.append(line)
            case "replace":
                if _REPLACE.match(line):
                    return [self._closed()]
                self._replace.append(line)
        return []

    def _outside(self, line: str) -> None:
        if _SEARCH.match(line):
            self._where = "search"
        elif line.strip() and not line.lstrip().startswith(("```", "~~~")):
            named = _PATH.match(line)
            self._path = named[1] if named and ("." in named[1] or "/" in named[1]) else self._path

    def _closed(self) -> Block:
        block = Block(self._path, tuple(self._search), tuple(self._replace))
        self._where, self._search, self._replace = "outside", [], []
        if any(_DIVIDER.match(line) for line in block.replace):
            raise EditError(
                "A search/replace block has two lines of '=======', so nobody can tell where its "
                "search ends. Quote lines without such a line."
            )
        return block


def hunks_for(text: str, block: Block) -> list[Hunk]:
    """A block as the least that has to change in the text."""
    lines = lines_of(text)
    if not any(line.strip() for line in block.search) and not text.strip():
        return [Hunk(0, tuple(lines), block.replace)]
    match = find(lines, block.search)
    old, new = lines[match.start : match.end], fitted(match, block.replace, lines)
    theirs = [line.rstrip() for line in old]
    ours = [line.rstrip() for line in new]
    return [
        replacing(lines, match.start + a, match.start + b, new[c:d])
        for a, b, c, d in changes(theirs, ours)
    ]
