"""What is asked for when a check fails after an edit: the part that was edited, with the error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vivace.desk.checking import Checked
from vivace.edits.placing.named_lines import lines_named
from vivace.edits.placing.region import Selection
from vivace.syntax.source import Source

__all__ = ["lines_to_repair", "what_to_repair"]

_LINES = 20
_CHARACTERS = 1500


def what_to_repair(checked: Checked) -> str:
    """The instruction. Of what the check said the end has the reason, and a small model takes the
    rest for code that it is to change."""
    said = "\n".join(checked.tail.rstrip().splitlines()[-_LINES:])[-_CHARACTERS:]
    return f"Fix the code so that this passes: {checked.command}\nIt fails with:\n{said}"


def lines_to_repair(
    path: str, text: str, written: Sequence[Selection], said: str
) -> Selection | None:
    """The function that was just edited; of several the one that the error names a line of, else
    the one with the most new lines. ``written`` is where these stand now."""
    functions = [
        (each.start, each.end)
        for each in Source.of(path, text).definitions
        if each.kind == "function"
    ]
    new: Counter[Selection] = Counter()
    for first, end in written:
        around = [each for each in functions if each[0] <= first and end <= each[1]]
        smallest = min(around, key=lambda each: each[1] - each[0], default=(first, end))
        new[smallest] += end - first
    for line in reversed(lines_named(path, said)):
        for part in new:
            if part[0] <= line < part[1]:
                return part
    return max(new, key=lambda part: (part in functions, new[part]), default=None)
