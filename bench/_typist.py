"""A person at the keyboard: a commit as the keys that turn the old text into the new one.

How this person types is written down in ``Habits`` and drawn from a seed. A change is made where it
stands: what goes is selected and deleted with one key, what comes is typed. Enter indents by
itself, as editors do. Brackets and quotes are closed by the editor, typed over when the person
comes to their end, and deleted with one key where they were not wanted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

_CLOSES = {"(": ")", "[": "]", "{": "}", "'": "'", '"': '"', "`": "`"}
_QUOTES = "'\"`"
_AFTER_A_CLOSED_PAIR = " \t\n)]}>,;:'\"`"
"""Editors close a bracket by themselves only before these, or at the end."""


class Habits(Struct, frozen=True):
    slowest: float = 5.0
    fastest: float = 10.0
    """Keys per second; each key draws its own."""
    jumps: float = 1 / 80
    """How often, per key, a place is left unfinished for another."""
    pauses_at_lines: float = 0.3
    pauses_at_words: float = 0.06
    """How often the person stops to think, before a new line and behind a word."""
    shortest_pause: float = 0.5
    further_pause: float = 1.5
    """Seconds that a pause lasts beyond the shortest one, in the mean; drawn exponentially."""
    longest_pause: float = 8.0

    def key(self, dice: random.Random) -> float:
        return 1 / dice.uniform(self.slowest, self.fastest)

    def pause(self, dice: random.Random) -> float:
        further = dice.expovariate(1 / self.further_pause)
        return min(self.longest_pause, self.shortest_pause + further)


class Change(Struct, frozen=True):
    kept: str
    """What stands before it, from the last change on."""
    old: str
    new: str


class Moment(Struct, frozen=True):
    """The document behind a key, or behind a jump of the cursor."""

    text: str
    offset: int
    place: int
    """Which of the changes is being made."""
    written: int
    """How many characters of it are there."""
    going: str
    """What the person will type here from now on."""
    closers: str
    """What the editor has put behind the cursor."""
    wait: float
    """Seconds to the next key."""
    pauses: bool = False
    jumped: bool = False


def changes(before: str, after: str) -> tuple[list[Change], str]:
    """What is to be done from top to bottom, and the text behind it."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    found: list[Change] = []
    kept = ""
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            kept += "".join(old[a:b])
            continue
        by_line = kind == "replace" and b - a == d - c
        pairs = zip(old[a:b], new[c:d], strict=True) if by_line else [(old[a:b], new[c:d])]
        for gone, come in pairs:
            change, kept = _narrowed(kept, "".join(gone), "".join(come))
            found.append(change)
    return found, kept


def _narrowed(kept: str, old: str, new: str) -> tuple[Change, str]:
    """Only what differs; whole lines that come are begun behind the line before them."""
    if not old and kept.endswith("\n") and new.endswith("\n"):
        return Change(kept[:-1], "", "\n" + new[:-1]), "\n"
    same = shared(old, new)
    tail = shared(old[same:][::-1], new[same:][::-1])
    change = Change(kept + new[:same], old[same : len(old) - tail], new[same : len(new) - tail])
    return change, new[len(new) - tail :]


def shared(one: Sequence[object], other: Sequence[object]) -> int:
    """How far two beginnings are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    shorter = min(len(one), len(other))
    return next((at for at, (mine, its) in pairs if mine != its), shorter)


class _Sheet:
    """The document while the changes are made, in any order."""

    def __init__(self, before: str, after: str) -> None:
        self.changes, self._rest = changes(before, after)
        self.written: dict[int, str] = {}
        """By change, once it was begun."""
        self.closers = ["" for _ in self.changes]

    def text(self) -> str:
        shown = (change.kept + self._shown(at) for at, change in enumerate(self.changes))
        return "".join(shown) + self._rest

    def _shown(self, at: int) -> str:
        if at not in self.written:
            return self.changes[at].old
        return self.written[at] + self.closers[at]

    def offset(self, place: int) -> int:
        before = sum(len(self.changes[at].kept) + len(self._shown(at)) for at in range(place))
        return before + len(self.changes[place].kept) + len(self.written.get(place, ""))

    def going(self, place: int) -> str:
        return self.changes[place].new[len(self.written.get(place, "")) :]

    def finished(self, place: int) -> bool:
        return place in self.written and not self.going(place) and not self.closers[place]

    def press(self, place: int) -> str:
        """The next key here; what it wrote, if it wrote anything."""
        if place not in self.written:
            self.written[place] = ""
            if self.changes[place].old:
                return ""
        going, closers = self.going(place), self.closers[place]
        if not going:
            self.closers[place] = ""
            return ""
        key = going[0]
        if key == "\n":
            key += going[1 : len(going) - len(going[1:].lstrip(" \t"))]
        if closers.startswith(key):
            self.closers[place] = closers[1:]
        elif self._is_closed_by_the_editor(place, key):
            self.closers[place] = _CLOSES[key] + closers
        self.written[place] += key
        return key

    def _is_closed_by_the_editor(self, place: int, key: str) -> bool:
        text, offset = self.text(), self.offset(place)
        if key not in _CLOSES or text[offset : offset + 1].strip(_AFTER_A_CLOSED_PAIR):
            return False
        before = text[offset - 1 : offset]
        return key not in _QUOTES or not (before.isalnum() or before in {"_", key})


def moments(
    before: str, after: str, dice: random.Random, habits: Habits | None = None
) -> Iterator[Moment]:
    habits = habits or Habits()
    sheet = _Sheet(before, after)
    unfinished = list(range(len(sheet.changes)))
    place: int | None = None
    while unfinished:
        if place is None:
            place = unfinished[0]
            yield _moment(sheet, place, habits.pause(dice), jumped=True)
        key = sheet.press(place)
        pauses = bool(sheet.going(place)) and dice.random() < _thinks(key, habits)
        wait = habits.pause(dice) if pauses else habits.key(dice)
        yield _moment(sheet, place, wait, pauses=pauses)
        if sheet.finished(place):
            unfinished.remove(place)
            place = None
        elif len(unfinished) > 1 and dice.random() < habits.jumps:
            place = dice.choice([other for other in unfinished if other != place])
            yield _moment(sheet, place, habits.pause(dice), jumped=True)


def _thinks(key: str, habits: Habits) -> float:
    if key.startswith("\n"):
        return habits.pauses_at_lines
    return habits.pauses_at_words if key and not (key.isalnum() or key == "_") else 0.0


def _moment(
    sheet: _Sheet, place: int, wait: float, *, pauses: bool = False, jumped: bool = False
) -> Moment:
    return Moment(
        sheet.text(),
        sheet.offset(place),
        place,
        len(sheet.written.get(place, "")),
        sheet.going(place),
        sheet.closers[place],
        wait,
        pauses,
        jumped,
    )
