"""Where a right edit changes the file, and whether a part of it is the right one to show."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from bench.edit_runs.tasks import Task
from bench.edit_sets.boundaries import neighbours, touchable
from bench.edit_sets.syntax import Source, Span

__all__ = ["MOST_LINES", "changed_lines", "definitions_around", "region_right"]

MOST_LINES = 120
"""A region of more lines is a guess that was not made."""


def changed_lines(before: str, after: str) -> int:
    """Lines that went and lines that came."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return sum(
        last - first + end - start
        for kind, first, last, start, end in matcher.get_opcodes()
        if kind != "equal"
    )


def region_right(task: Task, regions: Sequence[Span], most: int = MOST_LINES) -> bool | None:
    """Whether the regions hold every line that the reference changes, and are small enough.

    What is inserted counts by the lines beside it. None where no edit is right.
    """
    if task.reference is None:
        return None
    if sum(region.end - region.start for region in regions) > most:
        return False
    changes = _changes(_source(task), Source(task.language, task.reference))
    return all(any(change.within(region) for region in regions) for change in changes)


def definitions_around(task: Task) -> tuple[int, int] | None:
    """From the first to the last line, counted from 1, of the definitions that the reference
    changes: what somebody who knows the place would select."""
    if task.reference is None:
        return None
    before, reference = _source(task), Source(task.language, task.reference)
    lines = touchable(before, reference, ())
    lines = lines - before.import_lines or lines
    if not lines:  # something new between definitions
        above = (min(change.beside) for change in _changes(before, reference))
        lines = {line for each in above for line in _unit(before, each)}
    return min(lines) + 1, max(lines) + 1


@dataclass(frozen=True)
class _Change:
    """Old lines that change, or beside which lines are inserted."""

    span: Span
    beside: frozenset[int]
    """Where nothing old changes: lines of which one must be shown."""
    imports: bool

    def within(self, region: Span) -> bool:
        if self.span.start < self.span.end:
            return region.start <= self.span.start and self.span.end <= region.end
        return any(region.holds(line) for line in self.beside)


def _source(task: Task) -> Source:
    return Source(task.language, task.text)


def _changes(before: Source, after: Source) -> list[_Change]:
    """Imports count only where nothing else changes: an edit brings its own to their place."""
    found: list[_Change] = []
    matcher = difflib.SequenceMatcher(None, before.lines, after.lines, autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal":
            continue
        old = (line in before.import_lines for line in _written(before, start, end))
        new = (line in after.import_lines for line in _written(after, first, last))
        beside = neighbours(after, start, first, last) or _around(before, start)
        found.append(_Change(Span(start, end), frozenset(beside), all(old) and all(new)))
    return [change for change in found if not change.imports] or found


def _written(source: Source, start: int, end: int) -> list[int]:
    return [line for line in range(start, end) if source.lines[line].strip()]


def _around(source: Source, place: int) -> set[int]:
    """The nearest lines with something in them, before this place and from it on."""
    written = _written(source, 0, len(source.lines))
    above = [line for line in written if line < place][-1:]
    return {*above, *[line for line in written if line >= place][:1]}


def _unit(source: Source, line: int) -> range:
    unit = source.unit(line)
    return range(unit.start, unit.end) if unit else range(line, line + 1)
