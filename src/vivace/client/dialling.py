"""Where a server's API stands, and a WebSocket to it."""

from __future__ import annotations

from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from vivace.addresses import is_loopback
from vivace.client.endpoint import refusal
from vivace.client.errors import ClientError, no_server
from vivace.protocol.sse import LONGEST_LINE

__all__ = ["NoWebSocket", "api_address", "comes_back", "dial", "why_closed"]

_NO_WEBSOCKET = frozenset({200, 400, 404, 405, 426, 501})
"""What servers answer to an upgrade that they do not know."""

_GOODBYE_S = 2

_SENT_AWAY = frozenset({1002, 1003, 1007, 1008, 1009})
"""Close codes for what the client did or is."""


class NoWebSocket(ClientError):
    """Somebody answers there, and has no WebSocket."""


def api_address(url: str) -> str:
    """Where the API stands; an address without its /v1 is understood too."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        sound = parts.scheme in ("http", "https") and host and parts.port != 0
    except ValueError:  # no number, or no name, can be this
        sound = False
    if not sound:
        raise ClientError(f"{url!r} is no address of a server; one looks like http://HOST:PORT/v1.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/v1'}"


async def dial(url: str, key: str | None) -> ClientConnection:
    address = api_address(url).replace("http", "ws", 1)
    try:
        return await connect(
            f"{address}/responses",
            additional_headers={"authorization": f"Bearer {key}"} if key else {},
            compression=None,
            max_size=LONGEST_LINE,
            close_timeout=_GOODBYE_S,
            # A proxy for the world cannot reach this machine's own loopback.
            proxy=None if is_loopback(urlsplit(url).hostname or "") else True,
        )
    except (OSError, TimeoutError):
        raise no_server(url) from None
    except InvalidStatus as refused:
        answer = refused.response
        if answer.status_code in _NO_WEBSOCKET:
            raise NoWebSocket(f"The server at {url} has no WebSocket.") from None
        headers = {name.lower(): each for name, each in answer.headers.raw_items()}
        raise refusal(url, answer.status_code, headers, answer.body or b"") from None
    except InvalidHandshake as refused:
        raise ClientError(f"What answers at {url} is no Responses server: {refused}.") from None


def comes_back(closed: ConnectionClosed) -> bool:
    """Whether another connection may do: nobody was sent away, and nothing wrong was said."""
    if closed.rcvd is not None:
        return closed.rcvd.code not in _SENT_AWAY
    return closed.sent is None


def why_closed(closed: ConnectionClosed) -> str:
    if closed.sent is not None and not closed.rcvd_then_sent:
        code = closed.sent.code
        return f"The server sent what no client takes (close code {code}); ask who runs it."
    reason = closed.rcvd.reason if closed.rcvd else ""
    return f"The server closed the connection. {reason}".strip()
