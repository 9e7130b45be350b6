"""WebSocket end of a link: small messages share a frame, large messages are cut into pieces.

What is said in one turn of the event loop goes in one frame. A large message goes by itself, and
what is said later may overtake it, so whoever receives must take messages of one stream in any
order; only ``Stop`` does that.

The other end may be slow, or hostile. What waits to be sent is bounded, a link on which nothing can
be sent for long is ended, and a flood of frames leaves others their turns of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed

from vivace.errors import LinkError
from vivace.link.frames import Beat, Piece, ToGateway, ToNode, encode
from vivace.link.pieces import PIECE, Joiner, cut, frames_of
from vivace.logs import place_of
from vivace.threads import in_thread

__all__ = ["BEAT", "SILENCE", "LinkSocket"]

log = logging.getLogger("vivace.link")

BEAT = 0.25
"""Seconds after which something is said, if only that one is there."""
SILENCE = 1.0
"""Seconds after which one who says nothing counts as gone."""
_BEATS_STUCK = 20
"""Beats (5 s) in which nothing could be sent, after which the other end counts as gone."""
_MAX_WAITING = 20_000
"""Small messages that wait to be sent. A link that works has some tens."""
_FULL = 256
"""Waiting small messages beyond which ``is_full`` asks the sender to pause."""
_MAX_LARGE = 128_000_000
"""Bytes of large messages that wait to be sent."""
_BURST = 4
"""Frames that are read before others have their turn of the event loop: what has come already is
given out without one."""

_LARGE_BYTES = 256_000
"""Bytes of a frame, which may take as many tens of milliseconds to decode."""

Out = TypeVar("Out", ToNode, ToGateway)
In = TypeVar("In", ToNode, ToGateway)


class Decode(Protocol[In]):
    """Reads a frame; one that was joined from pieces has one message."""

    def __call__(self, frame: bytes, *, joined: bool = False) -> list[In]: ...


class LinkSocket(Generic[Out, In]):
    def __init__(
        self,
        connection: Connection,
        decode: Decode[In],
        silence: float = SILENCE,
        *,
        joiner: Joiner | None = None,
        drained: Callable[[], None] = lambda: None,
    ) -> None:
        """``joiner`` bounds what may come in pieces. ``drained`` is called when this takes messages
        again after it was full."""
        self._connection = connection
        self._decode: Decode[In] = decode
        self._silence = silence
        self._small: list[Out] = []
        self._large: deque[bytes] = deque()
        """Frames of one piece each."""
        self._large_bytes = 0
        self._cut_messages = 0
        self._something = asyncio.Event()
        self._joiner = joiner or Joiner()
        self._drained = drained
        self._sent_frames = 0
        self._stuck = False
        self.silent = False
        """Whether the link ended because nothing came for too long."""

    @property
    def is_full(self) -> bool:
        """Return whether the other end is behind, so that more had better wait elsewhere."""
        return len(self._small) >= _FULL

    def say(self, messages: Sequence[Out]) -> None:
        """Send these, when this turn of the event loop is over."""
        self._small.extend(messages)
        self._something.set()
        if len(self._small) > _MAX_WAITING:
            self._give_up()

    def say_large(self, message: Out) -> None:
        """Send one that may be large: in pieces between others if it is.

        Raises ``LinkError`` if too much waits to be sent.
        """
        frame: bytes = encode([message])
        if self._large_bytes + len(frame) > _MAX_LARGE:
            raise LinkError("The link is too slow for all that is to be sent.")
        pieces = [*self._pieces(frame)]
        self._large_bytes += sum(map(len, pieces))
        self._large.extend(pieces)
        self._something.set()

    def _pieces(self, frame: bytes) -> Iterable[bytes]:
        if len(frame) <= PIECE:
            return [frame]
        self._cut_messages += 1
        return cut(self._cut_messages, frame)

    async def send(self) -> None:
        """Keeps sending until the link is closed."""
        beating = asyncio.create_task(self._beat())
        try:
            while True:
                await self._something.wait()
                self._something.clear()
                while self._small or self._large:
                    if self._small:
                        messages, self._small = self._small, []
                        await self._send_all(messages)
                        if len(messages) >= _FULL:
                            self._drained()
                    if self._large:
                        piece = self._large.popleft()
                        await self._send_frame(piece)
                        self._large_bytes -= len(piece)
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
        """In as many frames as it takes, or in pieces that nothing overtakes: these have an
        order."""
        for frame in frames_of(messages):
            for piece in self._pieces(frame):
                await self._send_frame(piece)

    async def _send_frame(self, frame: bytes) -> None:
        await self._connection.send(frame)
        self._sent_frames += 1

    async def _beat(self) -> None:
        before = stuck = 0
        while True:
            await asyncio.sleep(BEAT)
            idle = self._sent_frames == before
            waiting = bool(self._small or self._large)
            stuck = stuck + 1 if idle and waiting else 0
            if stuck >= _BEATS_STUCK:
                self._give_up()
                return
            before = self._sent_frames
            if idle:
                self.say([Beat()])

    def _give_up(self) -> None:
        """End a link whose other end takes nothing, without a closing handshake."""
        self._stuck = True
        self._connection.transport.abort()

    async def received(self) -> AsyncIterator[list[In]]:
        """Frames as they come; ends when the link does, or when nothing came for too long.

        Raises ``LinkError`` if the other end breaks a rule, or takes nothing of what it is sent.
        """
        frames = 0
        while True:
            try:
                async with asyncio.timeout(self._silence):
                    frame = bytes(await self._connection.recv(decode=False))
            except ConnectionClosed:
                if self._stuck:
                    raise LinkError("What is sent over the link is not taken.") from None
                return
            except TimeoutError:
                self.silent = True
                self._connection.transport.abort()  # nobody is there to say goodbye to
                return
            yield await self._messages(frame)
            frames += 1
            if not frames % _BURST:
                await asyncio.sleep(0)

    async def _messages(self, frame: bytes) -> list[In]:
        messages: list[In] = []
        for message in self._decode(frame):
            if isinstance(message, Piece):
                whole = self._joiner.take(message)
                messages += await self._decode_whole(whole) if whole is not None else []
            elif not isinstance(message, Beat):
                messages.append(message)
        if any(isinstance(each, Piece) for each in messages):
            raise LinkError("A piece of a frame came within another.")
        return messages

    async def _decode_whole(self, frame: bytes) -> list[In]:
        """Decode a frame that came in pieces; the streams of others go on beside a large one."""
        decode = partial(self._decode, joined=True)
        if len(frame) <= _LARGE_BYTES:
            return decode(frame)
        return await in_thread(decode, frame)
