"""One connection to Valkey, over which a script is asked, and which is left alone while it is down.

Whoever asks at the same time shares one message: a gateway under load sends few large ones. An
answer that does not come in time ends the connection, so that it can never be taken for another's,
and nobody asks again until a probe has shown that answers come in time. What was asked and not
answered may have been done all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError

from vivace.counters.url import place

__all__ = ["Answer", "Line"]

log = logging.getLogger("vivace.counters")

T = TypeVar("T")
Command = tuple[str, ...]
Answer = Any
"""What the script returned; None if there was no answer."""

_IN_TIME = 0.02
"""Seconds that a request may wait for an answer."""
_TO_CONNECT = 1.0
_AT_ONCE = 64
"""So few that packing them does not itself take the time in which they are to be answered."""
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_WELL = 10.0
"""Seconds after which a connection that breaks is news again."""
_PROBED = "vivace:limits:probe"
_MEMORY = "vivace:limits:memory"
"""Has the name of what the server knows: who forgets that has forgotten all."""


class _Down(Exception):
    """Why there was no answer, in words without anything of what was asked."""


class Line:
    def __init__(self, url: str, script: str, *, in_time: float = _IN_TIME) -> None:
        self.up = False
        self.losses = 0
        self.came_up: Callable[[bool], None] = lambda forgot: None
        """Called when it is up and before anybody asks; whether the server has forgotten what it
        knew when it was last up."""
        self._memory: bytes | None = None
        self._place = place(url)
        self._script = script
        self._sha = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        self._in_time = in_time
        # It would ask again by itself, and what is asked may be done already.
        self._pool: Any = ConnectionPool.from_url(
            url, retry=Retry(NoBackoff(), 0), retry_on_error=[], socket_timeout=None
        )
        self._connection: Any = None
        self._waiting: deque[tuple[Command, asyncio.Future[Answer]]] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._pause = _FIRST_PAUSE
        self._since = -_WELL
        """When it last came up."""
        self._told = False

    # -- asking -----------------------------------------------------------------------------------

    def ask(self, keys: Sequence[str], *arguments: str) -> asyncio.Future[Answer]:
        """It is asked whether or not somebody waits for the answer."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if not self.up:
            answer.set_result(None)
            return answer
        self._waiting.append((("EVALSHA", self._sha, str(len(keys)), *keys, *arguments), answer))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        return answer

    async def _send(self) -> None:
        try:
            while self._waiting:
                count = min(_AT_ONCE, len(self._waiting))
                asked = [self._waiting.popleft() for _ in range(count)]
                try:
                    answers = await _within(
                        self._in_time, self._exchange([command for command, _ in asked])
                    )
                except _Down as why:
                    self._waiting.extendleft(reversed(asked))
                    self._lose(str(why))
                    return
                for (_, waiter), answer in zip(asked, answers, strict=True):
                    _tell(waiter, answer)
        finally:
            self._sending = None

    async def _exchange(self, commands: list[Command]) -> list[Answer]:
        connection = self._connection
        answers = await _said(connection, commands)
        unknown = [at for at, each in enumerate(answers) if isinstance(each, NoScriptError)]
        if unknown:  # it was restarted, or told to forget
            again = [("SCRIPT", "LOAD", self._script), *(commands[at] for at in unknown)]
            for at, answer in zip(unknown, (await _said(connection, again))[1:], strict=True):
                answers[at] = answer
        for answer in answers:
            if isinstance(answer, ResponseError):
                raise _Down(_kind(answer))
        return answers

    def _lose(self, why: str) -> None:
        self.up = False
        self.losses += 1
        asyncio.ensure_future(_closed(self._connection))  # noqa: RUF006 - it waits for nothing
        self._connection = None
        while self._waiting:
            _tell(self._waiting.popleft()[1], None)
        self._changed.set()
        now = asyncio.get_running_loop().time()
        if now - self._since > _WELL:
            self._pause = _FIRST_PAUSE
            self._tell_of(why)
        else:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _tell_of(self, why: str) -> None:
        self._told = True
        log.warning(
            "Valkey on %s is not to be reached (%s); until it is, limits are counted by each "
            "gateway alone, which gives out its share of them",
            self._place,
            why,
        )

    # -- probing ----------------------------------------------------------------------------------

    async def lost(self, seconds: float) -> None:
        """Returns when the connection is lost, or after so long."""
        self._changed.clear()
        if self.up:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()

    async def reconnect(self) -> None:
        """Returns when answers come in time. One that is lost again and again is left alone for
        longer."""
        await asyncio.sleep(self._pause)
        while not await self.probe():
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            await asyncio.sleep(self._pause)

    async def probe(self) -> bool:
        """Whether it is up now."""
        connection = self._pool.make_connection()
        try:
            memory = await _within(_TO_CONNECT, self._prepare(connection))
            look = ("EVALSHA", self._sha, "3", *(f"{_PROBED}:{each}" for each in "123"), "look", "")
            await _within(self._in_time, _understood(connection, [look]))
        except _Down as why:
            await _closed(connection)
            if not self._told:
                self._tell_of(str(why))
            return False
        except BaseException:
            await _closed(connection)
            raise
        self._connection, self.up = connection, True
        forgot, self._memory = self._memory not in (None, memory), memory
        self.came_up(forgot)
        self._since = asyncio.get_running_loop().time()
        if self._told or not self.losses:
            log.info("limits are counted with all other gateways, by Valkey on %s", self._place)
        self._told = False
        return True

    async def _prepare(self, connection: Any) -> bytes:
        """The name of what it knows. One that only answers, and can write nothing, is not up."""
        await connection.connect()
        load = ("SCRIPT", "LOAD", self._script)
        name = ("SET", _MEMORY, secrets.token_hex(12), "NX")
        asked = [load, ("SET", _PROBED, "1", "PX", "1000"), name, ("GET", _MEMORY)]
        memory: bytes = (await _understood(connection, asked))[-1]
        return memory

    async def close(self) -> None:
        sending = self._sending
        if sending is not None:  # it ends by itself, in time
            await asyncio.wait({sending})
        self.up = False
        if self._connection is not None:
            await _closed(self._connection)
            self._connection = None


# -- one exchange ---------------------------------------------------------------------------------


async def _said(connection: Any, commands: list[Command]) -> list[Answer]:
    await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
    return [await _next(connection) for _ in commands]


async def _next(connection: Any) -> Answer:
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error


async def _understood(connection: Any, commands: list[Command]) -> list[Answer]:
    answers = await _said(connection, commands)
    for answer in answers:
        if isinstance(answer, ResponseError):
            raise _Down(_kind(answer))
    return answers


async def _within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """What it returns, or ``_Down``. If we were late to look ourselves, an answer that is there
    counts."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        for _ in range(4):
            if task.done():
                break
            await asyncio.sleep(0)
    finally:
        task.cancel()
    if not task.done():
        raise _Down(f"no answer in {seconds * 1000:g} ms")
    try:
        return task.result()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no answer
        raise _Down(_kind(error)) from None


def _kind(error: BaseException) -> str:
    """A message may quote what was asked, or a password."""
    return type(error).__name__


def _tell(waiter: asyncio.Future[Answer], answer: Answer) -> None:
    if not waiter.done():
        waiter.set_result(answer)


async def _closed(connection: Any) -> None:
    with contextlib.suppress(RedisError, OSError):
        await connection.disconnect(nowait=True)
