"""Fill-in-the-middle (FIM): a gap in a file, written as the model was trained to read it.

Between the model's marks stand texts of any kind, and those may hold the same marks: code about
models does. An engine takes a mark for one wherever it stands whole, so in a text it never does.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from vivace.models import Fim
from vivace.protocol.requests import Fill

__all__ = ["render", "render_as_one", "stops"]


def render(fill: Fill, fim: Fim) -> list[str]:
    """The prompt, in strings that are to be tokenised one by one: marks in texts are cut in two.

    Other files of the repository come first, each behind its marker; what was typed into the gap
    comes last, so that the next key only adds to it.
    """
    parting = _within_marks(fim)
    parts: list[str] = []
    for piece in _pieces(fill, fim):
        parts += [str(piece)] if isinstance(piece, _Mark) else parting.split(piece)
    return [part for part in parts if part]


def render_as_one(fill: Fill, fim: Fim) -> str:
    """For an endpoint that takes one string and no less: marks in texts have a space put in."""
    parting = _within_marks(fim)
    return "".join(
        piece if isinstance(piece, _Mark) else parting.sub(" ", piece)
        for piece in _pieces(fill, fim)
    )


class _Mark(str):
    """One of the model's, where it is meant."""

    __slots__ = ()


def _pieces(fill: Fill, fim: Fim) -> Iterator[str]:
    if fim.file_sep and (fill.files or fill.path):
        if fim.repo:
            yield from (_Mark(fim.repo), f"{fill.repo or 'repository'}\n")
        for file in fill.files:
            yield from (_Mark(fim.file_sep), f"{file.path}\n{file.text}\n")
        yield from (_Mark(fim.file_sep), f"{fill.path or 'file'}\n")
    before, after, middle = _Mark(fim.prefix), _Mark(fim.suffix), _Mark(fim.middle)
    if fim.suffix_first:
        yield from (after, fill.suffix or "", before, fill.prefix + fill.typed, middle)
    else:
        yield from (before, fill.prefix, after, fill.suffix or "", middle, fill.typed)


@functools.cache
def _within_marks(fim: Fim) -> re.Pattern[str]:
    """Behind the first character of each: of those used here, and of whatever else looks like a
    model's, such as what ends its turn."""
    marks = {(mark[0], mark[1:]) for mark in stops(fim)} | {("<", "|"), ("<", "\uff5c")}
    places = (f"(?<={re.escape(first)})(?={re.escape(rest)})" for first, rest in sorted(marks))
    return re.compile("|".join(places))


def stops(fim: Fim) -> tuple[str, ...]:
    """What a model writes when it goes on past the gap."""
    marks = (fim.prefix, fim.suffix, fim.middle, fim.pad, fim.repo, fim.file_sep)
    return tuple(mark for mark in marks if mark)
