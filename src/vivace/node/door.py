"""The port of an engine node: gateways with the fleet's key come in, strangers are bounded.

A connection is counted from the moment it is accepted, before TLS, by the limits of a gateway
(``[limits]``). Until it has shown the key it is pending: it has ``limits.head_seconds`` for that,
and is closed when newer ones need its place, one that has said nothing before all others. So a
flood of strangers keeps no gateway out, which speaks at once and needs some milliseconds. Nothing
is made for a connection before its first byte. What a stranger sends is never logged, only how many
there were.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import cast

from websockets.asyncio.server import Server, ServerConnection
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from vivace.config import LimitsConfig
from vivace.inbound import CROWDED, ConnectionCounts
from vivace.link.frames import MAX_FRAME, SUBPROTOCOL

__all__ = ["Door"]

log = logging.getLogger("vivace.node")
_silent = logging.getLogger("vivace.node.handshake")
"""Logger for websockets' tracebacks of refused handshakes, which are counted instead."""
_silent.addFilter(lambda _: False)

_MAX_PENDING = 512
"""Connections that have not shown the key; each may have a TLS handshake and a head in memory."""
_HEAD_BYTES = 65_536
_CLOSE_TIMEOUT_S = 0.2
_ACCEPT_AT_ONCE = 32
"""Connections in one turn of the event loop: more than one, so that a gateway does not wait behind
thousands of strangers, and so few that it has shown its key before their number drops it."""
_ACCEPT_BACKOFF_S = 0.1
_SUMMARY_INTERVAL_S = 60.0
"""Seconds between two lines of the log about connections that were refused."""


class _Caller:
    """A connection from the moment it is accepted."""

    def __init__(self, plug: socket.socket, group: str | None) -> None:
        self.plug = plug
        self.group = group
        self.deadline: asyncio.TimerHandle | None = None
        """Of one that has said nothing."""
        self.opening: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None
        self.answered = False


class _Connection(ServerConnection):
    """A connection whose TLS is open."""

    caller: _Caller
    door: Door
    _head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.caller.transport = cast("asyncio.Transport", transport)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.request is None:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES:
                self.transport.abort()
                return
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.door.lost(self.caller, "" if self.caller.answered else "without a whole request")
        super().connection_lost(exc)


