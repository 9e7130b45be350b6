"""Suggestions at the cursor of one document: carries out what ``completion`` decides.

One request is in flight at most. A newer key replaces it, unless what is being written still fits.
While nobody types, the engine reads ahead what the next key will ask about; who asks goes first.
Nothing is raised for the server's sake: why nothing comes stands in ``status``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vivace.client.errors import ClientError
from vivace.client.gap import Gap, those_given
from vivace.completion.neighbours import Neighbour
from vivace.completion.pace import PATIENCE, Pace
from vivace.completion.room import Room
from vivace.completion.session import Ask, Nothing, Session, Show, Wait
from vivace.desk.counts import Counts
from vivace.workspace.ignore import secret_content

__all__ = ["Completing", "Filling", "Suggestion"]

_MOST_TOKENS = 160
_SEAM = 200
"""Characters on both sides of the cursor that a secret may have."""
_BETWEEN_FAILURES = 1.0
"""Seconds; where the server does not say how long it wants to be left alone."""
_BETWEEN_REFUSALS = 30.0
"""Seconds; the same for what nobody asked for."""


class Filling(Protocol):
    """Who fills gaps: one connection for all documents."""

    @property
    def has_tiers(self) -> bool:
        """Whether it lets work wait that nobody waits for; False until it has answered."""

    def fill(self, lane: str, gap: Gap) -> AsyncGenerator[str, None]: ...


@dataclass(frozen=True)
class Suggestion:
    """Goes in place of ``text[start:end]`` of the document; the cursor is between them."""

    text: str
    start: int
    end: int


@dataclass
class Completing:
    server: Filling
    lane: str
    path: str
    model: str = ""
    room: Room = field(default_factory=Room)
    clock: Callable[[], float] = time.monotonic
    status: str = ""
    """Why nothing comes, for the person; empty while all is well."""
    reachable: bool = True
    """Whether there was a server when it was asked last."""
    counts: Counts = field(default_factory=Counts)
    pace: Pace = field(default_factory=Pace)
    unasked: Callable[[], bool] = lambda: True
    """Whether anything may be done that nobody has asked for."""
    _session: Session = field(init=False)
    _here: tuple[str, int] = ("", 0)
    """The text, with plain line ends, and where the cursor is in it."""
    _answering: asyncio.Task[None] | None = None
    _ahead: asyncio.Task[None] | None = None
    """What nobody has asked for, and its number."""
    _ahead_number: int = 0
    _looks_again: asyncio.TimerHandle | None = None
    _newest: int = 0
    _key: float = 0.0
    """When the newest key came."""
    _glimpse: asyncio.Future[None] | None = None
    """Done when something can be shown of the running answer, for who waits for it."""
    _quiet_until: float = float("-inf")
    """Until then a server that refused is left alone."""
    _none_ahead_until: float = float("-inf")
    """The same for what nobody has asked for."""
    _read: str | None = ""
    """What the engine has read; None where it was left in the middle of it."""

    def beside(self, neighbours: Sequence[Neighbour]) -> None:
        """Other files that may be read, the newest first; without those that hold a secret."""
        self._session.neighbours = [each for each in neighbours if _secret_in(each.text) is None]

    def __post_init__(self) -> None:
        self._session = Session(self.path, self.room)

    async def at(self, text: str, offset: int) -> Suggestion | None:
        """What to show at this place; None for nothing, and where a newer key came meanwhile."""
        self._newest += 1
        mine = self._newest
        self.counts.keys += 1
        self._key = key = self.clock()
        self.pace.typed(key)
        self._here = _without_carriage_returns(text, offset)
        try:
            return await self._shown(text, offset, key, mine)
        finally:
            if mine == self._newest:
                self._look_ahead()

    def warm(self, text: str, offset: int) -> asyncio.Task[None] | None:
        """The cursor is here, and nobody types yet. What reads ahead then, if anything does."""
        self._here = _without_carriage_returns(text, offset)
        self._look_ahead()
        return self._ahead

    async def close(self) -> None:
        self._newest += 1
        if self._looks_again is not None:
            self._looks_again.cancel()
        if running := self._cancelled():
            await asyncio.wait(running)

    async def _shown(self, text: str, offset: int, key: float, number: int) -> Suggestion | None:
        plain, place = self._here
        first = True
        while True:
            decision = self._session.at(plain, place, key)
            match decision:
                case Show():
                    self.counts.answered(self.clock() - key, remembered=first)
                    ends = "\r\n" if len(plain) < len(text) else "\n"
                    shown = decision.text.replace("\n", ends)
                    return Suggestion(shown, offset, offset + decision.covers)
                case Nothing():
                    return None
                case Wait():
                    if decision.number == self._ahead_number:
                        self._adopt()
                    if self._answering is None or self._answering.done():
                        self._session.forget()  # whoever wrote it is gone
                        continue
                case Ask():
                    if not self._may_ask(decision, plain, place):
                        self._session.forget()
                        return None
                    self._replace(decision)
            first = False
            await self._settled()
            if number != self._newest or self.status:
                return None

    # -- asking -----------------------------------------------------------------------------------

    def _may_ask(self, ask: Ask, text: str, offset: int) -> bool:
        if self.clock() < self._quiet_until:
            return False
        if (what := _secret(ask, text, offset)) is not None:
            self.status = f"Nothing is asked here: the text seems to hold {what}."
        return what is None

    def _replace(self, ask: Ask) -> None:
        """At once: whoever asked may be cancelled while they wait, and then nobody would answer
        what the session waits for."""
        answering = self._answer(ask, self._cancelled())
        self._answering = asyncio.create_task(answering, name=f"completion {self.lane}")

    def _adopt(self) -> None:
        """Somebody waits now for what nobody had asked for."""
        if self._answering is not None:
            self._answering.cancel()
        self._answering, self._ahead, self._ahead_number = self._ahead, None, 0

    def _cancelled(self) -> list[asyncio.Task[None]]:
        """All that runs, on its way to its end."""
        running = [each for each in (self._ahead, self._answering) if each is not None]
        self._ahead, self._ahead_number, self._answering = None, 0, None
        for each in running:
            each.cancel()
        return running

    async def _settled(self) -> None:
        """Wait for the running answer, or for the part of it that can be shown, whoever asked for
        it; it goes on if the waiter is gone."""
        if self._answering is None:
            return
        if self._glimpse is None or self._glimpse.done():
            self._glimpse = asyncio.get_running_loop().create_future()
        both = [self._answering, self._glimpse]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)

    async def _answer(self, ask: Ask, before: Sequence[asyncio.Task[None]]) -> None:
        """When what was before is over, read the answer until all that would be shown is there."""
        failed = True
        try:
            if before:
                await asyncio.wait(before)
            await self._rest()
            self.counts.requests += 1
            began = self.clock()
            await self._hear(ask)
            self.pace.answered(self.clock() - began)
            self.status = ""
            self.reachable = True
            failed = False
        except ClientError as error:
            self.status = str(error)
            self.reachable = error.code != "no_server"
            self._quiet_until = self.clock() + (error.retry_after or _BETWEEN_FAILURES)
        finally:
            self._session.ended(ask.number, failed=failed)
        self._look_ahead()

    async def _hear(self, ask: Ask) -> None:
        known, self._read = self._read, None
        told = ask.told
        new = 0 if known is None else len(told) - _shared(known, told)
        began = self.clock()
        async with contextlib.aclosing(self.server.fill(self.lane, self._gap(ask))) as answer:
            async for delta in answer:
                if self._read is None:
                    self._read = told
                    self.room.read(new, self.clock() - began)
                if self._session.heard(ask.number, delta):
                    break
                self._show_what_is_there(ask)
        if not ask.generate:
            self._read = told
            self.room.read(new, self.clock() - began)

    def _show_what_is_there(self, ask: Ask) -> None:
        glimpse = self._glimpse
        if glimpse is None or glimpse.done() or ask.number == self._ahead_number:
            return  # nobody waits for it
        late = self.clock() - self._key >= PATIENCE
        if late and self._session.glimpse(ask.number, *self._here):
            glimpse.set_result(None)

    async def _rest(self) -> None:
        """As long as the next key is likely to change everything."""
        wanted = self.clock()
        rest = self.pace.delay(wanted, wanted)
        while rest > 0:
            await asyncio.sleep(rest)
            rest = self.pace.delay(wanted, self.clock())  # more keys may have come

    # -- ahead of the keys ------------------------------------------------------------------------

    def _look_ahead(self) -> None:
        """Decide anew, now that something has happened or time has passed."""
        if self._looks_again is not None:
            self._looks_again.cancel()
        if self._ahead_number and not self._session.is_following(self._ahead_number):
            self._end_ahead()
        follow = self.server.has_tiers and self.pace.follows
        while self._may_work_ahead():
            match self._session.ahead(*self._here, self.clock(), follow=follow):
                case None:
                    return
                case Ask() as ask:
                    self._begin_ahead(ask)
                case seconds:
                    loop = asyncio.get_running_loop()
                    self._looks_again = loop.call_later(seconds, self._look_ahead)
                    return

    def _may_work_ahead(self) -> bool:
        resting = self.clock() < max(self._quiet_until, self._none_ahead_until)
        return self.unasked() and self.pace.works_ahead and not resting

    def _begin_ahead(self, ask: Ask) -> None:
        self._end_ahead()
        if _secret(ask, *self._here) is not None:
            self._session.ended(ask.number)
            return
        self.counts.ahead += 1
        working = self._work_ahead(ask)
        self._ahead = asyncio.create_task(working, name=f"ahead of {self.lane}")
        self._ahead_number = ask.number

    def _end_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
        self._ahead, self._ahead_number = None, 0

    async def _work_ahead(self, ask: Ask) -> None:
        failed = True
        try:
            await self._hear(ask)
            failed = False
        except ClientError as error:
            rest = error.retry_after or _BETWEEN_REFUSALS
            self._none_ahead_until = self.clock() + rest
        finally:
            self._session.ended(ask.number, failed=failed)
        self._look_ahead()

    def _gap(self, ask: Ask) -> Gap:
        around = {"prefix": ask.window.prefix, "suffix": ask.window.suffix}
        files = [{"path": each.path, "text": each.text} for each in ask.files]
        more = those_given(
            path=self.path, files=files, typed=ask.typed, starts_with=ask.starts_with
        )
        return Gap(
            fill=around | more,
            model=self.model,
            max_tokens=_MOST_TOKENS,
            cache_key=self.lane,
            generate=ask.generate,
            background=ask.background,
        )


def _secret(ask: Ask, text: str, offset: int) -> str | None:
    """What kind of secret would be sent, if one would: also one that the cursor stands in."""
    around = text[max(0, offset - _SEAM) : offset + _SEAM]
    return _secret_in(f"{ask.window.prefix}{ask.typed}\n{ask.window.suffix}\n{around}")


def _shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[:middle]):
            low = middle
        else:
            high = middle - 1
    return low


def _secret_in(text: str) -> str | None:
    return secret_content(text.encode("utf-8", "surrogatepass"))


def _without_carriage_returns(text: str, offset: int) -> tuple[str, int]:
    """The text with plain line ends, and the same place in it."""
    if "\r" not in text or "\r\n" not in text:  # the first is far sooner found out
        return text, offset
    return text.replace("\r\n", "\n"), offset - text.count("\r\n", 0, offset)
