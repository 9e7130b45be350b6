"""Patches as Codex's ``apply_patch`` tool takes them (V4A): read while they arrive, and written.

    *** Begin Patch
    *** Update File: path
    @@ a line somewhere above
     a line that stays
    -a line that goes
    +a line that comes
    *** End Patch

A line of a patch ends at ``\\n`` and nowhere else. Where its lines stand in a file is for others to
find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from vivace.errors import EditError

__all__ = ["AT_END", "Patch", "Piece", "added", "updated"]

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_UPDATE, _ADD, _DELETE = "*** Update File: ", "*** Add File: ", "*** Delete File: "
_MOVE, AT_END = "*** Move to: ", "*** End of File"

Action = Literal["update", "add", "delete"]


class Piece(Struct, frozen=True, kw_only=True):
    """One closed part of a patch: lines of one file that change together, or a whole file."""

    path: str
    action: Action
    moved_to: str | None = None
    above: tuple[str, ...] = ()
    """Lines that stand before the place, outermost first."""
    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    at_end: bool = False


class Patch:
    """Text in, each piece out as soon as it is closed."""

    def __init__(self) -> None:
        self._partial = ""
        self._ends = ""
        """What its lines end in before the newline, as the first of them does."""
        self._state: Literal["before", "between", "inside", "after"] = "before"
        self._open: _Open | None = None

    def feed(self, text: str) -> list[Piece]:
        *lines, self._partial = (self._partial + text).split("\n")
        return [piece for line in lines for piece in self._line(line)]

    def finish(self) -> list[Piece]:
        found = self._line(self._partial) if self._partial else []
        self._partial = ""
        if self._state != "after":
            raise EditError(f"The patch was cut off: there is no '{_END}'.")
        return found

    def _line(self, line: str) -> list[Piece]:
        mark = line.rstrip()
        if self._state == "before":
            self._state = "between" if mark == _BEGIN else "before"
            self._ends = "\r" if line.endswith("\r") else ""
            return []
        if self._state == "after":
            return []
        if mark == _END:
            self._state = "after"
            return self._close()
        if mark.startswith((_UPDATE, _ADD, _DELETE)):
            closed = self._close()
            self._open = _Open(mark)
            return closed
        if self._open is None:
            if mark:
                raise EditError(f"The patch names no file before this line: {mark[:60]}")
            return []
        return self._open.take(line.removesuffix(self._ends))

    def _close(self) -> list[Piece]:
        closed = self._open.close(last=True) if self._open else []
        self._open = None
        return closed


class _Open:
    """The part of a patch that is about one file, while it is read."""

    def __init__(self, mark: str) -> None:
        head = next(each for each in (_UPDATE, _ADD, _DELETE) if mark.startswith(each))
        self._action: Action = "update" if head == _UPDATE else "add" if head == _ADD else "delete"
        self._path = mark.removeprefix(head).strip()
        self._moved_to: str | None = None
        self._given = 0
        self._clear()

    def _clear(self) -> None:
        self._above: list[str] = []
        self._old: list[str] = []
        self._new: list[str] = []
        self._at_end = False

    def take(self, line: str) -> list[Piece]:
        if line.startswith(_MOVE):
            self._moved_to = line.removeprefix(_MOVE).strip()
            return []
        if line.rstrip() == AT_END:
            self._at_end = True
            return []
        if self._action == "update" and line.startswith("@@"):
            closed = self.close()
            if above := line.removeprefix("@@").strip():
                self._above.append(above)
            return closed
        self._body(line)
        return []

    def _body(self, line: str) -> None:
        mark, rest = line[:1], line[1:] + "\n"
        if mark == "+":
            self._new.append(rest)
        elif self._action == "update" and mark in ("-", " ", ""):
            self._old.append(rest)
            if mark != "-":
                self._new.append(rest)
        elif line.strip():
            raise EditError(
                f"A line of the patch for {self._path} begins with neither '+', '-' nor a space: "
                f"{line[:60]}"
            )

    def close(self, *, last: bool = False) -> list[Piece]:
        """The piece read so far; a file that is only moved, added empty or deleted is one too."""
        bare = last and not self._given and (self._action != "update" or self._moved_to is not None)
        if not self._old and not self._new and not bare:
            return []
        piece = Piece(
            path=self._path,
            action=self._action,
            moved_to=self._moved_to,
            above=tuple(self._above),
            old=tuple(self._old),
            new=tuple(self._new),
            at_end=self._at_end,
        )
        self._given += 1
        self._clear()
        return [piece]


# -- writing --------------------------------------------------------------------------------------


def updated(path: str, body: Iterable[str]) -> str:
    """The patch that changes a file. ``body``: ``@@`` and lines with their marks, without ends."""
    return _patch(_UPDATE + path, body)


def added(path: str, lines: Iterable[str]) -> str:
    """The patch that makes a file of these lines, without ends."""
    return _patch(_ADD + path, (f"+{line}" for line in lines))


def _patch(head: str, body: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in _all(head, body))


def _all(head: str, body: Iterable[str]) -> Iterator[str]:
    yield from (_BEGIN, head)
    yield from body
    yield _END