class Door:
    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        key: str,
        limits: LimitsConfig,
        trusted: Iterable[str],
        link: Callable[[ServerConnection], Awaitable[None]],
        unready: Callable[[], str],
        takes_links: Callable[[], bool],
    ) -> None:
        """``link`` has a gateway that has shown the ``key``. ``unready`` says why no work should be
        sent here, if so, and ``takes_links`` whether gateways may come in all the same."""
        self._listener = listener
        self._tls = tls
        self._key = f"Bearer {key}".encode()
        self._limits = limits
        self._counts = ConnectionCounts(limits, trusted)
        self._unready = unready
        self._takes_links = takes_links
        self._silent: dict[_Caller, None] = {}
        """Connections that have sent nothing, oldest first."""
        self._pending: dict[_Caller, None] = {}
        """Connections that have sent something and not shown the key, oldest first."""
        self._opening: set[asyncio.Task[None]] = set()
        self._links: set[_Caller] = set()
        self._refused: Counter[str] = Counter()
        self._summary: asyncio.TimerHandle | None = None
        self._closing = False
        self._server = Server(
            link,
            process_request=self._admit,
            server_header=None,
            open_timeout=limits.head_seconds,
            logger=_silent,
        )
        self._server.wrap(cast("asyncio.Server", self))

    def open(self) -> None:
        """Accept connections from now on."""
        self._listener.setblocking(False)
        self._listen()

    async def stop(self) -> None:
        """Close the port and all connections."""
        self._server.close()
        await self._server.wait_closed()

    # -- connections ------------------------------------------------------------------------------

    def _listen(self) -> None:
        if not self._closing:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Accept what waits, many at once: under a flood a gateway stands behind thousands."""
        try:
            for _ in range(_ACCEPT_AT_ONCE):
                plug, address = self._listener.accept()
                plug.setblocking(False)
                self._enter(plug, address[0])
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            pass
        except OSError:  # no files, or no memory
            self._drop_oldest()
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._listener)
            loop.call_later(_ACCEPT_BACKOFF_S, self._listen)

    def _enter(self, plug: socket.socket, address: str) -> None:
        caller = _Caller(plug, self._counts.group(address))
        while len(self._silent) + len(self._pending) >= _MAX_PENDING:
            self._drop_oldest()
        while (why := self._counts.enter(caller, address)) is not None:
            if not self._drop_oldest(caller.group if why is CROWDED else None):
                self._refuse("beyond limits.connections")
                plug.close()
                return
        loop = asyncio.get_running_loop()
        self._silent[caller] = None
        loop.add_reader(plug, self._speaks, caller)
        caller.deadline = loop.call_later(self._limits.head_seconds, self._drop, caller, "too late")

    def _speaks(self, caller: _Caller) -> None:
        """Its first byte is here, or its end, for which nothing is made."""
        self._hush(caller)
        if _has_ended(caller.plug):
            self.lost(caller, "without a whole request")
            caller.plug.close()
            return
        del self._silent[caller]
        self._pending[caller] = None
        caller.opening = asyncio.create_task(self._open(caller))
        self._opening.add(caller.opening)
        caller.opening.add_done_callback(partial(self._opened, caller))

    def _hush(self, caller: _Caller) -> None:
        asyncio.get_running_loop().remove_reader(caller.plug)
        if caller.deadline is not None:
            caller.deadline.cancel()

    async def _open(self, caller: _Caller) -> None:
        with suppress(Exception):  # whatever a stranger sends instead of TLS
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._connection(caller),
                caller.plug,
                ssl=self._tls,
                ssl_handshake_timeout=self._limits.head_seconds if self._tls else None,
            )

    def _opened(self, caller: _Caller, opening: asyncio.Task[None]) -> None:
        self._opening.discard(opening)
        if caller.transport is None:
            self.lost(caller, "without TLS")
            caller.plug.close()

    def _connection(self, caller: _Caller) -> _Connection:
        protocol = ServerProtocol(
            subprotocols=[Subprotocol(SUBPROTOCOL)], max_size=MAX_FRAME, logger=_silent
        )
        connection = _Connection(
            protocol,
            self._server,
            ping_interval=None,  # beats tell more
            close_timeout=_CLOSE_TIMEOUT_S,
        )
        connection.caller, connection.door = caller, self
        return connection

    def _drop_oldest(self, group: str | None = None) -> bool:
        """Close the oldest connection that has not shown the key, of those from one address if its
        ``group`` is given; return whether there was one."""
        for pending in (self._silent, self._pending):
            found = next((each for each in pending if group in (None, each.group)), None)
            if found is not None:
                self._drop(found, "too many at once")
                return True
        return False

    def _drop(self, caller: _Caller, why: str = "") -> None:
        """Close a connection that has not shown the key."""
        silent = caller in self._silent
        self.lost(caller, why)
        if silent:
            self._hush(caller)
            caller.plug.close()
        elif caller.transport is not None:
            caller.transport.abort()
        elif caller.opening is not None:
            caller.opening.cancel()

    def lost(self, caller: _Caller, why: str = "") -> None:
        """A connection has ended; ``why`` it was refused, if it has not been told before."""
        if why and (caller in self._silent or caller in self._pending):
            self._refuse(why)
        self._silent.pop(caller, None)
        self._pending.pop(caller, None)
        self._links.discard(caller)
        self._counts.leave(caller)

    # -- the key ----------------------------------------------------------------------------------

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        caller = cast("_Connection", connection).caller
        caller.answered = True
        if request.path == "/healthz":
            return connection.respond(HTTPStatus.OK, "ok\n")
        if request.path == "/readyz":
            why = self._unready()
            status = HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK
            return connection.respond(status, f"{why or 'ready'}\n")
        given = " ".join(request.headers.get_all("Authorization")).encode(errors="replace")
        if not hmac.compare_digest(given, self._key):
            self._refuse("without the key")
            return connection.respond(HTTPStatus.UNAUTHORIZED, "The key is not this node's.\n")
        if request.path != "/link":
            return connection.respond(HTTPStatus.NOT_FOUND, "There is /link here.\n")
        if not self._takes_links():
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, f"{self._unready()}\n")
        if len(self._links) >= self._limits.connections_per_key:
            self._refuse("with the key, beyond limits.connections_per_key")
            return connection.respond(HTTPStatus.TOO_MANY_REQUESTS, "There are too many links.\n")
        self._pending.pop(caller, None)
        self._links.add(caller)
        return None

    # -- what the log says ------------------------------------------------------------------------

    def _refuse(self, why: str) -> None:
        """Count a connection that did not become a link; the first is logged at once, and what
        follows it in a minute together."""
        self._refused[why] += 1
        if self._summary is None and not self._closing:
            self._say()

    def _say(self) -> None:
        self._summary = None
        if self._refused:
            counts = ", ".join(f"{count} {why}" for why, count in self._refused.items())
            log.info("connections refused: %s", counts)
            self._refused.clear()
            loop = asyncio.get_running_loop()
            self._summary = loop.call_later(_SUMMARY_INTERVAL_S, self._say)

    # -- as websockets' Server wants its asyncio.Server -------------------------------------------

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return (self._listener,)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def is_serving(self) -> bool:
        return not self._closing

    def close(self) -> None:
        if not self._closing:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
        self._closing = True
        if self._summary is not None:
            self._summary.cancel()
        for caller in [*self._silent, *self._pending]:
            self._drop(caller)

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._opening, return_exceptions=True)


def _has_ended(plug: socket.socket) -> bool:
    try:
        return not plug.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
