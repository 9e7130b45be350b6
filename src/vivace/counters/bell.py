"""Gateways wake each other through Valkey, when one has put something on record for another.

Each listens on a channel of its own, and is told which turn it is about and who asks; nothing else
goes over it. It may be lost at any time: who rings never waits, and who listens looks at the record
now and then all the same. A gateway knows that it would be heard because it hears itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from vivace.counters.url import place

__all__ = ["Ear", "ValkeyBell"]

log = logging.getLogger("vivace.counters")

_BEAT = 0.5
"""Seconds between two words to oneself."""
_SILENCE = 2.0
"""Seconds without one, after which nobody counts on being heard."""
_IN_TIME = 1.0
_PAUSES = (0.1, 0.5, 2.0)
"""Seconds before the next try; the last of them from then on."""
_MOST = 10_000
"""Turns that others rang for and have no answer yet, and words that wait to be sent."""
_ASKS, _ANSWERS, _BEATS = "?", "!", "."


class Ear:
    """One that waits to be woken. What came while it did not wait wakes it when it does."""

    def __init__(self) -> None:
        self.rang = asyncio.Event()

    async def heard(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.rang.wait()
        self.rang.clear()


class ValkeyBell:
    def __init__(self, url: str, own: str) -> None:
        """``own`` is this run of this gateway, as others find it on record."""
        self.up = False
        self._own = own
        self._place = place(url)
        self._pool: Any = ConnectionPool.from_url(
            url, protocol=2, retry=Retry(NoBackoff(), 0), retry_on_error=[], socket_timeout=None
        )
        self._orders = Ear()
        self._ears: dict[str, set[Ear]] = {}
        self._callers: OrderedDict[str, set[str]] = OrderedDict()
        """Who rang for which turn, and was not told what became of it."""
        self._words: dict[tuple[str, str], None] = {}
        """To whom, and what; each once."""
        self._something = asyncio.Event()
        self._told = False

    # -- ringing ----------------------------------------------------------------------------------

    async def ring(self, holder: str | None, turn_id: str) -> None:
        if holder is not None:
            self._say(holder, f"{_ASKS}{turn_id} {self._own}")

    async def answered(self, turn_id: str) -> None:
        for caller in self._callers.pop(turn_id, ()):
            self._say(caller, f"{_ANSWERS}{turn_id}")

    def _say(self, whom: str, word: str) -> None:
        """Nobody waits for it; while nobody would hear it, it is not said."""
        if self.up and len(self._words) < _MOST:
            self._words[whom, word] = None
            self._something.set()

    # -- hearing ----------------------------------------------------------------------------------

    async def heard(self, seconds: float) -> None:
        await self._orders.heard(seconds)

    @contextlib.contextmanager
    def listening(self, turn_id: str) -> Iterator[Ear]:
        ear = Ear()
        self._ears.setdefault(turn_id, set()).add(ear)
        try:
            yield ear
        finally:
            self._ears[turn_id].discard(ear)
            if not self._ears[turn_id]:
                del self._ears[turn_id]

    def _hear(self, word: str) -> None:
        kind, rest = word[:1], word[1:]
        if kind == _BEATS:
            self._is_up()
        elif kind == _ASKS:
            turn_id, _, caller = rest.partition(" ")
            self._callers.setdefault(turn_id, set()).add(caller)
            if len(self._callers) > _MOST:
                self._callers.popitem(last=False)
            self._orders.rang.set()
        elif kind == _ANSWERS:
            for ear in self._ears.get(rest, ()):
                ear.rang.set()

    # -- all the time -----------------------------------------------------------------------------

    async def watch(self) -> None:
        """Keeps listening, and sends what is to be said."""
        tries, watching = 0, asyncio.current_task()
        while True:
            try:
                # A task of its own: before Python 3.13 one whose group failed counts as cancelled.
                await asyncio.create_task(self._talk())
            except* (RedisError, OSError) as why:  # a timeout is one, too
                tries = 0 if self.up else tries + 1
                self._is_lost(type(why.exceptions[0]).__name__)
            finally:
                self._is_down()
            if watching is not None and watching.cancelling():
                raise asyncio.CancelledError  # which a group forgets when a task of it fails then
            await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])

    async def _talk(self) -> None:
        """Until there is no use in it any more. One connection is for listening alone."""
        speaks, listens = self._pool.make_connection(), self._pool.make_connection()
        try:
            async with asyncio.timeout(_IN_TIME):
                await speaks.connect()
                await listens.connect()
                await listens.send_command("SUBSCRIBE", _channel(self._own))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen(listens))
                group.create_task(self._speak(speaks))
        finally:
            for connection in (speaks, listens):
                with contextlib.suppress(RedisError, OSError):
                    await connection.disconnect(nowait=True)

    async def _listen(self, connection: Any) -> None:
        while True:
            async with asyncio.timeout(_SILENCE):
                kind, _, word = await connection.read_response()
            if kind == b"message":
                self._hear(word.decode("ascii", "replace"))

    async def _speak(self, connection: Any) -> None:
        loop, beat = asyncio.get_running_loop(), 0.0
        while True:
            words, self._words = self._words, {}
            if loop.time() >= beat:
                words[self._own, _BEATS] = None
                beat = loop.time() + _BEAT
            commands = [("PUBLISH", _channel(whom), word) for whom, word in words]
            if commands:
                async with asyncio.timeout(_IN_TIME):
                    packed = connection.pack_commands(commands)
                    await connection.send_packed_command(packed, check_health=False)
                    for _ in commands:
                        await connection.read_response()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, beat - loop.time())):
                    await self._something.wait()
            self._something.clear()

    def _is_up(self) -> None:
        if not self.up:
            self.up = True
            if self._told:
                log.info("gateways wake each other again, by Valkey on %s", self._place)
            self._told = False

    def _is_lost(self, why: str) -> None:
        if not self._told:
            self._told = True
            log.warning(
                "Valkey on %s is not to be reached (%s); until it is, what gateways ask of each "
                "other is found by looking for it",
                self._place,
                why,
            )

    def _is_down(self) -> None:
        self.up = False
        self._words.clear()
        self._callers.clear()
        self._orders.rang.set()  # who counted on it looks, and more often from now on


def _channel(holder: str) -> str:
    return f"vivace:wake:{holder}"
