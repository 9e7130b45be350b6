"""V4A patches (``protocol/patches.py``) against a text: their hunks, and hunks written as a patch.

Lines are found by what they say, not by number. What is found twice is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vivace.edits.diff import changes
from vivace.edits.matching import Match, find, fitted
from vivace.errors import EditError
from vivace.protocol.patches import AT_END, Patch, Piece, updated
from vivace.syntax.hunk import Hunk, apply, replacing
from vivace.syntax.lines import lines_of

__all__ = ["hunks_for", "write"]

_CONTEXT = 3


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
        patch = updated(path, _pieces(lines, hunks, context))
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
            yield "@@"
            at = max(at, hunk.start - context)
        yield from (_marked(" ", line) for line in lines[at : hunk.start])
        yield from (_marked("-", line) for line in hunk.old)
        yield from (_marked("+", line) for line in hunk.new)
        following = hunks[number + 1].start if number + 1 < len(hunks) else len(lines)
        at = min(following, hunk.end + context)
        yield from (_marked(" ", line) for line in lines[hunk.end : at])
    if hunks and at == len(lines):
        yield AT_END


def _marked(mark: str, line: str) -> str:
    return mark + line.rstrip("\r\n")
