"""What every engine is asked for, and what it promises.

An engine answers ``generate`` with deltas that end in exactly one ``Finished``. Closing the
iterator (or cancelling the task that reads it) aborts the work and frees its slot. Backpressure:
when the reader is slow the engine must not queue without bound, it joins deltas of the same kind.

A delta may be many tokens, and tokens may be held back until they mean something, so deltas say
nothing of what an answer that is aborted has cost. The engine notes that in the work's ``tally``,
at the latest when the iterator is closed.

A turn whose engine died goes on at another, which is given what was said (``Work.said``). It says
what follows, and never a character twice. As input it may count what was said, as output only what
it adds.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from msgspec import Struct, field

from vivace.conversation.deltas import Delta, Tokens
from vivace.conversation.so_far import SoFar
from vivace.protocol.items import Item
from vivace.protocol.requests import (
    Fill,
    PlainFormat,
    Prediction,
    TextFormat,
    Toolbox,
    ToolChoice,
)

__all__ = [
    "Card",
    "Chat",
    "Continues",
    "Engine",
    "Fill",
    "Generates",
    "OnRecord",
    "QueueingEngine",
    "Sampling",
    "Tally",
    "Tell",
    "Thoughts",
    "Work",
]

Continues = Literal["ids", "text", "no"]
"""How an engine goes on from what another said: from its tokens, from its text, or not at all."""


class Card(Struct, frozen=True):
    """A model as an engine offers it."""

    name: str
    context: int
    owned_by: str = "vivace"
    fills: bool = False
    """Whether it is known to fill a gap in a text."""
    efforts: tuple[str, ...] = ()
    """How much it can be asked to think, as far as we know."""
    effort: str | None = None
    """How much it thinks when nobody asks."""
    ends_thinking: bool = False
    """Whether the engine takes ``Work.thoughts``."""


class Sampling(Struct, frozen=True, kw_only=True):
    """None leaves it to the engine's own default for the model."""

    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None


class Chat(Struct, frozen=True, kw_only=True):
    """A conversation to be continued by the assistant."""

    items: Sequence[Item]
    instructions: str | None = None
    toolbox: Toolbox = field(default_factory=Toolbox)
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    format: TextFormat = field(default_factory=PlainFormat)
    effort: str | None = None
    prediction: Prediction | None = None


class Tally(Struct):
    """What a piece of work has taken so far, as well as its engine knows; 0 is unknown."""

    input: int = 0
    cached: int = 0
    output: int = 0
    trace: object = None
    """The engine's own note of what it wrote, for itself when it is asked to go on from there."""
    steps: int = 0
    """How often the engine has shown that it works on it; what stays the same is silence."""


class Thoughts(Struct, frozen=True):
    """Thinking that was broken off so that the answer begins now."""

    text: str
    trace: object = None
    """Of the tally of the work that was broken off; None if that was another engine's."""


class Bounds(Struct, frozen=True):
    """Of an engine's own queue: what would wait longer is refused with ``EngineFull``, at once
    rather than late."""

    queue: int
    """How many may wait before it."""
    first_token: float | None = None
    """Seconds."""


class OnRecord(Struct, frozen=True, kw_only=True):
    """Of a turn that is on record: what another gateway needs to take it over, beside what its
    engine says. An engine node keeps it with its log."""

    epoch: int
    """How many gateways have held it, this one among them."""
    created: bytes = b""
    """The response as it was created, where the record has it otherwise."""
    before: bytes = b""
    """The log of the turn up to here."""
    tokens: Tokens = Tokens()
    """What that has taken."""
    summary: bool = False
    """Whether the answer is the conversation in short."""
    last_told: Callable[[], int] | None = None
    """The number of the last event that its holder has told: others may read along up to there."""


class Work(Struct, frozen=True, kw_only=True):
    id: str
    model: str
    prompt: Chat | Fill
    sampling: Sampling = field(default_factory=Sampling)
    generate: bool = True
    """False: only read the prompt, so that the next request finds it cached."""
    parent_id: str | None = None
    """The response this one continues; an engine may keep its tokens."""
    priority: int = 0
    """0 is the most urgent; an engine that can serves the urgent first."""
    thoughts: Thoughts | None = None
    """What the model has thought of this prompt. The engine closes the thoughts as its template
    does, and the model goes on from there; only for cards that say ``ends_thinking``."""
    said: SoFar | None = None
    """What another engine has said of this very turn before it died; ``sampling.max_tokens`` is
    what is left. Only for engines that can go on from it (``continuing.py``)."""
    attempt: int = 1
    """How many engines were given it, this one among them."""
    owner: str = ""
    """Whose work it is. An engine that runs in our process tree shares no cache between owners;
    an HTTP endpoint has no way to be told."""
    conversation: str = ""
    """What it should stay together with, where an engine has several places for it."""
    cost: float = 0.0
    """Weighted tokens that it is expected to take, for an engine that others ask, too."""
    tier: str = ""
    """What its client asked for, for an engine that has a queue of its own."""
    bounds: Bounds | None = None
    """Of that queue; without, it waits as long as it takes."""
    traceparent: str | None = None
    """The trace that it is part of, for an engine that keeps traces of its own."""
    on_record: OnRecord | None = None
    """Only for an engine that outlives this gateway."""
    tally: Tally = field(default_factory=Tally)


class Engine(Protocol):
    name: str
    cards: Sequence[Card]
    continues: Continues
    counts: bool
    """Whether ``count`` knows better than an estimate by bytes."""

    async def start(self) -> None:
        """Make it ready to answer; returns when it is."""

    async def stop(self) -> None:
        """End it and everything it runs."""

    def healthy(self) -> bool: ...

    def running(self) -> int:
        """How many requests hold a slot now."""

    def count(self, items: Sequence[Item], model: str) -> int:
        """How many tokens these items are, at least roughly and never far too few."""

    def metrics(self) -> bytes:
        """Its own figures in Prometheus' form, if it keeps any."""

    def generate(self, work: Work) -> AsyncGenerator[Delta, None]: ...


class Generates(Protocol):
    """What answers: an engine, or a slot of one."""

    def generate(self, work: Work) -> AsyncGenerator[Delta, None]: ...


Tell = Callable[[int, float], Awaitable[None]]
"""Hears where work stands in a queue, and for how many seconds about."""


class QueueingEngine(Engine, Protocol):
    """One that others ask, too, so that it has a queue of its own."""

    def taken(self) -> int:
        """How much it has to do, running and waiting, for whomever."""

    async def lengths(self, parts: Sequence[Sequence[Item]], model: str) -> Sequence[int] | None:
        """What ``count`` says of each where the engine is; None if there was no answer."""

    def slot(
        self, work: Work, tell: Tell, leaves: Callable[[], bool]
    ) -> AbstractAsyncContextManager[Generates]:
        """Waits for a slot; inside, it is for this work. ``leaves`` says whether it would begin at
        once elsewhere: then this ends with ``EngineBusy``."""
