"""Hunks: the lines an edit takes out and puts in, and where.

Every part of this package speaks in hunks. They count lines from 0 in the text they were made for,
stand in order and never overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from vivace.errors import EditError
from vivace.syntax.lines import lines_of

__all__ = ["Hunk", "applied", "apply", "replacing", "shifted", "unified"]


class Hunk(Struct, frozen=True):
    """``old`` stands from line ``start`` on and gives way to ``new``."""

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def end(self) -> int:
        """The line after the last one that is taken out."""
        return self.start + len(self.old)


def replacing(lines: Sequence[str], start: int, end: int, new: Sequence[str]) -> Hunk:
    """The hunk that puts complete lines in the place of these.

    A text whose last line is not ended keeps that: otherwise a line put in at the end would be
    glued to it.
    """
    new = list(new)
    if new and lines and end == len(lines) and not lines[-1].endswith("\n"):
        last = new[-1].removesuffix("\n").removesuffix("\r")
        if start == end:
            start -= 1
            new.insert(0, lines[start] + new[-1][len(last) :])
        new[-1] = last
    return Hunk(start, tuple(lines[start:end]), tuple(new))


def apply(text: str, hunks: Sequence[Hunk]) -> str:
    """The text after the edit; refuses when the text is not the one the hunks were made for."""
    return "".join(applied(lines_of(text), hunks))


def applied(lines: Sequence[str], hunks: Sequence[Hunk]) -> list[str]:
    """The same for a text in lines."""
    parts: list[str] = []
    done = 0
    for hunk in hunks:
        if hunk.start < done:
            raise EditError(
                f"The edit changes line {hunk.start + 1} twice. Apply its hunks one at a time, "
                "or ask for the edit again."
            )
        if hunk.end > len(lines) or tuple(lines[hunk.start : hunk.end]) != hunk.old:
            raise EditError(
                f"The text at line {hunk.start + 1} is not what the edit was made for: it has "
                "changed since. Carry the edit over to the new text, or ask for it again."
            )
        parts += lines[done : hunk.start]
        parts += hunk.new
        done = hunk.end
    parts += lines[done:]
    return parts


def shifted(hunks: Sequence[Hunk], by: int) -> list[Hunk]:
    """The same hunks for a text that has so many lines more before them."""
    return [Hunk(hunk.start + by, hunk.old, hunk.new) for hunk in hunks]


def unified(path: str, text: str, hunks: Sequence[Hunk], context: int = 3) -> str:
    """The edit as a unified diff, as ``git apply`` and ``patch`` read it."""
    if not hunks:
        return ""
    lines = lines_of(text)
    parts = [f"--- a/{path}\n+++ b/{path}\n"]
    grown = 0
    for group in _neighbours(hunks, context):
        first = max(0, group[0].start - context)
        last = min(len(lines), group[-1].end + context)
        growth = sum(len(hunk.new) - len(hunk.old) for hunk in group)
        olds, news = last - first, last - first + growth
        parts.append(f"@@ -{_span(first, olds)} +{_span(first + grown, news)} @@\n")
        parts += _body(lines, group, first, last)
        grown += growth
    return "".join(parts)


def _neighbours(hunks: Sequence[Hunk], context: int) -> Iterator[list[Hunk]]:
    """Hunks whose surroundings touch are shown as one."""
    group: list[Hunk] = []
    for hunk in hunks:
        if group and hunk.start - group[-1].end > 2 * context:
            yield group
            group = []
        group.append(hunk)
    yield group


def _span(first: int, count: int) -> str:
    # An empty span names the line before it.
    return f"{first + 1 if count else first},{count}"


def _body(lines: Sequence[str], group: Sequence[Hunk], first: int, last: int) -> Iterator[str]:
    at = first
    for hunk in group:
        yield from (_marked(" ", line) for line in lines[at : hunk.start])
        yield from (_marked("-", line) for line in hunk.old)
        yield from (_marked("+", line) for line in hunk.new)
        at = hunk.end
    yield from (_marked(" ", line) for line in lines[at:last])


def _marked(mark: str, line: str) -> str:
    if line.endswith("\n"):
        return mark + line
    return f"{mark}{line}\n\\ No newline at end of file\n"
