"""Suggestions at the cursor of one document: carries out what ``completion`` decides.

One request is in flight at most. A newer key replaces it, unless what is being written still fits.
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
from vivace.completion.pace import Pace
from vivace.completion.session import Ask, Nothing, Session, Show, Wait
from vivace.desk.counts import Counts
from vivace.workspace.ignore import secret_content

__all__ = ["Completing", "Filling", "Suggestion"]

_ROOM = 6_000
"""Characters of a document in a prompt, about 1,500 tokens."""
_MOST_TOKENS = 160
_SEAM = 200
"""Characters on both sides of the cursor that a secret may have."""
_BETWEEN_FAILURES = 1.0
"""Seconds; where the server does not say how long it wants to be left alone."""


class Filling(Protocol):
    """Who fills gaps: one connection for all documents."""

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
    room: int = _ROOM
    clock: Callable[[], float] = time.monotonic
    status: str = ""
    """Why nothing comes, for the person; empty while all is well."""
    reachable: bool = True
    """Whether there was a server when it was asked last."""
    counts: Counts = field(default_factory=Counts)
    pace: Pace = field(default_factory=Pace)
    _session: Session = field(init=False)
    _answering: asyncio.Task[None] | None = None
    _newest: int = 0
    _quiet_until: float = float("-inf")
    """Until then a server that refused is left alone."""

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
        key = self.clock()
        self.pace.typed(key)
        plain, place = _without_carriage_returns(text, offset)
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
                    if self._answering is None or self._answering.done():
                        self._session.forget()  # whoever wrote it is gone
                        continue
                case Ask():
                    if self.clock() < self._quiet_until:
                        self._session.forget()
                        return None
                    if (what := _secret(decision, plain, place)) is not None:
                        self._session.forget()
                        self.status = f"Nothing is asked here: the text seems to hold {what}."
                        return None
                    self._replace(decision)
            first = False
            await self._settled()
            if mine != self._newest or self.status:
                return None

    async def warm(self, text: str, offset: int) -> None:
        """Let the engine read what stands around the cursor before anybody types."""
        plain, place = _without_carriage_returns(text, offset)
        ahead = self._session.ahead_of(plain, place, self.clock())
        if _secret(ahead, plain, place) is None:
            with contextlib.suppress(ClientError):
                async for _ in self.server.fill(self.lane, self._gap(ahead, generate=False)):
                    pass

    async def close(self) -> None:
        self._newest += 1
        await self._stop()

    # -- asking -----------------------------------------------------------------------------------

    def _replace(self, ask: Ask) -> None:
        """At once: whoever asked may be cancelled while they wait, and then nobody would answer
        what the session waits for."""
        before = self._answering
        if before is not None:
            before.cancel()
        answering = self._answer(ask, before)
        self._answering = asyncio.create_task(answering, name=f"completion {self.lane}")

    async def _stop(self) -> None:
        answering, self._answering = self._answering, None
        if answering is not None:
            answering.cancel()
            await asyncio.wait([answering])

    async def _settled(self) -> None:
        """Wait for the running answer, whoever asked for it; it goes on if the waiter is gone."""
        if self._answering is not None:
            await asyncio.wait([self._answering])

    async def _answer(self, ask: Ask, before: asyncio.Task[None] | None) -> None:
        """When the one before is over, read the answer until all that would be shown is there."""
        failed = True
        try:
            if before is not None:
                await asyncio.wait([before])
            await self._rest()
            self.counts.requests += 1
            began = self.clock()
            async with contextlib.aclosing(self.server.fill(self.lane, self._gap(ask))) as answer:
                async for delta in answer:
                    if self._session.heard(ask.number, delta):
                        break
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

    async def _rest(self) -> None:
        """As long as the next key is likely to change everything."""
        wanted = self.clock()
        rest = self.pace.delay(wanted, wanted)
        while rest > 0:
            await asyncio.sleep(rest)
            rest = self.pace.delay(wanted, self.clock())  # more keys may have come

    def _gap(self, ask: Ask, *, generate: bool = True) -> Gap:
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
            generate=generate,
        )


def _secret(ask: Ask, text: str, offset: int) -> str | None:
    """What kind of secret would be sent, if one would: also one that the cursor stands in."""
    around = text[max(0, offset - _SEAM) : offset + _SEAM]
    return _secret_in(f"{ask.window.prefix}{ask.typed}\n{ask.window.suffix}\n{around}")


def _secret_in(text: str) -> str | None:
    return secret_content(text.encode("utf-8", "surrogatepass"))


def _without_carriage_returns(text: str, offset: int) -> tuple[str, int]:
    """The text with plain line ends, and the same place in it."""
    if "\r\n" not in text:
        return text, offset
    return text.replace("\r\n", "\n"), offset - text.count("\r\n", 0, offset)
