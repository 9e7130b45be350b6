"""Where a right edit changes the file, and whether a part of it is the right one to show."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from bench.edit_runs.tasks import Task
from bench.edit_sets.boundaries import touchable
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

    Lines are inserted beside a line, which must be in a region. None where no edit is right.
    """
    if task.reference is None:
        return None
    if sum(region.end - region.start for region in regions) > most:
        return False
    return all(
        any(region.start <= place.start and place.end <= region.end for region in regions)
        for place in _places(_source(task), Source(task.language, task.reference))
    )


def definitions_around(task: Task) -> tuple[int, int] | None:
    """From the first to the last line, counted from 1, of the definitions that the reference
    changes: what somebody who knows the place would select."""
    if task.reference is None:
        return None
    before, reference = _source(task), Source(task.language, task.reference)
    lines = touchable(before, reference, ())
    lines = lines - before.import_lines or lines
    if not lines:  # something new between definitions
        lines = {_above(before, place.start) for place in _places(before, reference)}
        lines = {line for each in lines for line in _unit(before, each)}
    return min(lines) + 1, max(lines) + 1


def _source(task: Task) -> Source:
    return Source(task.language, task.text)


def _places(before: Source, after: Source) -> list[Span]:
    """The old lines that change; none where lines are only inserted.

    Imports count only where nothing else changes: an edit brings its own to where they belong.
    """
    found = list(_changes(before, after))
    return [place for place, imports in found if not imports] or [place for place, _ in found]


def _changes(before: Source, after: Source) -> Iterator[tuple[Span, bool]]:
    matcher = difflib.SequenceMatcher(None, before.lines, after.lines, autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal":
            continue
        old = (line in before.import_lines for line in _written(before, start, end))
        new = (line in after.import_lines for line in _written(after, first, last))
        yield Span(start, end), all(old) and all(new)


def _written(source: Source, start: int, end: int) -> list[int]:
    return [line for line in range(start, end) if source.lines[line].strip()]


def _above(source: Source, place: int) -> int:
    """The last line with something in it before this place."""
    return next((line for line in range(place - 1, -1, -1) if source.lines[line].strip()), 0)


def _unit(source: Source, line: int) -> range:
    unit = source.unit(line)
    return range(unit.start, unit.end) if unit else range(line, line + 1)
