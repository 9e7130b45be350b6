"""uvicorn's WebSocket, with a way to drop a client that takes nothing any more.

Closing waits until everything written has been taken, which such a client never does; its buffer
would stay with us for as long as it likes.
"""

from __future__ import annotations

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

__all__ = ["ABORT", "DroppableWebSocket"]

ABORT = "vivace.abort"
"""The ASGI extension under which a connection's abort function is found."""


class DroppableWebSocket(WebSocketsSansIOProtocol):
    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):  # not for a handshake that was refused
            extensions = self.scope["extensions"]
            assert extensions is not None
            extensions[ABORT] = self.transport.abort  # type: ignore[assignment]
