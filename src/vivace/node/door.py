"""The port of an engine node: gateways with the fleet's key come in, strangers are bounded.

A connection is counted from the moment it is accepted, before TLS, by the limits of a gateway
(``[limits]``). Until it has shown the key it is pending: it has ``limits.head_seconds`` for that,
and is closed when newer ones need its place. So a flood of strangers cannot lock a gateway out,
which needs some milliseconds. Nothing that a stranger sends is logged, only how many there were.
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
from http import HTTPStatus
from typing import cast

from websockets.asyncio.server import Server, ServerConnection
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from vivace.config import LimitsConfig
from vivace.inbound import CROWDED, ConnectionCounts
from vivace.link.frames import MAX_FRAME, SUBPROTOCOL
from vivace.supervisor import Supervisor

__all__ = ["Door"]

log = logging.getLogger("vivace.node")
_silent = logging.getLogger("vivace.node.handshake")
"""Logger for websockets' tracebacks of refused handshakes, which are counted instead."""
_silent.addFilter(lambda _: False)

_MAX_PENDING = 512
"""Connections that have not shown the key; each may have a TLS handshake and a head in memory."""
_HEAD_BYTES = 65_536
_CLOSE_TIMEOUT_S = 0.2
_ACCEPT_BACKOFF_S = 0.1
_SUMMARY_INTERVAL_S = 60.0
"""Seconds between two lines of the log about connections that were refused."""


class _Caller:
    """A connection from the moment it is accepted."""

    def __init__(self, plug: socket.socket, group: str | None) -> None:
        self.plug = plug
        self.group = group
        self.opening: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None
        self.answered = False

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


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
        self._pending: dict[_Caller, None] = {}
        """Connections without the key so far, oldest first."""
        self._links: set[_Caller] = set()
        self._refused: Counter[str] = Counter()
        self._summary: asyncio.TimerHandle | None = None
        self._closing = False
        self._accepting: asyncio.Task[None] | None = None
        self._server = Server(
            link,
            process_request=self._admit,
            server_header=None,
            open_timeout=limits.head_seconds,
            logger=_silent,
        )
        self._server.wrap(cast("asyncio.Server", self))

    def watch(self, supervisor: Supervisor) -> None:
        """Accept connections until the supervisor stops."""
        self._listener.setblocking(False)
        self._accepting = supervisor.watch("accepting connections", self._accept)

    async def stop(self) -> None:
        """Close the port and all connections."""
        self._server.close()
        await self._server.wait_closed()

    # -- connections ------------------------------------------------------------------------------

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._closing:
            try:
                plug, address = await loop.sock_accept(self._listener)
            except OSError:  # no files, or no memory
                self._drop_oldest()
                await asyncio.sleep(_ACCEPT_BACKOFF_S)
                continue
            self._enter(plug, address[0])

    def _enter(self, plug: socket.socket, address: str) -> None:
        caller = _Caller(plug, self._counts.group(address))
        while len(self._pending) >= _MAX_PENDING:
            self._drop_oldest()
        while (why := self._counts.enter(caller, address)) is not None:
            if not self._drop_oldest(caller.group if why is CROWDED else None):
                self._refuse("beyond limits.connections")
                plug.close()
                return
        self._pending[caller] = None
        caller.opening = asyncio.create_task(self._open(caller))
        caller.opening.add_done_callback(lambda _: self._opened(caller))

    async def _open(self, caller: _Caller) -> None:
        with suppress(Exception):  # whatever a stranger sends instead of TLS
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._connection(caller),
                caller.plug,
                ssl=self._tls,
                ssl_handshake_timeout=self._limits.head_seconds if self._tls else None,
            )

    def _opened(self, caller: _Caller) -> None:
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
        found = next((each for each in self._pending if group in (None, each.group)), None)
        if found is None:
            return False
        self.lost(found, "too many at once")
        found.abort()
        return True

    def lost(self, caller: _Caller, why: str = "") -> None:
        """A connection has ended; ``why`` it was refused, if it has not been told before."""
        if caller in self._pending and why:
            self._refuse(why)
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
        self._closing = True
        if self._accepting is not None:
            self._accepting.cancel()
        if self._summary is not None:
            self._summary.cancel()
        for caller in list(self._pending):
            caller.abort()

    async def wait_closed(self) -> None:
        opening = [each.opening for each in self._pending if each.opening is not None]
        accepting = [self._accepting] if self._accepting is not None else []
        await asyncio.gather(*accepting, *opening, return_exceptions=True)
        self._listener.close()
