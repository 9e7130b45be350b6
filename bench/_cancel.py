"""How soon the engine is free when a key replaces a request."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import threading
import time
from collections.abc import Callable
from typing import Self

import httpx2
from msgspec import Struct

from bench import fim
from bench._editor import Buffer
from bench._hiccups import Span
from bench._language_server import GO_ON, Gateway, begin_line, long_file
from bench._socket import Client
from vivace.client.gap import Gap
from vivace.client.lanes import Lanes

_IN_A_GAP = 40
"""Words that are typed before somebody goes elsewhere."""
_PATIENCE = 300.0
_UNASKED = 20.0
"""Seconds after which a key is taken to have asked for nothing, as what is known may answer it."""
_LOOK = 0.005
"""Seconds between two looks, each of which costs the engine's processor something."""
_WRITING = 0.05
"""Seconds in which some words are written."""


class Replaced(Struct, frozen=True):
    """From the key to the free slot."""

    sent: float
    free: float

    @property
    def seconds(self) -> float:
        return self.free - self.sent

    @property
    def span(self) -> Span:
        return self.sent, self.free


# -- the scripted engine, with one slot -----------------------------------------------------------


async def replaced_on_script(gateway: Gateway, count: int) -> list[Replaced]:
    """The slot is free when somebody else who waits for it has it."""
    found: list[Replaced] = []
    at_once = {"timing": "always"}
    async with (
        gateway.editor(completion=at_once) as editor,
        Client.at(gateway.port) as other,
    ):
        buffer = editor.open(gateway.folder / "cancel.py", f"# {GO_ON}\nvalue = 1")
        _type(buffer)
        while len(found) < count:
            await _wait_in_the_queue(other)
            sent = _type(buffer)
            await _until(other, "response.in_progress")
            found.append(Replaced(sent, time.perf_counter()))
            await _until(other, "response.completed")
    return found


def _type(buffer: Buffer) -> float:
    """Something that no running answer goes on with; returns when."""
    end = len(buffer.text)
    return buffer.press(end, end, " + 1").sent


async def _wait_in_the_queue(other: Client) -> None:
    """Until the editor's answer has the slot and is being written: one that has not begun may
    still fit what is typed, and would not be replaced."""
    while True:
        await other.send("create", input="quick", store=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WRITING):
                await _until(other, "response.in_progress")
            await _until(other, "response.completed")
            continue  # the slot was free: nobody has asked yet
        return


async def _until(client: Client, *kinds: str) -> str:
    while (kind := str((await client.event())["type"])) not in kinds:
        if kind in ("error", "response.failed"):
            raise RuntimeError(f"the gateway says {kind}")
    return kind


# -- llama.cpp, with one slot ---------------------------------------------------------------------


class Seen(Struct, frozen=True):
    """A slot, as llama.cpp says itself; it answers between two batches."""

    at: float
    task: int
    busy: bool
    read: int
    """Tokens of the prompt; what was cached is not among them."""
    written: int


class SlotLog:
    """Asks llama.cpp all the time what its only slot does."""

    def __init__(self, server: httpx2.Client) -> None:
        self._seen: list[Seen] = []
        self._looked_at = 0
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask_on, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    async def next_at_work(self, known: int) -> Seen:
        """The task behind a known one, when it reads; or when it is over, if that was soon."""
        return await self._first(lambda seen: seen.task != known)

    async def next_writing(self, known: int) -> Seen | None:
        """The same when it writes; None if nobody asks for anything."""
        return await self._within(
            _UNASKED, lambda seen: seen.task != known and (seen.written > 0 or not seen.busy)
        )

    async def left(self, task: int) -> Seen:
        """When the slot is free of it, be it for the next."""
        return await self._first(lambda seen: not (seen.busy and seen.task == task))

    def read_by(self, task: int, until: float = math.inf) -> int:
        """Tokens of its prompt, as far as was seen up to this time."""
        seen = (each for each in self._seen if each.task == task and each.at <= until)
        return max((each.read for each in seen), default=0)

    def cut(self, text: str, tokens: int) -> str:
        """So many tokens of a text, but for a few."""
        found = len(self._server.post("/tokenize", json={"content": text}).json()["tokens"])
        return text[: len(text) * tokens // found]

    async def _first(self, happens: Callable[[Seen], bool]) -> Seen:
        seen = await self._within(_PATIENCE, happens)
        if seen is None:
            raise RuntimeError("llama.cpp does not do what is waited for")
        return seen

    async def _within(self, seconds: float, happens: Callable[[Seen], bool]) -> Seen | None:
        """From what was waited for last on."""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            while self._looked_at < len(self._seen):
                if happens(seen := self._seen[self._looked_at]):
                    return seen
                self._looked_at += 1
            await asyncio.sleep(_LOOK)
        return None

    def _ask_on(self) -> None:
        while not self._stop.wait(_LOOK):
            [slot] = self._server.get("/slots").json()
            self._seen.append(
                Seen(
                    at=time.perf_counter(),
                    task=slot.get("id_task", -1),
                    busy=slot["is_processing"],
                    read=slot.get("n_prompt_tokens_processed", 0),
                    written=slot["next_token"][0]["n_decoded"] if "next_token" in slot else 0,
                )
            )


async def replaced_on_llamacpp(gateway: Gateway, count: int) -> list[Replaced]:
    """Words that no model foresees, each typed while the answer to the last one is written."""
    found: list[Replaced] = []
    async with gateway.editor() as editor:
        typist = _Unforeseen(editor.open(gateway.folder / "cancel.py", long_file(400)))
        with SlotLog(fim.bare_server(gateway.pid)) as log:
            typist.type()
            known = -1
            while len(found) < count:
                writing = await log.next_writing(known)
                if writing is None:
                    typist.type()
                    continue
                known = writing.task
                sent = typist.type()
                left = await log.left(known)
                if left.at > sent:  # else it was over before it could be replaced
                    found.append(Replaced(sent, left.at))
    return found


class _Unforeseen:
    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._dice = random.Random(17)
        self._words = 0
        self._at = 0

    def type(self) -> float:
        """A word and what makes it worth asking; returns when."""
        if self._words % _IN_A_GAP == 0:
            self._at = begin_line(self._buffer, self._dice)
        self._words += 1
        # No number that is counted on: a model goes on counting, and its answer fits the next word.
        word = f" {''.join(self._dice.choices('bcdfghjklmnpqrstvwxz', k=5))} +"
        sent = self._buffer.press(self._at, self._at, word).sent
        self._at += len(word)
        return sent


async def read_on(gateway: Gateway, tokens: int, count: int) -> list[int]:
    """Of prompts of so many tokens that nobody wants as soon as they are begun: how many tokens are
    read all the same."""
    found, known = [], -1
    lanes = Lanes(gateway.url)
    with SlotLog(fim.bare_server(gateway.pid)) as log:
        for number in range(count):
            text = log.cut(long_file(600, 1000 * (number + 1)), tokens)
            asking = asyncio.create_task(_ask(lanes, text))
            known = (await log.next_at_work(known)).task
            left = time.perf_counter()
            asking.cancel()
            await log.left(known)
            found.append(log.read_by(known) - log.read_by(known, left))
            await asyncio.wait([asking])
    await lanes.close()
    return found


async def _ask(lanes: Lanes, prefix: str) -> None:
    gap = Gap(fill={"prefix": prefix, "suffix": "\n"}, max_tokens=8)
    async with contextlib.aclosing(lanes.fill("cancel", gap)) as answer:
        async for _ in answer:
            pass
