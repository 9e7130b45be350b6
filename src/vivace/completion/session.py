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
from vivace.completion.extent import Cut, cut
from vivace.completion.healing import held_back
from vivace.completion.memory import Answer, Memory
from vivace.completion.neighbours import Neighbour, pieces_of
from vivace.completion.trimming import Place, closers_written, trimmed
from vivace.completion.windows import Window, window
from vivace.protocol.requests import OtherFile

__all__ = ["Ask", "Decision", "Nothing", "Session", "Show", "Wait"]

_MOST_TYPED = 1_000
"""Characters, about 256 tokens; then the gap is anchored anew."""
_BLIND = 24
"""Characters that may be typed while an answer has not begun; then it is hardly about them."""
_MOST_TRIES = 2
"""Answers with an enforced beginning, after a free one, for the same prompt."""
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


class Show(Struct, frozen=True):
    text: str
    covers: int
    """Characters behind the cursor that it takes the place of."""


class Wait(Struct, frozen=True):
    number: int


class Nothing(Struct, frozen=True):
    """The model has nothing that fits."""


Decision = Ask | Show | Wait | Nothing


class _Running(Struct):
    number: int
    anchor: Anchor
    window: Window
    told: str
    starts_with: str
    line: str
    """What stands before the answer on its first line."""
    one_line: bool
    text: str = ""

    @property
    def cut(self) -> Cut:
        return cut(self.text, self.line, one_line=self.one_line)

    def may_fit(self, anchor: Anchor, typed: str) -> bool:
        """Whether what it writes may still go on from what is typed."""
        if anchor != self.anchor or not typed.startswith(self.told):
            return False
        since = typed[len(self.told) :]
        if not self.text:
            return len(since) <= _BLIND and "\n" not in since.strip(" \t")
        return self.text.startswith(since) or since.startswith(self.text)


class Session:
    def __init__(self, path: str, room: int) -> None:
        """``room``: characters of the file that a prompt may have, and half as many of others."""
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
        self._running: _Running | None = None
        self._number = 0
        self._tries: Counter[str] = Counter()
        """How often it was asked behind what was typed since the anchor."""

    def at(self, text: str, offset: int, now: float) -> Decision:
        """What to do about the cursor at this place of this text; ``now`` is when it came there."""
        anchor, typed = self._located(text, offset, now)
        shown = self._shown(anchor, typed)
        if shown is not None:
            return shown
        running = self._running
        if running is not None and running.may_fit(anchor, typed.text):
            return Wait(running.number)
        self.forget()
        return self._ask(anchor, typed)

    def heard(self, number: int, delta: str) -> bool:
        """A piece of an answer; whether all of it that would be shown is there."""
        running = self._running
        if running is None or running.number != number:
            return True
        running.text += delta
        return running.cut.whole

    def ended(self, number: int, *, failed: bool = False) -> None:
        """No more of this answer will come; if it failed, it may be asked for again."""
        running = self._running
        if running is None or running.number != number:
            return
        self._running = None
        if failed:
            if running.anchor == self._anchor:
                self._tries[running.told] -= 1
            return
        anchor, told = running.anchor, running.told
        place = Place(self._path, running.window.prefix + told, running.window.suffix)
        text = trimmed(running.cut.text, place)
        self._memory.remember(Answer(anchor.before + told, anchor.after, text))
        in_vain = not text or not running.text.startswith(running.starts_with)
        if in_vain and anchor == self._anchor:
            self._tries[told] = _MOST_TRIES + 1

    def forget(self) -> None:
        """Nobody waits for the running answer any more."""
        if self._running is not None:
            self.ended(self._running.number, failed=True)

    def ahead(self, text: str, offset: int, now: float) -> Ask | float | None:
        """What can be done with the cursor here, before anybody types; seconds, where it is too
        early to say, and None where all is done. What a person waits for goes before."""
        if self._running is not None:
            return None
        anchor = self._anchor
        elsewhere = anchor is None or typed_since(anchor, text, offset) is None
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
        self._window = window(self._path, anchor, self._room)
        self._files = pieces_of(self.neighbours, self._room // 2)
        self._tries.clear()
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
        before = anchor.before + typed.text
        line = line_before(before, len(before))
        held = min(len(held_back(line)), len(typed.text))
        told = typed.text[: len(typed.text) - held]
        tries = self._tries[told]
        if tries > _MOST_TRIES:
            return Nothing()
        self._tries[told] += 1
        self._number += 1
        self._read = self._files, self._window
        starts_with = typed.text[len(told) :] if tries else ""
        one_line = bool(anchor.after.partition("\n")[0].strip())
        self._running = _Running(
            number=self._number,
            anchor=anchor,
            window=self._window,
            told=told,
            starts_with=starts_with,
            line=line[: len(line) - held],
            one_line=one_line,
        )
        return Ask(self._number, self._files, self._window, told, starts_with)
