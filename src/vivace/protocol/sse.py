"""Server-sent events as bytes: written by the gateway, read by clients and from endpoints."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["LONGEST_LINE", "SSE_DONE", "EndlessLine", "SseLines", "sse"]

SSE_DONE = b"data: [DONE]\n\n"
LONGEST_LINE = 64 * 1024 * 1024
"""Bytes; the last event of a response holds all of it."""


class EndlessLine(ValueError):
    """What comes is no stream of events: its line does not end."""


def sse(name: str, data: bytes) -> bytes:
    """One event. JSON has no raw newline in it, so one data line is enough."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


class SseLines:
    """Cuts a stream of bytes into the data of its events."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Raises EndlessLine."""
        self._rest.append(data)
        self._size += len(data)
        if b"\n" not in data:
            if self._size > self._longest:
                raise EndlessLine(f"a line of more than {self._longest} bytes")
            return
        *lines, rest = b"".join(self._rest).split(b"\n")
        self._rest, self._size = [rest], len(rest)
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()

    def end(self) -> Iterator[bytes]:
        """The last event, when the stream ended without a newline."""
        return self.feed(b"\n")
