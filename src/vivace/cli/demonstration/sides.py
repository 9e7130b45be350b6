"""The two ways, each with a connection of its own to the same model.

``Plain`` sends the whole file and has the whole file written again, without drafts. ``Edit`` does
what ``vivace edit`` does, and is redirected on the way by a line that is typed as by a person.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from vivace.cli.demonstration.desk import Desk
from vivace.cli.demonstration.sample import (
    ASKED_DEFAULT,
    INSTRUCTION,
    PATH,
    REDIRECT,
    REDIRECTED_DEFAULT,
    Verdict,
    judge,
    sample,
)
from vivace.cli.editing.diff import GrowingDiff
from vivace.client.connection import Connection
from vivace.edits.attempt import Attempt, EditPlan, Outcome, Task, plan, redirected, retry
from vivace.edits.context import Context
from vivace.protocol.items import Message
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk

__all__ = ["Edit", "Plain", "Stopwatch", "Tokens"]

_KEY_S = 0.03
"""From one typed key to the next: a quick typist."""
_HALFWAY = 0.4
"""The part of the answer after which it is redirected even if no hunk came."""
_SHORT = 1024
"""Tokens; an answer that may be no longer is taken for one that somebody waits for."""
_CHARACTERS_PER_TOKEN = 4
_FENCE = re.compile(r"^```.*(?:\n|\Z)", re.MULTILINE)


class Stopwatch:
    def __init__(self) -> None:
        self._began: float | None = None
        self._stopped: float | None = None

    def start(self) -> None:
        self._began = time.perf_counter()

    def stop(self) -> None:
        self._stopped = self._stopped or time.perf_counter()

    @property
    def running(self) -> bool:
        return self._began is not None and self._stopped is None

    @property
    def stopped(self) -> bool:
        return self._stopped is not None

    @property
    def seconds(self) -> float:
        if self._began is None:
            return 0.0
        return (self._stopped or time.perf_counter()) - self._began


@dataclass
class Tokens:
    """Tokens of an answer: estimated while it comes, because drafted ones come several at a time,
    and exact when the server has told their number."""

    told: int | None = None
    _deltas: int = 0
    _characters: int = 0
    _first: float = 0.0
    _last: float = 0.0

    def add(self, text: str) -> None:
        self._last = time.perf_counter()
        self._first = self._first or self._last
        self._deltas += 1
        self._characters += len(text)

    @property
    def count(self) -> int:
        return self.told or max(self._deltas, self._characters // _CHARACTERS_PER_TOKEN)

    @property
    def per_second(self) -> float | None:
        """While it was written; the wait for the first one is not in it."""
        seconds = self._last - self._first
        return (self.count - 1) / seconds if seconds > 0 else None

    def __str__(self) -> str:
        return f"{self.count:,}" if self.told else f"about {self.count:,}"


# -- the plain way --------------------------------------------------------------------------------


@dataclass
class Plain:
    """The instruction, the whole file, and the whole file back."""

    model: str
    watch: Stopwatch = field(default_factory=Stopwatch)
    tokens: Tokens = field(default_factory=Tokens)
    answer: str = ""
    status: str = ""
    """How it ended, as the server said."""

    async def run(self, connection: Connection) -> None:
        self.watch.start()
        try:
            async for text in connection.turn(**self._body()):
                self.tokens.add(text)
                self.answer += text
            self.tokens.told = connection.figures.tokens
            self.status = _status(connection)
        finally:
            self.watch.stop()

    @property
    def text(self) -> str:
        """The file as far as it is written."""
        parts = _FENCE.split(self.answer)
        return parts[1] if len(parts) > 1 else parts[0]

    @property
    def verdict(self) -> Verdict | None:
        """Of a file that was finished."""
        return (
            judge(f"{self.text.rstrip()}\n", ASKED_DEFAULT) if self.status == "completed" else None
        )

    def _body(self) -> dict[str, Any]:
        asked = (
            f"{INSTRUCTION}\n\n{PATH}:\n\n```python\n{sample()}```\n\n"
            "Answer with the whole changed file in one code block. Change nothing else."
        )
        room = _SHORT + len(sample()) // 2
        return _body(self.model, [Message(role="user", content=asked)], "", room)


# -- the way of vivace edit -----------------------------------------------------------------------


@dataclass
class Edit:
    """A region, the old code as its draft, and the smallest change that comes of it."""

    model: str
    desk: Desk
    watch: Stopwatch = field(default_factory=Stopwatch)
    tokens: Tokens = field(default_factory=Tokens)
    """Of the present answer."""
    earlier: int = 0
    """Tokens of answers that were turned away from, about."""
    typed: str = ""
    """The redirecting line as far as it is typed."""
    redirected: float | None = None
    """The time at Enter."""
    again: str = ""
    """Why the model was asked once more."""
    outcome: Outcome | None = None
    undone: bool | None = None
    """Whether the file is as it was before; None before that was tried."""
    diff: list[str] = field(default_factory=list)
    """Lines of a diff, growing with the answer."""
    said: str = ""
    """The present answer."""
    plan: EditPlan = field(init=False)
    _attempt: Attempt = field(init=False)
    _growing: GrowingDiff = field(init=False)
    _halfway: asyncio.Event = field(default_factory=asyncio.Event)
    _running: bool = False
    _direction: int = 0
    """Text counts from so many redirects of the connection on."""
    _follow_up: str | None = None

    def __post_init__(self) -> None:
        self._begin(plan(Task(PATH, sample(), INSTRUCTION), Context(), self.model))

    async def run(self, connection: Connection) -> None:
        """Ask, be redirected, and apply what came of it if nothing speaks against it."""
        self.watch.start()
        try:
            await self._converse(connection)
            outcome = self._finish(connection)
            if not outcome.good:
                self.again = outcome.problems[0].person
                self._begin(retry(self.plan, outcome))
                await self._listen(connection, self._body())
                outcome = self._finish(connection)
            if outcome.good:
                self.desk.apply(outcome.hunks)
            self.outcome = outcome
        finally:
            self.watch.stop()

    def undo(self) -> None:
        if self.desk.applied:
            self.undone = self.desk.undo()

    @property
    def verdict(self) -> Verdict | None:
        """Of an edit that was applied."""
        if self.outcome is None or not self.outcome.good:
            return None
        return judge(self.outcome.text, REDIRECTED_DEFAULT)

    async def _converse(self, connection: Connection) -> None:
        """The answer, with a line typed in the middle, or after it where it was quicker."""
        typing = asyncio.create_task(self._redirect(connection))
        try:
            await self._listen(connection, self._body())
            self._halfway.set()
            await typing
        finally:
            typing.cancel()
        if self._follow_up is not None:
            goes_on = {"previous_response_id": connection.response and connection.response.id}
            await self._listen(connection, self._body() | {"input": self._follow_up} | goes_on)

    async def _redirect(self, connection: Connection) -> None:
        await self._halfway.wait()
        for key in REDIRECT:
            await asyncio.sleep(_KEY_S)
            self.typed += key
        await asyncio.sleep(10 * _KEY_S)
        self.redirected = self.watch.seconds
        told = self._turn(REDIRECT)
        if self._running:
            self._direction = connection.redirects + 1
            await connection.steer(told)
        else:
            self._follow_up = told

    async def _listen(self, connection: Connection, body: dict[str, Any]) -> None:
        self._running, self._direction = True, 0
        async for text in connection.turn(**body):
            if connection.redirects >= self._direction:
                self._take(text)
        self._running = False

    def _take(self, text: str) -> None:
        self.tokens.add(text)
        self.said += text
        hunks = self._attempt.feed(text)
        for hunk in hunks:
            self.diff += self._growing.add(hunk)
        if hunks or len(self.said) > _HALFWAY * len(self.plan.prediction):
            self._halfway.set()

    def _begin(self, made: EditPlan) -> None:
        self.earlier += self.tokens.count
        self.plan, self.said, self.tokens = made, "", Tokens()
        self._attempt = Attempt(made)
        self._show(())

    def _turn(self, line: str) -> str:
        """Begin again in this direction; returns what to tell the model."""
        self._begin(redirected(self.plan, self.said, line))
        return str(self.plan.items[-1].content)

    def _finish(self, connection: Connection) -> Outcome:
        """The edit, which replaces what was shown of it on the way."""
        self.tokens.told = connection.figures.tokens
        outcome = self._attempt.finish()
        if _status(connection) != "completed":
            why = "The answer was cut off."
            outcome = replace(outcome, problems=(Finding("cut_off", why, why), *outcome.problems))
        self._show(outcome.hunks)
        self.diff += self._growing.end()
        return outcome

    def _show(self, hunks: Sequence[Hunk]) -> None:
        self._growing = GrowingDiff(sample())
        self.diff = [line for hunk in hunks for line in self._growing.add(hunk)]

    def _body(self) -> dict[str, Any]:
        made = self.plan
        room = min(_SHORT, _SHORT // 2 + len(made.prediction) // 2)
        return _body(self.model, made.items, made.prediction, room)


def _status(connection: Connection) -> str:
    return (connection.response.status or "") if connection.response else ""


def _body(model: str, items: Sequence[Message], prediction: str, room: int) -> dict[str, Any]:
    """An empty prediction is one too: it keeps the server from drafting by itself."""
    body: dict[str, Any] = {
        "input": [{"role": item.role, "content": item.content} for item in items],
        "prediction": {"type": "content", "content": prediction},
        "max_output_tokens": room,
        "temperature": 0,
        "store": False,
    }
    return body | ({"model": model} if model else {})
