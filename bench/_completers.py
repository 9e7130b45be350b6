"""Ways to complete while somebody types: ours, and two that stand for what others do.

All have the same room in the prompt, ask without delay, have one request under way at a time, drop
it at the next key, remember what they were answered, cut and trim it alike, and show the lines that
are there when the rest takes long. What differs is what they put into the prompt, and when they
ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from bench._editor import Buffer, Editor
from bench._metered import Metered
from vivace.client.errors import ClientError
from vivace.client.gap import Gap
from vivace.completion.extent import cut, so_far
from vivace.completion.memory import Answer, Memory
from vivace.completion.pace import PATIENCE, Pace
from vivace.completion.room import Room
from vivace.completion.trimming import Place, trimmed
from vivace.completion.windows import Window
from vivace.desk.completing import Completing, Filling, Suggestion

_BEFORE = 2 / 3
"""The part of the room that is for the prefix, as in ours."""
_MOVED = 3 / 4
"""How full a window is that was just moved, so that it need not move again at once."""
_MOST_TOKENS = 160
_ON_ITS_WAY = 0.1
"""Seconds; what comes later than that behind the next key was given for a text that was old."""


class Completer(Protocol):
    @property
    def requests(self) -> int: ...

    async def at(self, text: str, offset: int) -> Suggestion | None:
        """What to show behind a key; None where a newer one came meanwhile."""

    async def arrived(self, text: str, offset: int) -> None:
        """The cursor was put here, and nothing typed yet."""

    async def close(self) -> None: ...


class Ours:
    """The desk itself, for whoever has a clock of their own."""

    def __init__(
        self, server: Filling, lane: str, path: str, room: int, clock: Callable[[], float]
    ) -> None:
        self._completing = Completing(
            server, lane, path, room=Room(room), clock=clock, pace=Pace("always")
        )

    @property
    def requests(self) -> int:
        return self._completing.counts.requests

    async def at(self, text: str, offset: int) -> Suggestion | None:
        return await self._completing.at(text, offset)

    async def arrived(self, text: str, offset: int) -> None:
        if (reading := self._completing.warm(text, offset)) is not None:
            await asyncio.wait([reading])

    async def close(self) -> None:
        await self._completing.close()


class InEditor:
    """Ours as a person has it: the language server, over its standard streams. The requests are
    all that the gateway had of it, be it only to read ahead."""

    def __init__(self, buffer: Buffer, server: Metered, turns: int) -> None:
        self.requests = 0
        self._buffer = buffer
        self._server = server
        self._turns = turns

    @classmethod
    async def opened(cls, editor: Editor, path: Path, text: str, server: Metered) -> InEditor:
        turns = await server.turns()
        return cls(editor.open(path, text), server, turns)

    async def at(self, text: str, offset: int) -> Suggestion | None:
        answer = await self._buffer.become(text, offset).answer()
        # It was on its way when the next key was pressed: every editor drops it.
        return None if 0 < answer.late < _ON_ITS_WAY else answer.suggestion

    async def arrived(self, text: str, offset: int) -> None:
        self._buffer.arrive(offset)

    async def close(self) -> None:
        self._buffer.close()
        self.requests = await self._server.turns() - self._turns


class _AnewForEachKey:
    """The typed text is the end of the prefix, so the suffix is behind it."""

    def __init__(self, server: Filling, lane: str, path: str, room: int) -> None:
        self.requests = 0
        self._server = server
        self._lane = lane
        self._path = path
        self.before = int(room * _BEFORE)
        self.after = room - self.before
        self._memory = Memory()
        self._asking: asyncio.Task[None] | None = None
        self._glimpse = asyncio.Event()
        self._newest = 0

    def window(self, text: str, offset: int) -> Window:
        raise NotImplementedError

    async def at(self, text: str, offset: int) -> Suggestion | None:
        self._newest += 1
        mine = self._newest
        before, after = text[:offset], text[offset:]
        if (known := self._memory.fitting(before, after)) is None:
            await self.close()
            if mine != self._newest:
                return None
            self._glimpse.clear()
            asking = asyncio.create_task(self._ask(before, after))
            self._asking = asking
            glimpse = asyncio.create_task(self._glimpse.wait())
            await asyncio.wait([asking, glimpse], return_when=asyncio.FIRST_COMPLETED)
            glimpse.cancel()
            known = self._memory.fitting(before, after)
        if known is None or mine != self._newest:
            return None
        return Suggestion(known, offset, offset)

    async def arrived(self, text: str, offset: int) -> None:
        """Nothing is read ahead."""

    async def close(self) -> None:
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
            await asyncio.wait([asking])

    async def _ask(self, before: str, after: str) -> None:
        self.requests += 1
        window = self.window(before + after, len(before))
        fill = {"prefix": window.prefix, "suffix": window.suffix, "path": self._path}
        line = before.rpartition("\n")[2]
        one_line = bool(after.partition("\n")[0].strip())
        place = Place(self._path, window.prefix, window.suffix)
        text = ""
        began, lines = time.monotonic(), 0
        with contextlib.suppress(ClientError):
            gap = Gap(fill=fill, max_tokens=_MOST_TOKENS, cache_key=self._lane)
            async with contextlib.aclosing(self._server.fill(self._lane, gap)) as answer:
                async for delta in answer:
                    text += delta
                    if cut(text, line, one_line=one_line).whole:
                        break
                    if time.monotonic() - began < PATIENCE or text.count("\n") == lines:
                        continue
                    lines = text.count("\n")
                    there = so_far(text, line, one_line=one_line)
                    self._memory.remember(Answer(before, after, trimmed(there, place)))
                    if self._memory.fitting(before, after) is not None:
                        self._glimpse.set()
        shown = cut(text, line, one_line=one_line).text
        self._memory.remember(Answer(before, after, trimmed(shown, place)))


class Sliding(_AnewForEachKey):
    """As Continue does it: the last and the next so many characters, anew for each key."""

    def window(self, text: str, offset: int) -> Window:
        start = max(0, offset - self.before)
        return Window(text[start:offset], text[offset : offset + self.after])


class Stable(_AnewForEachKey):
    """As llama.vim does it: whole lines, from a fixed line to a fixed line, until the cursor has
    gone too far from them."""

    def __init__(self, server: Filling, lane: str, path: str, room: int) -> None:
        super().__init__(server, lane, path, room)
        self._first = 0
        self._behind = 0
        """Lines of the file that come before the window, and behind it."""
        self._known = False

    def window(self, text: str, offset: int) -> Window:
        lines = text.split("\n")
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line) + 1)
        start = starts[min(self._first, len(lines) - 1)]
        end = min(len(text), starts[max(0, len(lines) - self._behind)])
        fits = offset - self.before <= start <= offset <= end <= offset + self.after
        if not (self._known and fits and self._is_full(start, offset, end, len(text))):
            least = offset - self._room(self.before, offset)
            start = next(
                at for at in starts if at >= min(least, starts[text.count("\n", 0, offset)])
            )
            most = offset + self._room(self.after, len(text) - offset)
            end = max(offset, *(at for at in (*starts[:-1], len(text)) if at <= most))
            self._first = starts.index(start)
            self._behind = sum(at >= end for at in starts[:-1]) if end < len(text) else 0
            self._known = True
        return Window(text[start:offset], text[offset:end])

    def _is_full(self, start: int, offset: int, end: int, length: int) -> bool:
        """Whether at least half of the room is used on both sides, where there is that much."""
        return offset - start >= min(offset, self.before // 2) and end - offset >= min(
            length - offset, self.after // 2
        )

    def _room(self, most: int, there: int) -> int:
        return there if there <= most else int(most * _MOVED)
