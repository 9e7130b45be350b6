"""One end of a link, as a WebSocket: what is said goes together, large frames go in pieces.

What is said in one turn of the event loop goes in one frame. A large message goes by itself, and
what is said later may overtake it, so whoever receives must take messages of one stream in any
order; only ``Stop`` does that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed

from vivace.errors import LinkError
from vivace.link.frames import Beat, Piece, ToGateway, ToNode, encode
from vivace.link.pieces import PIECE, Joiner, cut
from vivace.logs import place_of
from vivace.threads import in_thread

__all__ = ["BEAT", "SILENCE", "LinkSocket"]

log = logging.getLogger("vivace.link")

BEAT = 0.25
"""Seconds after which something is said, if only that one is there."""
SILENCE = 1.0
"""Seconds after which one who says nothing counts as gone."""

_LARGE_BYTES = 256_000
"""Bytes of a frame, which may take as many tens of milliseconds to decode."""

Out = TypeVar("Out", ToNode, ToGateway)
In = TypeVar("In", ToNode, ToGateway)


class LinkSocket(Generic[Out, In]):
    def __init__(
        self, connection: Connection, decode: Callable[[bytes], list[In]], silence: float = SILENCE
    ) -> None:
        self._connection = connection
        self._decode: Callable[[bytes], list[In]] = decode
        self._silence = silence
        self._small: list[Out] = []
        self._pieces: deque[bytes] = deque()
        self._frames = 0
        self._something = asyncio.Event()
        self._joiner = Joiner()
        self._sent = False
        self.silent = False
        """Whether the link ended because nothing came for too long."""

    def say(self, messages: Sequence[Out]) -> None:
        """Send these, when this turn of the event loop is over."""
        self._small.extend(messages)
        self._something.set()

    def say_large(self, message: Out) -> None:
        """One that may be large, in a frame of its own: in pieces between others if it is."""
        self._pieces.extend(self._cut(encode([message])))
        self._something.set()

    def _cut(self, frame: bytes) -> Iterable[bytes]:
        if len(frame) <= PIECE:
            return [frame]
        self._frames += 1
        return cut(self._frames, frame)

    async def send(self) -> None:
        """Keeps sending until the link is closed."""
        beating = asyncio.create_task(self._beat())
        try:
            while True:
                await self._something.wait()
                self._something.clear()
                while self._small or self._pieces:
                    if self._small:
                        messages, self._small = self._small, []
                        await self._send_all(messages)
                        self._sent = True
                    if self._pieces:
                        await self._connection.send(self._pieces.popleft())
                        await asyncio.sleep(0)  # sending may not wait: let others have their say
        except ConnectionClosed:
            raise
        except Exception as error:
            log.error("a link is closed, nothing can be sent on it: %s", place_of(error))
            await self._connection.close(1011)
            raise
        finally:
            beating.cancel()

    async def _send_all(self, messages: Sequence[Out]) -> None:
        """In one frame, or in pieces that nothing overtakes: these have an order."""
        for piece in self._cut(encode(messages)):
            await self._connection.send(piece)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            if not self._sent:
                self.say([Beat()])
            self._sent = False

    async def received(self) -> AsyncIterator[list[In]]:
        """Frames as they come; ends when the link does, or when nothing came for too long."""
        while True:
            try:
                async with asyncio.timeout(self._silence):
                    frame = await self._connection.recv(decode=False)
            except ConnectionClosed:
                return
            except TimeoutError:
                self.silent = True
                self._connection.transport.abort()  # nobody is there to say goodbye to
                return
            messages: list[In] = []
            for message in self._decode(bytes(frame)):
                if isinstance(message, Piece):
                    whole = self._joiner.take(message)
                    messages += await self._decode_whole(whole) if whole is not None else []
                elif not isinstance(message, Beat):
                    messages.append(message)
            if any(isinstance(each, Piece) for each in messages):
                raise LinkError("A piece of a frame came within another.")
            yield messages

    async def _decode_whole(self, frame: bytes) -> list[In]:
        """Decode a frame that came in pieces; the streams of others go on beside a large one."""
        if len(frame) <= _LARGE_BYTES:
            return self._decode(frame)
        return await in_thread(self._decode, frame)
