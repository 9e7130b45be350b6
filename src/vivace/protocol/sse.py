"""Server-sent events as bytes: written by the gateway, read by clients and from endpoints."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["SSE_DONE", "SseLines", "sse"]

SSE_DONE = b"data: [DONE]\n\n"


def sse(name: str, data: bytes) -> bytes:
    """One event. JSON has no raw newline in it, so one data line is enough."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


class SseLines:
    """Cuts a stream of bytes into the data of its events."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()

    def end(self) -> Iterator[bytes]:
        """The last event, when the stream ended without a newline."""
        return self.feed(b"\n")
