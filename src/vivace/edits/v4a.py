"""V4A patches, as Codex's ``apply_patch`` tool takes them: read while they arrive, and written.

    *** Begin Patch
    *** Update File: path
    @@ a line somewhere above
     a line that stays
    -a line that goes
    +a line that comes
    *** End Patch

Lines are found by what they say, not by number. What is found twice is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from vivace.edits.diff import changes
from vivace.edits.matching import Match, find, fitted
from vivace.errors import EditError
from vivace.syntax.hunk import Hunk, apply, replacing
from vivace.syntax.lines import lines_of

__all__ = ["Patch", "Piece", "hunks_for", "write"]

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_UPDATE, _ADD, _DELETE = "*** Update File: ", "*** Add File: ", "*** Delete File: "
_MOVE, _AT_END = "*** Move to: ", "*** End of File"
_CONTEXT = 3

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
        self._state: Literal["before", "between", "inside", "after"] = "before"
        self._open: _Open | None = None

    def feed(self, text: str) -> list[Piece]:
        lines = lines_of(self._partial + text)
        self._partial = lines.pop() if lines and not lines[-1].endswith("\n") else ""
        return [piece for line in lines for piece in self._line(line)]

    def finish(self) -> list[Piece]:
        found = self._line(self._partial + "\n") if self._partial else []
        self._partial = ""
        if self._state != "after":
            raise EditError(f"The patch was cut off: there is no '{_END}'.")
        return found

    def _line(self, line: str) -> list[Piece]:
        mark = line.rstrip()
        if self._state == "before":
            self._state = "between" if mark == _BEGIN else "before"
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
        return self._open.take(line.rstrip("\r\n"))

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
        if line.rstrip() == _AT_END:
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


# -- applying -------------------------------------------------------------------------------------


def hunks_for(text: str, pieces: Sequence[Piece]) -> list[Hunk]:
    """The pieces for one file as the least that has to change in it."""
    lines = lines_of(text)
    hunks: list[Hunk] = []
    cursor = 0
    for piece in pieces:
        if piece.action == "delete":
            return [Hunk(0, tuple(lines), ())]
        match = _place(lines, piece, cursor)
        hunks += _least(lines, match, piece.new)
        cursor = match.end
    return hunks


def _place(lines: Sequence[str], piece: Piece, cursor: int) -> Match:
    for above in piece.above:
        cursor = find(lines, [above], near=cursor).end
    if not piece.old:
        place = cursor if piece.above else len(lines)
        return Match(place, place)
    if piece.at_end:
        cursor = max(cursor, len(lines) - len(piece.old))
        if [line.rstrip() for line in lines[cursor:]] == [line.rstrip() for line in piece.old]:
            return Match(cursor, len(lines))
    return find(lines, piece.old, near=cursor if piece.above else None, after=cursor)


def _least(lines: Sequence[str], match: Match, new: Sequence[str]) -> Iterator[Hunk]:
    fitting = fitted(match, new, lines)
    old = [line.rstrip() for line in lines[match.start : match.end]]
    for a, b, c, d in changes(old, [line.rstrip() for line in fitting]):
        yield replacing(lines, match.start + a, match.start + b, fitting[c:d])


# -- writing --------------------------------------------------------------------------------------


def write(path: str, text: str, hunks: Sequence[Hunk]) -> str:
    """A patch that says the same as the hunks, with as many lines around them as it takes to find
    the place without doubt."""
    wanted = apply(text, hunks)
    lines = lines_of(text)
    context = _CONTEXT
    while True:
        patch = "".join(
            [f"{_BEGIN}\n{_UPDATE}{path}\n", *_pieces(lines, hunks, context), f"{_END}\n"]
        )
        if _reads_as(patch, text, wanted):
            return patch
        if context > len(lines):
            raise EditError(
                f"The edit of {path} cannot be written as a V4A patch: it changes line ends or the "
                "space at the end of lines, which the format does not carry. Use a unified diff."
            )
        context *= 2


def _reads_as(patch: str, text: str, wanted: str) -> bool:
    try:
        reader = Patch()
        pieces = reader.feed(patch) + reader.finish()
        return apply(text, hunks_for(text, pieces)) == wanted
    except EditError:
        return False


def _pieces(lines: Sequence[str], hunks: Sequence[Hunk], context: int) -> Iterator[str]:
    at = 0
    for number, hunk in enumerate(hunks):
        if not number or hunk.start - at > context:
            yield "@@\n"
            at = max(at, hunk.start - context)
        yield from (_marked(" ", line) for line in lines[at : hunk.start])
        yield from (_marked("-", line) for line in hunk.old)
        yield from (_marked("+", line) for line in hunk.new)
        following = hunks[number + 1].start if number + 1 < len(hunks) else len(lines)
        at = min(following, hunk.end + context)
        yield from (_marked(" ", line) for line in lines[hunk.end : at])
    if hunks and at == len(lines):
        yield f"{_AT_END}\n"


def _marked(mark: str, line: str) -> str:
    return mark + line.rstrip("\r\n") + "\n"
