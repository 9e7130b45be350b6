"""One document while somebody types in it: what to show, what to ask, what to wait for.

Decisions out, text and ``now`` in; nothing here waits or sends. A key is answered by

    Show     from what is remembered
    Wait     for the running answer, which still fits
    Ask      anew; what runs is of no use any more
    Nothing  where the model has nothing that fits

and ``ahead`` says what the engine can do before the next key asks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from vivace.completion.anchor import Anchor, Typed, anchored, line_before, typed_since
from vivace.completion.healing import held_back
from vivace.completion.memory import Answer, Memory
from vivace.completion.neighbours import Neighbour, pieces_of
from vivace.completion.room import Room
from vivace.completion.running import Running
from vivace.completion.trimming import Place, closers_written, trimmed
from vivace.completion.windows import Window, window
from vivace.protocol.requests import OtherFile

__all__ = ["Ask", "Decision", "Nothing", "Session", "Show", "Wait"]

_MOST_TYPED = 1_000
"""Characters, about 256 tokens; then the gap is anchored anew."""
_MOST_TRIES = 2
"""Answers with an enforced beginning, after a free one, for the same prompt."""
_GLANCE = 0.3
"""Seconds without a key, after which a suggestion is being read: there is time to go on from it."""
_IDLE = 8.0
"""Seconds without a key, after which the gap is anchored anew: there is time to read it."""


class Ask(Struct, frozen=True):
    number: int
    files: tuple[OtherFile, ...]
    window: Window
    typed: str
    """Stands behind the middle mark."""
    starts_with: str = ""
    """What an answer must begin with; enforced, since a free one did not."""
    generate: bool = True
    """False: it is only read, so that a key behind it is answered sooner."""
    background: bool = False
    """Nobody waits for it yet."""

    @property
    def told(self) -> str:
        """All the engine reads for it, in that order."""
        around = self.window
        return "".join(
            (*(each.text for each in self.files), around.prefix, around.suffix, self.typed)
        )


class Show(Struct, frozen=True):
    text: str
    covers: int
    """Characters behind the cursor that it takes the place of."""


class Wait(Struct, frozen=True):
    number: int


class Nothing(Struct, frozen=True):
    """The model has nothing that fits."""


Decision = Ask | Show | Wait | Nothing


class Session:
    def __init__(self, path: str, room: Room) -> None:
        """``room``: of the file in a prompt; of others half as much."""
        self._path = path
        self._room = room
        self.neighbours: Sequence[Neighbour] = ()
        """Other files, the newest first. A change counts from the next anchor on: until then the
        engine has read what it was shown."""
        self._files: tuple[OtherFile, ...] = ()
        self._memory = Memory()
        self._anchor: Anchor | None = None
        self._window = Window("", "")
        self._read: tuple[tuple[OtherFile, ...], Window] | None = None
        """What the engine was given to read last."""
        self._untouched = False
        """Whether nobody has typed since the gap was read ahead: then time does not age it."""
        self._last = float("-inf")
        self._running: Running | None = None
        self._following: Running | None = None
        """The answer to come behind what is suggested, while nobody waits for it."""
        self._suggested = ("", "")
        """Where something was shown last: what was typed, and what will be if it is taken."""
        self._number = 0
        self._tries: Counter[str] = Counter()
        """How often it was asked behind what was typed since the anchor."""

    def at(self, text: str, offset: int, now: float) -> Decision:
        """What to do about the cursor at this place of this text; ``now`` is when it came there."""
        anchor, typed = self._located(text, offset, now)
        shown = self._shown(anchor, typed)
        self._suggested = (typed.text, typed.text + shown.text) if shown is not None else ("", "")
        if shown is not None:
            following = self._following
            if following is not None and not self._suggested[1].startswith(following.told):
                self._forget(following)
            return shown
        running = self._running
        if running is not None and running.may_fit(anchor, typed.text):
            return Wait(running.number)
        self.forget()
        following = self._following
        if following is not None and following.text and following.may_fit(anchor, typed.text):
            self._running, self._following = following, None
            return Wait(following.number)
        return self._ask(anchor, typed)

    def heard(self, number: int, delta: str) -> bool:
        """A piece of an answer; whether all of it that would be shown is there."""
        running = self._found(number)
        if running is None:
            return True
        running.text += delta
        running.place.parse()  # once, while the rest is being written
        return running.whole

    def glimpse(self, number: int, text: str, offset: int) -> bool:
        """An answer takes long: whether the lines that are whole by now can be shown at this place
        already. The rest is for who takes them."""
        running, anchor = self._found(number), self._anchor
        if running is None or anchor is None or running.glimpsed == running.text.count("\n"):
            return False
        running.glimpsed = running.text.count("\n")
        lines = trimmed(running.so_far, running.place)
        self._memory.remember(
            Answer(running.anchor.before + running.told, running.anchor.after, lines)
        )
        typed = typed_since(anchor, text, offset)
        return typed is not None and self._shown(anchor, typed) is not None

    def ended(self, number: int, *, failed: bool = False) -> None:
        """No more of this answer will come; if it failed, it may be asked for again."""
        running = self._found(number)
        if running is None:
            return
        if running is self._running:
            self._running = None
        else:
            self._following = None
        if failed:
            if running.anchor == self._anchor:
                self._tries[running.told] -= 1
            return
        shown = self._remember(running)
        in_vain = not shown or not running.text.startswith(running.starts_with)
        if in_vain and running.anchor == self._anchor:
            self._tries[running.told] = _MOST_TRIES + 1

    def forget(self) -> None:
        """Nobody waits for the running answer any more."""
        if self._running is not None:
            self._forget(self._running)

    def is_following(self, number: int) -> bool:
        """Whether this answer would still follow what is suggested."""
        return self._following is not None and self._following.number == number

    def ahead(self, text: str, offset: int, now: float, *, follow: bool) -> Ask | float | None:
        """What can be done with the cursor here, before anybody types; seconds, where it is too
        early to say, and None where all is done. What a person waits for goes before. ``follow``:
        whether that may be an answer which is to follow what is suggested."""
        if self._running is not None:
            return None
        anchor = self._anchor
        typed = typed_since(anchor, text, offset) if anchor is not None else None
        if anchor is not None and typed is not None and follow:
            following = self._follow(anchor, typed, now)
            if following is not None:
                return following
        elsewhere = typed is None
        if not elsewhere and anchored(text, offset) != anchor:
            idle_in = self._last + _IDLE - now
            if idle_in > 0:
                return idle_in
            elsewhere = True  # as good as: what was typed becomes a part of what is read
        if elsewhere:
            self._anchor_at(text, offset)
        self._untouched = True
        return self._unread()

    # -- deciding ---------------------------------------------------------------------------------

    def _located(self, text: str, offset: int, now: float) -> tuple[Anchor, Typed]:
        """The gap that the cursor is in, which may be a new one, and what was typed in it."""
        idle = now - self._last > _IDLE and not self._untouched
        self._last = now
        self._untouched = False
        if self._anchor is not None and not idle:
            typed = typed_since(self._anchor, text, offset)
            if typed is not None and len(typed.text) <= _MOST_TYPED:
                return self._anchor, typed
        anchor = self._anchor_at(text, offset)
        return anchor, Typed(text[len(anchor.before) : offset])

    def _anchor_at(self, text: str, offset: int) -> Anchor:
        self._anchor = anchor = anchored(text, offset)
        self._window = window(self._path, anchor, self._room.characters)
        self._files = pieces_of(self.neighbours, self._room.characters // 2)
        self._tries.clear()
        self._suggested = ("", "")
        if self._following is not None:
            self._forget(self._following)
        return anchor

    def _unread(self) -> Ask | None:
        """The gap, if it is not what the engine has read last."""
        known = self._read
        self._read = self._files, self._window
        if known == self._read:
            return None
        return Ask(0, self._files, self._window, "", generate=False)

    def _shown(self, anchor: Anchor, typed: Typed) -> Show | None:
        rest = self._memory.fitting(anchor.before + typed.text, anchor.after)
        if rest is None:
            return None
        return Show(rest, closers_written(typed.text + rest, typed.closers))

    def _ask(self, anchor: Anchor, typed: Typed) -> Decision:
        if self._following is not None:
            self._forget(self._following)
        told, held, line = _divided(anchor, typed.text)
        tries = self._tries[told]
        if tries > _MOST_TRIES or self._memory.has(
            Answer(anchor.before + told, anchor.after, held)
        ):
            return Nothing()
        running = self._running = self._begun(anchor, told, line, held)
        running.starts_with = held if tries else ""
        return Ask(running.number, self._files, self._window, told, running.starts_with)

    def _follow(self, anchor: Anchor, typed: Typed, now: float) -> Ask | float | None:
        """What to ask that would follow what is suggested, once for each suggestion."""
        shown_at, whole = self._suggested
        if self._following is not None or not whole or typed.text != shown_at:
            return None
        told, held, line = _divided(anchor, whole)
        known = self._memory.fitting(anchor.before + whole, anchor.after) is not None
        if known or self._tries[told] or len(whole) > _MOST_TYPED:
            return None
        read_in = self._last + _GLANCE - now
        if read_in > 0:
            return read_in
        following = self._following = self._begun(anchor, told, line, held)
        following.ends = held
        return Ask(following.number, self._files, self._window, told, background=True)

    def _begun(self, anchor: Anchor, told: str, line: str, held: str) -> Running:
        self._tries[told] += 1
        self._number += 1
        self._read = self._files, self._window
        return Running(
            number=self._number,
            anchor=anchor,
            place=Place(self._path, self._window.prefix + told, self._window.suffix, held),
            told=told,
            line=line,
            one_line=bool(anchor.after.partition("\n")[0].strip()),
        )

    def _remember(self, running: Running) -> bool:
        """Whether anything of it will be shown."""
        anchor, behind, place = running.anchor, running.told, running.place
        for part in running.parts:
            text = trimmed(part.text, place)
            self._memory.remember(Answer(anchor.before + behind, anchor.after, text))
            if not text or text != part.text:
                return bool(text) or behind != running.told
            behind += f"{text}\n"  # more of it would not stand behind what was trimmed
            place = Place(self._path, f"{place.before}{text}\n", place.after)
        return True

    def _found(self, number: int) -> Running | None:
        both = (self._running, self._following)
        return next((each for each in both if each is not None and each.number == number), None)

    def _forget(self, running: Running) -> None:
        self.ended(running.number, failed=True)


def _divided(anchor: Anchor, typed: str) -> tuple[str, str, str]:
    """Of what is typed: what a model is told, what it is to write itself, and the line before."""
    before = anchor.before + typed
    line = line_before(before, len(before))
    held = min(len(held_back(line)), len(typed))
    told = typed[: len(typed) - held]
    return told, typed[len(told) :], line[: len(line) - held]
