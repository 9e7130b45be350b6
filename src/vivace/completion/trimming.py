"""What is cut from an answer before it is shown; the steps are a list, in their order.

Each step takes the answer and the place it is for, and gives a part of the answer back, from its
beginning on. An answer of which nothing is left is not shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

from msgspec import Struct

from vivace.syntax.hunk import Hunk
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source

__all__ = ["Place", "closers_written", "trimmed"]

_CLOSES = {"(": ")", "[": "]", "{": "}"}
_QUOTES = "'\"`"
_ENDS = ")]};:," + _QUOTES
_TELLING = 3
"""Letters and digits of a line that is not there twice by chance."""


class Place(Struct, frozen=True, dict=True):
    """Where an answer goes: between these two parts of the window."""

    path: str
    before: str
    after: str
    held: str = ""
    """What is typed already of the answer, which a model was left to write itself."""

    @property
    def rest_of_line(self) -> str:
        return self.after.partition("\n")[0]

    @cached_property
    def source(self) -> Source:
        """What stands there without any answer."""
        return Source.of(self.path, self.before + self.after)

    def parse(self) -> None:
        """Ahead of time: then little is left to parse when the answer is there."""
        if self.source.language is not None:
            _ = self.source.tree

    def with_answer(self, answer: str) -> Source:
        row, begun = self.before.count("\n"), self.before.rpartition("\n")[2]
        old = self.source.lines[row : row + 1]
        line = begun + answer + "".join(old)[len(begun) :]
        return self.source.edited([Hunk(row, tuple(old), tuple(lines_of(line)))])


def trimmed(answer: str, place: Place) -> str:
    for step in _STEPS:
        answer = step(answer, place)
    return answer.rstrip()


def _without_loops(answer: str, place: Place) -> str:
    """The same line three times is a model that goes round."""
    lines = answer.split("\n")
    for at in range(2, len(lines)):
        if (
            lines[at].strip()
            and lines[at - 2].strip() == lines[at - 1].strip() == lines[at].strip()
        ):
            return "\n".join(lines[: at - 1])
    return answer


def _indented_as_the_file(answer: str, place: Place) -> str:
    """Up to the first line whose indentation is made of something else than the file's own, tabs
    or so many spaces."""
    begun = place.before.rpartition("\n")[2]
    lines = answer.split("\n")
    if len(lines) == 1 and begun.strip():
        return answer  # it indents nothing
    known = [_indentation(line) for line in (place.before + place.after).split("\n")]
    signs = set().union(*known)
    step = math.gcd(*map(len, known))
    for at, line in enumerate(lines):
        own = _indentation(line if at else begun + line)
        if signs and (not signs.issuperset(own) or len(own) % step):
            return "\n".join(lines[:at])
    return answer


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())] if line.strip() else ""


def _without_next_lines(answer: str, place: Place) -> str:
    """Not what stands on the next lines already; at its end not even with another indentation."""
    following = (line for line in place.after.split("\n")[1:] if line.strip())
    if (known := next(following, None)) is None:
        return answer
    begun = place.before.rpartition("\n")[2]
    lines = (begun + answer).split("\n")
    for at, line in enumerate(lines):
        if line.rstrip() == known.rstrip() and (at or not begun.strip()):
            lines = lines[:at]
            break
    while lines and _tells(known) and lines[-1].strip() == known.strip():
        _drop_last(lines)
    return "\n".join(lines)[len(begun) :]


def _drop_last(lines: list[str]) -> None:
    """With the lines that open nothing but it."""
    depth = len(_indentation(lines.pop()))
    while lines and lines[-1].strip() and (above := len(_indentation(lines[-1]))) < depth:
        depth = above
        lines.pop()


def _tells(line: str) -> bool:
    """Whether a line says more than that something ends."""
    return sum(sign.isalnum() for sign in line) >= _TELLING


def _without_rest_of_line(answer: str, place: Place) -> str:
    """Not what stands behind the cursor already: neither words nor the brackets that close."""
    tail = place.rest_of_line.strip()
    if not tail:
        return answer
    line = answer.partition("\n")[0]
    if not tail.strip(_ENDS):
        typed = place.held if line.startswith(place.held) else ""  # what it opened, the tail closes
        return typed + _as_far_as_it_closes(line[len(typed) :], tail)
    return line.rstrip()[: -len(tail)] if line.rstrip().endswith(tail) else line


def _as_far_as_it_closes(line: str, tail: str) -> str:
    """Up to the sign that closes what was open before it, where ``tail`` does that."""
    for at, sign in enumerate(line):
        if sign == tail[0] and not _left_open(line[:at]):
            odd = line.count(sign, at) % 2 == 1
            if sign in _CLOSES.values() or sign not in _QUOTES or odd:
                return line[:at]
    return line


def _as_far_as_it_parses(answer: str, place: Place) -> str:
    """Whole if the file is no worse with it, else its first line, else nothing."""
    if place.source.language is None:
        return answer
    for part in dict.fromkeys((answer, answer.partition("\n")[0])):
        after = place.with_answer(part)
        if not after.errors or len(after.errors) <= len(place.source.errors):
            return part
    return ""


_STEPS: tuple[Callable[[str, Place], str], ...] = (
    _without_loops,
    _indented_as_the_file,
    _without_next_lines,
    _without_rest_of_line,
    _as_far_as_it_parses,
)


def closers_written(text: str, closers: str) -> int:
    """How many of the signs that the editor put behind the cursor this text writes itself: those
    of what it leaves open are still needed."""
    needed = "".join(_CLOSES.get(sign, sign) for sign in reversed(_left_open(text)))
    return next(at for at in range(len(closers) + 1) if needed.startswith(closers[at:]))


def _left_open(text: str) -> list[str]:
    """The brackets and quotes that are open at the end of a text, the outermost first."""
    found: list[str] = []
    for at, sign in enumerate(text):
        inside = found[-1] if found else ""
        if inside in _QUOTES and inside:
            if sign == inside and text[at - 1] != "\\":
                found.pop()
        elif sign in _QUOTES or sign in _CLOSES:
            found.append(sign)
        elif inside and sign == _CLOSES.get(inside):
            found.pop()
    return found
