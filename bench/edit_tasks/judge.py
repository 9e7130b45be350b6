"""The verdict over an edited file of the older tasks.

Right is an edit that does what was asked (the task's checks) and nothing else. Damage is a file
that no longer parses, or that changed outside the lines that the task names; what was asked may
have been done or not.
"""

from __future__ import annotations

import ast
import re

from bench.edit_sets import Verdict
from bench.edit_sets.boundaries import line_range
from bench.edit_sets.schema import Additions, OldCheck, OldTask
from bench.edit_tasks.checks import faults
from bench.edit_tasks.running import compiles
from bench.edit_tasks.source import Source

__all__ = ["judge"]

_IMPORT = re.compile(r"\s*(import\b|from\b.+\bimport\b|#\s*include\b|$)")


def judge(task: OldTask, before: str, text: str) -> Verdict:
    """What this text of the file is, as an answer to the task."""
    if text == before:
        return Verdict("wrong", "nothing was changed")
    old, new = Source(task.language, before), Source(task.language, text)
    if damage := _broken(new) or _outside(task.check, old, new):
        return Verdict("damage", damage)
    if missing := compiles(new) or next(faults(task.check, new), None):
        return Verdict("wrong", missing)
    return Verdict("right")


def _broken(source: Source) -> str | None:
    """Why the file does not parse, or None."""
    if source.language == "python":
        try:
            ast.parse(source.text)
        except (SyntaxError, ValueError) as error:
            return f"does not parse: {error}"
        return None
    return "does not parse" if source.errors() else None


def _outside(check: OldCheck, before: Source, after: Source) -> str | None:
    """What changed that may not, or None.

    A walk through both files at once: a line that may change may go, lines may come beside it,
    additions where the task allows them, and all else must stand there again as it was.
    ``reached`` holds, for a place in the old file, the places in the new one that explain it.
    """
    old, new, may = before.lines, after.lines, _may_change(check, before)
    gaps = before.top_level() if check.additions != "nothing" else set()
    reached = {0}
    for number in range(len(old) + 1):
        if number in may or number - 1 in may:
            reached = set(range(min(reached), len(new) + 1))
        elif number in gaps:
            reached = _added(check.additions, new, reached)
        if number == len(old):
            return None if len(new) in reached else "lines were added at the end"
        onwards = {place + 1 for place in reached if place < len(new) and new[place] == old[number]}
        if number in may:
            onwards |= reached
        if not onwards:
            return f"line {number + 1} may not change: {old[number].strip()!r}"
        reached = onwards
    return None


def _may_change(check: OldCheck, before: Source) -> set[int]:
    parts = (line_range(part) or before.lines_of(part) for part in check.may_change)
    return {line for part in parts for line in part}


def _added(additions: Additions, new: list[str], reached: set[int]) -> set[int]:
    if additions == "anything":
        return set(range(min(reached), len(new) + 1))
    onwards = set(reached)
    for place in sorted(reached):
        while place < len(new) and _IMPORT.match(new[place]):
            place += 1
            onwards.add(place)
    return onwards
