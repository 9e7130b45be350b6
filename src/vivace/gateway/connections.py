"""Every open connection, from the moment it is accepted: how many there may be, how long a client
may take to say what it wants, and how long to take what it is told.

Nothing here is paid per token. A connection is noted when something of it is unfinished and
forgotten when that is whole; one look a second serves all that are noted.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import sys
import time
from asyncio import Transport
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from vivace.config import LOCAL, LimitsConfig
from vivace.errors import RequestError, TooManyRequests, Unavailable
from vivace.gateway.metrics import Metrics
from vivace.inbound import ConnectionCounts

if sys.platform == "linux":
    import fcntl
    import termios

__all__ = ["ABORT", "EARNS_TIME", "Connections", "Hold"]

log = logging.getLogger("vivace.connections")

ABORT = "vivace.abort"
"""The ASGI extension by which a connection is ended without a word to a client that takes none."""

EARNS_TIME = 256 * 1024
"""Bytes of a body or a message that earn its sender as much time again."""

_LINGER = 2.0
"""Seconds that a client gets to read why it is left. A connection that is closed while the client
still sends takes the last words with it."""

_LAST_WORDS = 0.3
"""Seconds in which a client whose key was revoked is told so."""

_MEGABYTE = 1_000_000

_STEP = 48 * 1024
"""Bytes a reader must take to count as one that reads: as many as a transport lets drain between
stopping a writer and letting it go on."""


class _Unread:
    """What a client has not taken, and since when none of it; first looked at by ``watch``."""

    __slots__ = ("since", "size")

    def __init__(self) -> None:
        self.since = time.monotonic()
        self.size: int | None = None


class Hold:
    """What a key has here: a WebSocket, or a request."""

    __slots__ = ("_abort", "_is_cut", "owner")

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._abort: Callable[[], None] | None = None
        self._is_cut = False

    def answers(self, abort: Callable[[], None]) -> None:
        """Note that the answer begins, and how to end it; one that was cut before ends now."""
        self._abort = abort
        if self._is_cut:
            abort()

    def cut(self) -> None:
        """End the answer, now or as soon as it begins."""
        self._is_cut = True
        if self._abort is not None:
            self._abort()


class Connections(ConnectionCounts):
    """Keyed by the transport, which stays the same when a request becomes a WebSocket."""

    def __init__(self, limits: LimitsConfig, trusted: Iterable[str], metrics: Metrics) -> None:
        super().__init__(limits, trusted)
        self.metrics = metrics
        self._turned_away: set[Transport] = set()
        self._words = limits.connections // 20 + 10
        """How many of those that were refused may still be open, to read why; more get no words."""
        self._held: dict[str, set[Hold]] = {}
        self._due: dict[Transport, tuple[float, Callable[[], None]]] = {}
        self._unread: dict[Transport, _Unread] = {}
        self._unfinished: dict[str, int] = {}
        self._turns: deque[Callable[[], None]] = deque()
        metrics.unfinished.set_function(lambda: sum(self._unfinished.values()))
        metrics.open_connections.set_function(lambda: len(self._open))

    # -- how many ---------------------------------------------------------------------------------

    def accept(self, transport: Transport, address: str | None) -> RequestError | None:
        """Count it, or say why not; a refusal must not cost more than what it refuses."""
        refusal = self.enter(transport, address)
        return None if refusal is None else self._turn_away(transport, refusal)

    def _turn_away(self, transport: Transport, refusal: RequestError) -> RequestError:
        if len(self._turned_away) >= self._words:
            transport.abort()
        self._turned_away.add(transport)
        return refusal

    def closed(self, transport: Transport) -> None:
        self.leave(transport)
        self._turned_away.discard(transport)
        self._due.pop(transport, None)
        self._unread.pop(transport, None)

    def hold(self, owner: str) -> Hold:
        """A key opens a WebSocket, or makes a request. A server without keys has one owner for
        all, who is not limited."""
        held = self._held.setdefault(owner, set())
        if len(held) >= self.limits.connections_per_key and owner != LOCAL:
            raise _crowded_key(len(held))
        hold = Hold(owner)
        held.add(hold)
        return hold

    def release(self, hold: Hold) -> None:
        held = self._held[hold.owner]
        held.discard(hold)
        if not held:
            del self._held[hold.owner]

    def revoke(self, owner: str) -> None:
        """The owner may not speak any more: answers to it that have not ended by themselves in a
        moment are cut short."""
        asyncio.get_running_loop().call_later(_LAST_WORDS, self._cut, owner)

    def _cut(self, owner: str) -> None:
        for hold in self._held.get(owner, ()):
            hold.cut()

    def receive(self, owner: str, change: int) -> None:
        """So many bytes more, or fewer, wait for the rest of a key's body or message."""
        held = self._unfinished.get(owner, 0)
        if change > 0:
            most = self.limits.unfinished_megabytes_per_key * _MEGABYTE
            if held + change > most and owner != LOCAL:
                raise _too_much_of_key()
            most = self.limits.unfinished_megabytes * _MEGABYTE
            if sum(self._unfinished.values()) + change > most:
                raise _too_much()
        if held + change:
            self._unfinished[owner] = held + change
        else:
            self._unfinished.pop(owner, None)

    # -- how long ---------------------------------------------------------------------------------

    def expect(self, transport: Transport, seconds: float, late: Callable[[], None]) -> None:
        """What has begun must be whole in so many seconds, or ``late`` is called."""
        if transport not in self._due:
            self._due[transport] = (time.monotonic() + seconds, late)

    def whole(self, transport: Transport) -> None:
        self._due.pop(transport, None)

    def linger(self, transport: Transport) -> None:
        """All was said; what the client still sends is taken and not heard, for a while."""
        transport.write_eof()
        self.tolerate(transport)

    def tolerate(self, transport: Transport) -> None:
        self.whole(transport)
        self.expect(transport, _LINGER, transport.abort)

    def unread(self, transport: Transport) -> None:
        """The client has more to take than we will keep for it for long."""
        if transport not in self._unread:
            self._unread[transport] = _Unread()

    def taken(self, transport: Transport) -> None:
        self._unread.pop(transport, None)

    def in_turn(self, work: Callable[[], None]) -> None:
        """Of all clients that say much at once, one is heard in each round of the event loop, and
        those that say little in between."""
        self._turns.append(work)
        if len(self._turns) == 1:
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turns[0]()
        self._turns.popleft()
        if self._turns:
            asyncio.get_running_loop().call_soon(self._next_turn)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(1)
            self._end_late()
            self._end_unread(self.limits.slow_reader_seconds)

    def _end_late(self) -> None:
        now = time.monotonic()
        for transport, (deadline, late) in list(self._due.items()):
            if deadline < now:
                del self._due[transport]
                late()

    def _end_unread(self, patience: float) -> None:
        """Closing would wait until all is taken, which such a client never does."""
        now = time.monotonic()
        for transport, unread in list(self._unread.items()):
            size = _untaken(transport)
            if size == 0:
                del self._unread[transport]
            elif unread.size is None:
                unread.size = size
            elif size <= unread.size - _STEP:
                unread.since, unread.size = now, size
            elif unread.since <= now - patience:
                log.info("closed a client that took nothing for too long")
                transport.abort()

    def shut_down(self) -> None:
        """The server is about to end: nobody is waited for who has not said what it wants, or
        does not take what it was told."""
        for transport in list(self._due):
            transport.abort()
        self._end_unread(patience=1)


def _untaken(transport: Transport) -> int:
    """Bytes that wait for the client: those we keep, and what the kernel keeps before them, which
    takes more only when much of it has gone."""
    size = transport.get_write_buffer_size()
    if size and sys.platform == "linux":
        plug = transport.get_extra_info("socket")
        with suppress(OSError):  # it was closed in this moment
            queued = fcntl.ioctl(plug.fileno(), termios.TIOCOUTQ, bytes(4))
            size += struct.unpack("i", queued)[0]
    return size


def _too_much() -> RequestError:
    return Unavailable(
        "This server receives as much at once as it takes; try again in a moment.",
        code="too_much_unfinished",
        retry_after=1,
    )


def _too_much_of_key() -> RequestError:
    return TooManyRequests(
        "This key sends more at once than it may; send one after the other.",
        code="too_much_unfinished",
        retry_after=1,
    )


def _crowded_key(count: int) -> RequestError:
    return TooManyRequests(
        f"This key uses {count} connections at once, which is its limit. Close some, or ask "
        "whoever runs this server to raise limits.connections_per_key.",
        code="too_many_connections",
        retry_after=1,
    )
