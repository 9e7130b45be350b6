"""An HTTP client that costs next to nothing, so that servers are compared and not clients.

One request at a time on a kept connection; the answer's body is a stream of server-sent events, of
which only the data lines are cut out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator


class LeanHttp:
    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._port, limit=1 << 22
        )

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None

    async def post(self, path: str, body: bytes, key: str = "none") -> AsyncIterator[bytes]:
        """The data of each event, as it comes."""
        if self._reader is None or self._reader.at_eof():  # servers drop idle connections
            await self.connect()
        assert self._reader is not None
        assert self._writer is not None
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        try:
            answer = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            # It was closed for being idle while we wrote, as a client must expect.
            await self.connect()
            self._writer.write(head.encode() + body)
            answer = await self._reader.readuntil(b"\r\n\r\n")
        status = answer.split(b" ", 2)[1]
        if status != b"200":
            rest = await self._reader.read(4096)
            raise RuntimeError(f"{path} answered {status.decode()}: {rest[:500]!r}")
        rest = b""
        while size := int(await self._reader.readline(), 16):
            rest += (await self._reader.readexactly(size + 2))[:-2]
            *lines, rest = rest.split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    yield line[5:].strip()
        await self._reader.readline()
