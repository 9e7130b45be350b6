"""An engine that plays a script: for tests, for demonstrations, and to measure ourselves against.

Time passes as on a real one. All requests share one engine, which works in steps: a step gives
every running request one token and takes longer the more there are; reading a prompt takes time
unless the engine has seen its beginning before. What it says is decided by the script alone.

The cost of a step, in seconds::

    (1 + growth * (batch - 1)) / rate  +  prompt tokens read in this step / prefill_rate

A step that only reads costs no less than one that writes for a single request.

The tokens of an answer are numbered as the script has them, so that another engine with the same
script can go on from any of them.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import msgspec
from msgspec import Struct

from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    Tokens,
)
from vivace.conversation.so_far import SoFar
from vivace.engines.base import Card, Chat, Continues, Work
from vivace.engines.failures import failure
from vivace.engines.messages import written
from vivace.engines.scripted_prompts import (
    PrefixCache,
    Prompt,
    length_of,
    text_of_item,
    texts_of,
    tokens,
)
from vivace.engines.stop_strings import StopStrings
from vivace.errors import ConfigError, EngineAbsent, EngineDied, EngineError
from vivace.protocol.items import (
    Item,
    Message,
    ToolOutput,
    text_of,
)

__all__ = [
    "Act",
    "Call",
    "Capacity",
    "Die",
    "Fail",
    "Mark",
    "Recite",
    "Reply",
    "Say",
    "Script",
    "ScriptedEngine",
    "Stall",
    "Think",
]


# -- scripts --------------------------------------------------------------------------------------


class Say(Struct, frozen=True, tag_field="do", tag="say"):
    text: str
    times: int = 1


class Think(Struct, frozen=True, tag_field="do", tag="think"):
    text: str


class Recite(Struct, frozen=True, tag_field="do", tag="recite"):
    """Say what was shown, a word for each item: what it is, and a digest of its text. Who knows
    the conversation can tell whether the engine saw all of it, in order, and nothing else."""

    @staticmethod
    def text(shown: Iterable[tuple[str, str]]) -> str:
        """As it is said of such items, each its kind (a message's is its role) and its text."""
        words = (f" {kind}-{zlib.crc32(text.encode()):08x}" for kind, text in shown)
        return f"shown{''.join(words)}\n"


class Mark(Struct, frozen=True, tag_field="do", tag="mark"):
    """Say words that tell where they come from, a token each: what they answer, which one it is,
    which engine says it since when, and on which attempt. Who reads the answer can tell whether
    engines that took over from each other left a word out or said one twice."""

    times: int = 1

    def words(self, newest: str, engine: str, attempt: int) -> Iterator[str]:
        marker = f"{zlib.crc32(newest.encode()):08x}"
        return (f" m{marker}.{index}@{engine}.a{attempt}" for index in range(self.times))


class Call(Struct, frozen=True, tag_field="do", tag="call"):
    """Call a tool; ``text`` is a function's arguments (as JSON) or a custom tool's input."""

    name: str
    text: str
    custom: bool = False
    namespace: str | None = None
    """In which the tool is declared, if it is in one."""


class Stall(Struct, frozen=True, tag_field="do", tag="stall"):
    seconds: float


class Fail(Struct, frozen=True, tag_field="do", tag="fail"):
    """The request fails as on an endpoint that answers with this status."""

    message: str = "The script says that this request fails."
    status: int = 500
    retry_after: float | None = None


class Die(Struct, frozen=True, tag_field="do", tag="die"):
    message: str = "The script says that the engine dies."


Act = Say | Think | Recite | Mark | Call | Stall | Fail | Die


class Reply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Played for a prompt whose newest text matches ``when`` (a regular expression)."""

    when: str = ""
    after: Literal["anything", "message", "tool"] = "anything"
    then: tuple[Act, ...]

    def __post_init__(self) -> None:
        try:
            re.compile(self.when)
        except re.error as error:
            raise ValueError(f"'when' is not a regular expression: {error}") from None


class Script(Struct, frozen=True):
    """Replies in order of preference; the first that matches is played."""

    replies: tuple[Reply, ...] = ()

    FALLBACK: ClassVar[tuple[Act, ...]] = (
        Say("This is a scripted engine: it plays prepared answers and has none for that."),
    )

    @classmethod
    def load(cls, path: Path) -> Script:
        try:
            return msgspec.toml.decode(path.read_bytes(), type=cls)
        except OSError as error:
            raise ConfigError(f"The script {path} cannot be read: {error.strerror}.") from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(f"The script {path} is not valid: {error}.") from error

    def reply_to(self, work: Work) -> tuple[Act, ...]:
        kind, text = _newest(work)
        for reply in self.replies:
            if reply.after in ("anything", kind) and re.search(reply.when, text):
                return reply.then
        return self.FALLBACK


def _newest(work: Work) -> tuple[str, str]:
    """What kind of thing was said last, and its text."""
    if not isinstance(work.prompt, Chat):
        return "message", work.prompt.prefix + work.prompt.typed
    for item in reversed(work.prompt.items):
        if isinstance(item, ToolOutput):
            return "tool", text_of(item.output)
        if isinstance(item, Message):
            return "message", text_of(item.content)
    return "message", ""


def _shown(work: Work) -> Iterator[tuple[str, str]]:
    if isinstance(work.prompt, Chat):
        for item in work.prompt.items:
            kind = item.role if isinstance(item, Message) else str(item.__struct_config__.tag)
            yield kind, text_of_item(item)
        return
    for file in work.prompt.files:
        yield "file", file.text
    for name in ("prefix", "suffix", "typed", "starts_with"):
        yield name, getattr(work.prompt, name) or ""


# -- the engine -----------------------------------------------------------------------------------


class Capacity(Struct, frozen=True, kw_only=True):
    rate: float = 1000.0
    """Tokens per second of one request alone."""
    burst: int = 1
    """Tokens of a request in one step, told as one, as an engine does that drafts."""
    growth: float = 0.0
    """How much longer a step takes for each further request, as a share of the first."""
    prefill_rate: float = 0.0
    """Prompt tokens read per second; 0 reads them in no time."""
    prefill_chunk: int = 2048
    """At most this many prompt tokens in one step."""
    patient_chunk: int | None = None
    """Of these, at most so many for requests that are not urgent."""
    cache_tokens: int = 1_000_000
    """How many prompt tokens the prefix cache holds."""


_Growing = TextDelta | ReasoningDelta | CallText
_Step = _Growing | CallOpened
_BEHIND = 64
"""A reader that is this many deltas behind gets them joined rather than queued."""


class ScriptedEngine:
    continues: Continues = "ids"
    counts = True

    def __init__(
        self,
        name: str,
        cards: Sequence[Card],
        script: Script | None = None,
        capacity: Capacity | None = None,
    ) -> None:
        self.name = name
        self.cards: Sequence[Card] = tuple(cards)
        self._script = script or Script()
        self._capacity = capacity or Capacity()
        self._cache = PrefixCache(self._capacity.cache_tokens)
        self._requests: list[_Request] = []
        self._stepping: asyncio.Task[None] | None = None
        self._dead: str | None = None
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._incarnation = _incarnation()

    def play(self, replies: Iterable[Reply]) -> None:
        """Prefer these replies from now on."""
        self._script = Script((*replies, *self._script.replies))

    async def start(self) -> None:
        self._dead = None
        self._incarnation = _incarnation()

    async def stop(self) -> None:
        self.die("The engine was stopped.")

    def freeze(self) -> None:
        """As a process does that is stopped: it takes requests and finishes no step."""
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def die(self, message: str) -> None:
        """As a crash would: every request ends, and nothing runs until ``start``."""
        self._dead = message
        self.thaw()
        for request in self._requests:
            request.end(EngineDied(message))
        self._requests.clear()

    def healthy(self) -> bool:
        return self._dead is None

    def running(self) -> int:
        return len(self._requests)

    def count(self, items: Sequence[Item], model: str) -> int:
        return sum(length_of(text_of_item(item)) for item in items)

    def metrics(self) -> bytes:
        return b""

    async def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
        if self._dead is not None:
            raise EngineAbsent(self._dead)
        texts = await written(work.prompt, texts_of, work)
        acts, prompt = self._script.reply_to(work), self._cache.read(work, texts)
        request = _Request(work, acts, prompt, self._incarnation)
        if not self._capacity.prefill_rate:
            request.unread = 0
        self._requests.append(request)
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.create_task(self._step_until_idle())
        try:
            while True:
                delta = await request.next()
                yield delta
                if isinstance(delta, Finished):
                    return
        finally:
            if request in self._requests:
                self._requests.remove(request)

    # -- time -------------------------------------------------------------------------------------

    async def _step_until_idle(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while self._requests:
            # Steps follow a timetable, so that late wake-ups (timers have whole milliseconds)
            # are made up for and the rate holds on average.
            batch = list(self._requests)
            due = max(due + self._cost_of(batch), loop.time() - 0.05)
            await asyncio.sleep(max(0.0, due - loop.time()))
            await self._thawed.wait()
            self._step(batch, loop.time())

    def _cost_of(self, requests: Sequence[_Request]) -> float:
        capacity = self._capacity
        batch = sum(1 for request in requests if not request.unread)
        cost = (1 + capacity.growth * max(0, batch - 1)) / capacity.rate
        if capacity.prefill_rate:
            cost += sum(self._portions(requests).values()) / capacity.prefill_rate
        return cost

    def _portions(self, requests: Sequence[_Request]) -> dict[_Request, int]:
        """How much of each prompt is read in this step: the urgent ones first."""
        budget = self._capacity.prefill_chunk
        patient = self._capacity.patient_chunk or budget
        portions: dict[_Request, int] = {}
        for request in sorted(requests, key=lambda request: request.priority):
            if request.unread:
                read = min(budget, request.unread, patient if request.priority else budget)
                portions[request] = read
                budget -= read
                patient -= read if request.priority else 0
        return portions

    def _step(self, batch: Sequence[_Request], now: float) -> None:
        portions = self._portions(batch)
        for request in batch:
            if request not in self._requests:
                continue  # aborted, or the engine died in this step
            request.unread -= portions.get(request, 0)
            if not request.unread:
                request.tally.steps += 1
                for number in range(self._capacity.burst):
                    if not request.ended:
                        self._advance(request, now, joins=number > 0)

    def _advance(self, request: _Request, now: float, *, joins: bool) -> None:
        if now < request.stalled_until:
            return
        act = request.advance(joins=joins)
        if isinstance(act, Stall):
            request.stalled_until = now + act.seconds
        elif isinstance(act, Fail):
            request.end(failure(act.status, act.message, act.retry_after))
        elif isinstance(act, Die):
            self.die(act.message)
        elif isinstance(act, Finished):
            self._cache.keep(request.prompt, request.texts)
        if request.ended and request in self._requests:
            self._requests.remove(request)


def _incarnation() -> str:
    """A name that an engine has from one start to the next."""
    return f"n{secrets.token_hex(3)}"


class _Request:
    def __init__(self, work: Work, acts: Iterable[Act], prompt: Prompt, engine: str) -> None:
        said = work.said
        self.prompt = prompt
        self._engine = engine
        self.priority = work.priority
        self.unread = prompt.length - prompt.cached + (said.tokens if said is not None else 0)
        self.stalled_until = 0.0
        self.ended = False
        self.texts: list[str] = []
        self.tally = work.tally
        self.tally.input, self.tally.cached = prompt.length, prompt.cached
        self._said = 0
        self._thought = 0
        self._limit = work.sampling.max_tokens
        self._stops = StopStrings(work.sampling.stop) if work.sampling.stop else None
        self._plan = self._play(acts, work) if work.generate else iter(())
        self._untold: list[int] = []
        """Tokens that have said nothing yet."""
        if said is not None:
            self._go_on_after(said)
        self._ready: deque[Delta] = deque()
        self._late: list[Delta] = []
        self._error: EngineError | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def next(self) -> Delta:
        while not self._ready:
            if self._late:
                self._catch_up()
                break
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._ready.popleft()

    def advance(self, *, joins: bool) -> Delta | Stall | Fail | Die:
        """Play the next step of the plan; what ``joins`` is told with what came before it."""
        if self._limit is not None and self._said >= self._limit:
            return self._finish("length")
        step = next(self._plan, None)
        if step is None:
            return self._finish("stop")
        if isinstance(step, Stall | Fail | Die):
            return step
        self._said += 1
        self.tally.output = self._said
        self._thought += isinstance(step, ReasoningDelta)
        if self._stops is not None:
            return self._advance_to_a_stop(step, self._stops, joins=joins)
        self._put(step, joins=joins)
        return step

    def _advance_to_a_stop(self, step: _Step, stops: StopStrings, *, joins: bool) -> Delta:
        # Beside anything else, text that was held begins no stop string any more.
        text = stops.feed(step.text) if isinstance(step, TextDelta) else stops.rest()
        if isinstance(step, TextDelta):
            self._untold += step.ids
        if text:
            self._put(TextDelta(text, ids=self._numbers()), joins=joins)
        if stops.reached:
            return self._finish("stop")
        if not isinstance(step, TextDelta):
            self._put(step, joins=joins)
        return step

    def _numbers(self) -> tuple[int, ...]:
        numbers = tuple(self._untold)
        self._untold.clear()
        return numbers

    def _go_on_after(self, said: SoFar) -> None:
        """What was said, and what came with it, is over."""
        stops = self._stops or StopStrings(())
        count, told = len(said.ids or ()), 0
        while count and (step := next(self._plan, None)) is not None:
            if isinstance(step, _Step):
                count -= 1
                told += len(stops.feed(step.text) if isinstance(step, TextDelta) else stops.rest())
        if told < len(said.text):  # what it holds was told since nothing more could come of it
            stops.rest()

    def end(self, error: EngineError) -> None:
        self.ended = True
        self._error = error
        self._wake()

    def _finish(self, reason: Literal["stop", "length"]) -> Finished:
        self.ended = True
        if self._stops is not None and (held := self._stops.rest()):
            self._put(TextDelta(held, ids=self._numbers()), joins=False)
        finished = Finished(
            reason, Tokens(self.prompt.length, self._said, self.prompt.cached, self._thought)
        )
        self._put(finished, joins=False)
        return finished

    def _put(self, delta: Delta, *, joins: bool) -> None:
        last = self._ready[-1] if joins and self._ready else None
        if isinstance(delta, _Growing) and isinstance(last, _Growing) and type(last) is type(delta):
            self._ready[-1] = type(delta)(last.text + delta.text, ids=last.ids + delta.ids)
            return
        if self._late or len(self._ready) >= _BEHIND:
            self._late.append(delta)
            return
        self._ready.append(delta)
        self._wake()

    def _catch_up(self) -> None:
        """Join what the reader missed: neighbours of one kind become one delta."""
        for kind, group in itertools.groupby(self._late, type):
            if issubclass(kind, _Growing):
                late = [each for each in group if isinstance(each, _Growing)]
                numbers = itertools.chain.from_iterable(each.ids for each in late)
                self._ready.append(kind("".join(each.text for each in late), ids=tuple(numbers)))
            else:
                self._ready.extend(group)
        self._late.clear()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _play(self, acts: Iterable[Act], work: Work) -> Iterator[_Step | Stall | Fail | Die]:
        if work.thoughts is not None:  # it has thought already
            acts = itertools.dropwhile(lambda act: isinstance(act, Think | Stall), acts)
        number = itertools.count()
        for act in acts:
            if isinstance(act, Stall | Fail | Die):
                yield act
                continue
            if isinstance(act, Mark):
                for word in act.words(_newest(work)[1], self._engine, work.attempt):
                    yield TextDelta(word, ids=(next(number),))
                    self.texts.append(word)
                continue
            if isinstance(act, Call):
                yield CallOpened(act.name, act.custom, act.namespace, ids=(next(number),))
            said = Say(Recite.text(_shown(work))) if isinstance(act, Recite) else act
            kind, times = _KINDS[type(said)], said.times if isinstance(said, Say) else 1
            for _ in range(times):
                for token in tokens(said.text):
                    yield kind(token, ids=(next(number),))
            self.texts.append(said.text * times)


_KINDS: Mapping[type[Act], type[_Growing]] = {Say: TextDelta, Think: ReasoningDelta, Call: CallText}
