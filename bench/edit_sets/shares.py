"""How a set is mixed, beside what FORMAT.md asks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from bench.edit_sets.schema import Task

__all__ = ["shares"]

_NAME = re.compile(r"`|\w_\w|[a-z][A-Z]|\w\(\)|\w\.\w|::")
"""What looks like a name from code in what somebody typed."""


def _kind(kind: str) -> Callable[[Task], bool]:
    return lambda task: kind in task.kinds


_SHARES: tuple[tuple[str, str, Callable[[Task], bool]], ...] = (
    ("to be stopped", "15% or more", lambda task: task.expect == "stop"),
    ("name in backticks", "few", lambda task: "`" in task.instruction),
    ("no name at all", "about half", lambda task: not _NAME.search(task.instruction)),
    ("several places", "25% or more of edits", _kind("several places")),
    ("vague", "15% or more", _kind("vague")),
    ("misspelt", "10% or more", _kind("misspelt")),
    ("not English", "10% or more", _kind("not English")),
    ("error pasted", "10% or more", _kind("error pasted")),
    ("selection or cursor", "20% to 40%", lambda task: bool(task.selection or task.cursor)),
    ("visible check", "some", lambda task: task.visible is not None),
)


def shares(tasks: Sequence[Task]) -> list[str]:
    edits = [task for task in tasks if task.expect == "edit"]
    lines = []
    for name, wanted, holds in _SHARES:
        base = edits if wanted.endswith("of edits") else tasks
        count, whole = sum(map(holds, base)), len(base)
        share = count / whole if whole else 0
        lines.append(f"  {name:<20}{count:>4} of {whole} = {share:>4.0%}  ({wanted})")
    return lines
