"""A gap with more text around it than the model can take: what goes, and what stays.

Something shorter is better than no completion, so a gap is never refused for the text around it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from msgspec.structs import replace

from vivace.errors import InvalidRequest
from vivace.protocol.requests import Fill

__all__ = ["fit", "shown"]

_STEP = 256
"""What was typed takes room in steps of so many tokens: if every key moved the place where the text
is cut, nothing of it would ever be found in the cache."""
_MARKS = 16
_PER_FILE = 4


def shown(fill: Fill) -> str:
    """All of its text, to be counted."""
    files = (f"{file.path}\n{file.text}\n" for file in fill.files)
    return "".join((*files, fill.path or "", fill.prefix, fill.suffix or "", fill.typed))


def fit(fill: Fill, limit: int, count: Callable[[str], int]) -> Fill:
    """As much of it as the model takes in ``limit`` tokens.

    The oldest files go first, then whole lines: of the suffix from its end, of the prefix from its
    beginning. What was typed stays.
    """
    typed = -(-count(fill.typed) // _STEP) * _STEP if fill.typed else 0
    room = limit - _MARKS - typed
    if room < 0:
        raise InvalidRequest(
            f"What was typed into the gap is too long for the model, which takes {limit} tokens; "
            "make it part of the prefix.",
            code="context_length_exceeded",
            param="fill.typed",
        )
    around = replace(fill, typed="")

    def fits_from(first: int) -> bool:
        files = around.files[first:]
        return count(shown(replace(around, files=files))) + _PER_FILE * len(files) <= room

    if fits_from(0):
        return fill
    first = bisect_left(range(len(fill.files) + 1), True, lo=1, key=fits_from)
    if first > len(fill.files):
        return _cut(fill, room, count)
    return replace(fill, files=fill.files[first:])


def _cut(fill: Fill, room: int, count: Callable[[str], int]) -> Fill:
    """A model goes by what stands before the gap more than by what stands behind it."""
    room -= count(fill.path or "")
    suffix = _beginning(fill.suffix or "", max(room // 4, room - count(fill.prefix)), count)
    prefix = _end(fill.prefix, room - count(suffix), count)
    return replace(fill, prefix=prefix, suffix=suffix, files=())


def _beginning(text: str, room: int, count: Callable[[str], int]) -> str:
    while text and (size := count(text)) > room:
        kept = text[: len(text) * max(room, 0) // size]
        text = kept[: kept.rfind("\n") + 1] or kept
    return text


def _end(text: str, room: int, count: Callable[[str], int]) -> str:
    while text and (size := count(text)) > room:
        kept = text[len(text) - len(text) * max(room, 0) // size :]
        text = kept.partition("\n")[2] or kept
    return text
