"""The front door: every request and every upgrade passes here before anything is read of it.

Gives the request its id, checks Host, Origin and key, and turns errors into their wire form.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vivace.config import LOCAL
from vivace.errors import NotFound, RequestError
from vivace.gateway.auth import Keys, check_host, check_origin
from vivace.gateway.connections import ABORT, Connections, Hold
from vivace.gateway.ids import new_id
from vivace.logs import Throttled
from vivace.protocol.codec import encode, error_payload, retry_headers
from vivace.protocol.codex import is_codex
from vivace.protocol.messages_api import errors as messages_errors
from vivace.protocol.tracing import traceparent

__all__ = ["Front", "error_body", "error_headers"]

log = logging.getLogger("vivace.front")
log.addFilter(Throttled())

_OPEN = frozenset({"/", "/healthz", "/readyz"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:\-]{1,128}")


class Front:
    def __init__(
        self,
        app: ASGIApp,
        sockets: Mapping[str, ASGIApp],
        keys: Keys,
        connections: Connections,
        *,
        origins: Iterable[str],
        hosts: Iterable[str],
    ) -> None:
        """``app`` gets HTTP; ``sockets`` get the upgrades at their path, with nothing between
        them and the connection, because every token of a stream passes there."""
        self._app = app
        self._sockets = sockets
        self._keys = keys
        self._origins = frozenset(origins)
        self._connections = connections
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = _request_id(headers)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        state["codex"] = is_codex(headers)
        state["traceparent"] = traceparent(headers.get("traceparent"))

        try:
            if self._hosts or not self._keys.needed:
                check_host(headers.getlist("host"), self._hosts)
            check_origin(headers.get("origin"), self._origins)
            public = scope["path"] in _OPEN or _is_preflight(scope, headers)
            state["owner"] = LOCAL if public else self._owner(headers)
            if scope["type"] == "websocket" and scope["path"] not in self._sockets:
                raise NotFound(f"There is no WebSocket at {scope['path']}.")
            hold = self._connections.hold(state["owner"])
        except RequestError as error:
            log.info("refused request_id=%s code=%s", request_id, error.code)
            await _refuse(scope, send, error, request_id)
            return
        try:
            if scope["type"] == "websocket":
                await self._sockets[scope["path"]](scope, receive, send)
            else:
                await self._answer(scope, receive, send, hold)
        finally:
            self._connections.release(hold)

    def _owner(self, headers: Headers) -> str:
        return self._keys.owner_of(headers.get("authorization"), headers.get("x-api-key"))

    async def _answer(self, scope: Scope, receive: Receive, send: Send, hold: Hold) -> None:
        state = scope["state"]

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                hold.answers(scope["extensions"][ABORT])
                headers = {**_id_headers(scope), **state.get("headers", {})}
                MutableHeaders(scope=message).update(headers)
            await send(message)

        body = _Body(receive, state["owner"], self._connections)
        try:
            await self._app(scope, body.receive, named)
        finally:
            body.whole()


class _Body:
    """Counts what has come of a request's body until all of it has."""

    def __init__(self, receive: Receive, owner: str, connections: Connections) -> None:
        self._receive = receive
        self._owner = owner
        self._connections = connections
        self._size = 0

    async def receive(self) -> Message:
        message = await self._receive()
        if message.get("more_body"):
            size = len(message["body"])
            self._connections.receive(self._owner, size)
            self._size += size
        elif self._size:
            self.whole()
        return message

    def whole(self) -> None:
        self._connections.receive(self._owner, -self._size)
        self._size = 0


def _is_preflight(scope: Scope, headers: Headers) -> bool:
    """A browser asks whether it may ask, and sends no key with that."""
    return scope.get("method") == "OPTIONS" and "access-control-request-method" in headers


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id") or headers.get("x-client-request-id") or ""
    return given if _REQUEST_ID.fullmatch(given) else new_id("req")


def _id_headers(scope: Scope) -> dict[str, str]:
    """The request's id, under the names by which its client looks for it."""
    request_id: str = scope["state"]["request_id"]
    headers = {"x-request-id": request_id}
    if messages_errors.speaks_messages(scope["path"]):
        headers["request-id"] = request_id
    return headers


def error_body(error: RequestError, request_id: str, path: str = "") -> bytes:
    """In the form of the API that the path belongs to."""
    if messages_errors.speaks_messages(path):
        return messages_errors.error_body(error, request_id)
    return encode({"error": error_payload(error, request_id)})


def error_headers(error: RequestError) -> dict[str, str]:
    headers = {"content-type": "application/json", **retry_headers(error.retry_after)}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return headers


async def _refuse(scope: Scope, send: Send, error: RequestError, request_id: str) -> None:
    """Answer before the application sees it; an upgrade is answered as plain HTTP."""
    prefix = "websocket." if scope["type"] == "websocket" else ""
    headers = {**error_headers(error), **_id_headers(scope)}
    await send(
        {
            "type": f"{prefix}http.response.start",
            "status": error.status,
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
    )
    body = error_body(error, request_id, scope["path"])
    await send({"type": f"{prefix}http.response.body", "body": body})
