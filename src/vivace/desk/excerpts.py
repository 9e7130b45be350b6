"""What of a change a model is shown at once: the new lines, with the definition they stand in.

A small model loses its way in a long text, and a large diff is more than any model takes; so a file
is shown in excerpts, each asked about alone. An excerpt says what may be remarked on: its own new
lines and no others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from msgspec import Struct

from vivace.syntax.definitions import Definition
from vivace.syntax.hunk import Hunk
from vivace.syntax.source import Source
from vivace.visible import visible

__all__ = ["Excerpt", "excerpts_of", "halves"]

_LONGEST_DEFINITION = 60
"""Lines; of a longer one, what stands around the change is shown."""
_AROUND = 5
_MOST = 6_000
"""Characters of one excerpt: some 2,000 tokens, which every model takes that can review at all."""
_MOST_GONE = 40
"""Lines that are shown of those that were taken out in one place."""
_WIDEST = 300
"""Characters of a line that are shown; a longer one was written by a program."""


class Excerpt(Struct, frozen=True):
    """Some lines of a file after a change."""

    path: str
    title: str
    """The definitions they are from, if any."""
    rows: tuple[tuple[int, str], ...]
    """Lines that are there now, with their numbers from 0."""
    new: frozenset[int]
    """Of these, the lines that are new or other."""
    gone: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """Lines that are there no more, each group with the line that stands where it began."""

    @property
    def text(self) -> str:
        """For a model: every line begins with what we say of it, so that none can pass for our own
        words, whatever it says."""
        return "".join(self._lines())

    def _lines(self) -> Iterator[str]:
        gone = dict(self.gone)
        width = len(str(self.rows[-1][0] + 1))
        last = self.rows[0][0] - 1
        for row, line in self.rows:
            if row > last + 1:
                yield f"{'…':>{width}}\n"
            last = row
            yield from (f"{'':>{width}} - {_shown(old)}\n" for old in gone.get(row, ()))
            yield f"{row + 1:>{width}} {'+' if row in self.new else ' '} {_shown(line)}\n"
        yield from (f"{'':>{width}} - {_shown(old)}\n" for old in gone.get(last + 1, ()))


def excerpts_of(path: str, source: Source, hunks: Sequence[Hunk]) -> list[Excerpt]:
    """The excerpts in which a changed file is shown; hunks are those that led to it."""
    new: set[int] = set()
    gone: dict[int, tuple[str, ...]] = {}
    regions: list[tuple[int, int]] = []
    grown = 0
    for hunk in hunks:
        start = hunk.start + grown
        end = start + len(hunk.new)
        grown += len(hunk.new) - len(hunk.old)
        new.update(range(start, end))
        if hunk.old:
            gone[start] = hunk.old[:_MOST_GONE]
        regions.append(_region(source, start, max(end, start + 1)))
    excerpts = []
    for rows in _portions(_merged(regions), source):
        marked = new.intersection(rows)
        if not marked:
            continue  # nothing that could be quoted
        at_end = {len(source.lines)} if rows[-1] + 1 == len(source.lines) else set()
        excerpts.append(
            Excerpt(
                path,
                _title(source.definitions, marked),
                tuple((row, source.lines[row]) for row in rows),
                frozenset(marked),
                tuple((row, gone[row]) for row in sorted(gone.keys() & ({*rows} | at_end))),
            )
        )
    return excerpts


def halves(excerpt: Excerpt) -> tuple[Excerpt, ...]:
    """The same in smaller parts, for a model that takes less; none where it cannot be less."""
    marked = sorted(excerpt.new)
    if len(marked) > 1:
        middle = marked[len(marked) // 2]
        before = [row for row in excerpt.rows if row[0] < middle]
        behind = [row for row in excerpt.rows if row[0] >= middle]
        return _part(excerpt, before), _part(excerpt, behind)
    near = [row for row in excerpt.rows if abs(row[0] - marked[0]) <= 1]
    if len(near) == len(excerpt.rows):
        return ()
    return (_part(excerpt, near),)


def _part(excerpt: Excerpt, rows: Sequence[tuple[int, str]]) -> Excerpt:
    numbers = {row for row, _ in rows}
    return Excerpt(
        excerpt.path,
        excerpt.title,
        tuple(rows),
        excerpt.new & numbers,
        tuple(each for each in excerpt.gone if each[0] in numbers),
    )


def _region(source: Source, start: int, end: int) -> tuple[int, int]:
    """The innermost definition around these lines, or what stands near them."""
    for definition in reversed(source.definitions):
        around = definition.start <= start and end <= definition.end
        if around and definition.end - definition.start <= _LONGEST_DEFINITION:
            return definition.start, definition.end
    return max(0, start - _AROUND), min(len(source.lines), end + _AROUND)


def _merged(regions: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(regions):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return iter(merged)


def _portions(regions: Iterator[tuple[int, int]], source: Source) -> Iterator[list[int]]:
    """The lines of all regions, as many at a time as one excerpt holds. A region that is too long
    is divided where a definition begins, if one does in its second half."""
    starts = sorted({definition.start for definition in source.definitions})
    rows: list[int] = []
    room = _MOST
    for start, end in regions:
        size = sum(_size(line) for line in source.lines[start:end])
        if rows and size > room:
            yield rows
            rows, room = [], _MOST
        for row in range(start, end):
            if rows and _size(source.lines[row]) > room:
                cut = _cut(rows, starts)
                yield rows[:cut]
                rows = rows[cut:]
                room = _MOST - sum(_size(source.lines[each]) for each in rows)
            rows.append(row)
            room -= _size(source.lines[row])
    if rows:
        yield rows


def _cut(rows: Sequence[int], starts: Sequence[int]) -> int:
    at = bisect_right(starts, rows[-1]) - 1
    if at >= 0 and rows[len(rows) // 2] < starts[at]:
        return next(place for place, row in enumerate(rows) if row >= starts[at])
    return len(rows)


def _title(definitions: Sequence[Definition], rows: set[int]) -> str:
    """The innermost definitions that hold these lines, in the order of the text."""
    first, last = min(rows), max(rows)
    near = [each for each in definitions if each.start <= last and first < each.end]
    found: dict[str, None] = {}
    for row in sorted(rows):
        holding = [each.name for each in near if each.start <= row < each.end]
        if holding:
            found[holding[-1]] = None
    return ", ".join(list(found)[:3])


def _size(line: str) -> int:
    return min(len(line), _WIDEST) + 8


def _shown(line: str) -> str:
    """Without what cannot be seen, which could hide something from whoever reads along."""
    line = visible(line.rstrip("\r\n"))
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"
