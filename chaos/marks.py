"""Words that say where they come from: ``m17.4@n2.a1`` is the fifth word of the answer that is
marked 17, said by the engine whose incarnation is n2, on the answer's first attempt.

An engine that goes on for another says the next word with its own name, so that whoever reads the
answer sees where it was handed over, and whether a word was left out there or said twice.
"""

from __future__ import annotations

import re
from itertools import pairwise

__all__ = ["MARK", "broken_off"]

MARK = re.compile(r"\bm(?P<marker>\w+)\.(?P<index>\d+)@(?P<engine>\w+)\.a(?P<attempt>\d+)\b")

_Place = tuple[str, int, str, int]


def broken_off(text: str) -> str | None:
    """Where these words do not go on as they should, in a sentence; None if they do."""
    places = [_place(found) for found in MARK.finditer(text)]
    for place in places[:1]:
        if place[1]:
            return f"its first word is number {place[1]}"
    for before, after in pairwise(places):
        if after[0] != before[0]:
            return f"word {after[1]} is of another answer, marked {after[0]}"
        if after[1] != before[1] + 1:
            return f"after word {before[1]} of attempt {before[3]} comes word {after[1]}"
        if after[3] < before[3]:
            return f"attempt {before[3]} was followed by attempt {after[3]}"
        if after[3] == before[3] and after[2] != before[2]:
            return f"{before[2]} and {after[2]} both spoke on attempt {after[3]}"
    return None


def _place(found: re.Match[str]) -> _Place:
    return found["marker"], int(found["index"]), found["engine"], int(found["attempt"])
