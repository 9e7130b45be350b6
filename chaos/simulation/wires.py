"""Between a client and a gateway: what is said arrives later, in order, or not at all."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from chaos.simulation.loop import Life, in_life
from vivace.gateway.connections import ABORT

__all__ = ["Wire", "events_of"]

Message = dict[str, Any]
_NOBODY = in_life(None)
_VANISHED = 1006
_LEFT = 1000


class Wire:
    """One connection. The gateway's end is ASGI's ``receive`` and ``send``."""

    def __init__(self, life: Life, dice: random.Random) -> None:
        self.life = life
        self.closed = False
        """As its client knows."""
        self._dice = dice
        self._loop = asyncio.get_running_loop()
        self._up: asyncio.Queue[Message] = asyncio.Queue()
        self._down: deque[Message | None] = deque()
        self._heard: asyncio.Future[None] | None = None
        """Whom its client waits for."""
        self._up_at = self._down_at = 0.0
        self._gone = False
        """As the gateway would find out by sending."""
        self._flying: list[asyncio.TimerHandle] = []

    def serve(
        self, app: Callable[[Message, Any, Any], Awaitable[None]], scope: Message
    ) -> asyncio.Task[None]:
        """Have a gateway answer it, in its own life."""
        scope["extensions"] = {ABORT: self.cut}
        work: Any = self._serve(app, scope)
        return self._loop.create_task(work, context=in_life(self.life))

    async def _serve(
        self, app: Callable[[Message, Any, Any], Awaitable[None]], scope: Message
    ) -> None:
        with suppress(OSError):
            await app(scope, self._up.get, self._send)
        self._hang_up()

    # -- the client's end -------------------------------------------------------------------------

    def say(self, message: Message) -> None:
        if not self.closed:
            self._up_at = self._later(self._up_at)
            self._loop.call_at(self._up_at, self._up.put_nowait, message, context=_NOBODY)

    async def hear(self, seconds: float) -> Message | None:
        """None when nothing will come any more; raises ``TimeoutError``."""
        if not self._down and not self.closed:
            self._heard = self._loop.create_future()
            late = self._loop.call_later(seconds, _wake, self._heard)
            await self._heard
            late.cancel()
            if not self._down:
                raise TimeoutError
        message = None if self.closed else self._down.popleft()
        if message is None:
            self.closed = True
        return message

    def _put(self, message: Message | None) -> None:
        self._down.append(message)
        if self._heard is not None:
            _wake(self._heard)

    def leave(self) -> None:
        self.say({"type": "websocket.disconnect", "code": _LEFT})
        self.closed = True

    def cut(self) -> None:
        """Whatever is on its way is lost, and both ends find out."""
        self._drop()
        self._gone = self.closed = True
        self._put(None)
        for kind in ("websocket.disconnect", "http.disconnect"):
            message = {"type": kind, "code": _VANISHED}
            self._loop.call_later(
                self._dice.uniform(0, 0.3), self._up.put_nowait, message, context=_NOBODY
            )

    def died(self) -> None:
        """Its gateway is gone. What that had sent may arrive all the same."""
        if self._dice.random() < 0.5:
            self._drop()
        self._hang_up()

    # -- the gateway's end ------------------------------------------------------------------------

    async def _send(self, message: Message) -> None:
        if self._dice.random() < 0.05:  # as long as its buffers are full
            await asyncio.sleep(self._dice.uniform(0, 0.2))
        if self._gone:
            raise OSError("the client is gone")
        if not self.life.effect():
            return
        self._down_at = self._later(self._down_at)
        self._flying = [each for each in self._flying if each.when() >= self._loop.time()]
        self._flying.append(
            self._loop.call_at(self._down_at, self._arrive, message, context=_NOBODY)
        )

    def _arrive(self, message: Message) -> None:
        if not self.closed:
            self._put(message)

    def _hang_up(self) -> None:
        self._down_at = self._later(self._down_at)
        self._loop.call_at(self._down_at, self._put, None, context=_NOBODY)

    def _drop(self) -> None:
        for each in self._flying:
            each.cancel()

    def _later(self, after: float) -> float:
        """When something arrives that is sent now, behind what was sent before it."""
        slow = 0.4 if self._dice.random() < 0.03 else 0.008
        return max(after, self._loop.time()) + self._dice.uniform(0.0001, slow)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def events_of(message: Message) -> list[Message]:
    """The events in a piece of a stream."""
    text = message.get("body", b"").decode()
    return [
        msgspec.json.decode(line[6:]) for line in text.splitlines() if line.startswith("data: {")
    ]
