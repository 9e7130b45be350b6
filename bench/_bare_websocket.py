"""A bare ``websockets`` server on uvloop that writes what the gateway wrote: a machine's measure.

Answers every message with the same prepared frames, at so many a second (0: as fast as it can). It
neither parses nor decides, so no server written with this library can do the same for less.
usage: python -m bench._bare_websocket PORT FILE RATE, the file with one frame a line
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

from tests.support.ports import free_port
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from bench._server import raise_file_limit, wait_until_ready


async def _record(port: int, create: str) -> list[str]:
    address = f"ws://127.0.0.1:{port}/v1/responses"
    async with connect(address, compression=None, max_size=None) as socket:
        await socket.send(create)
        frames: list[str] = []
        async for message in socket:
            frames.append(str(message))
            if '"response.completed"' in frames[-1][:40]:
                break
        return frames


@contextlib.contextmanager
def bare_server(
    gateway: int, create: str, rate: float = 0
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A bare server that answers as the gateway on this port answers this; port and process."""
    frames = asyncio.run(_record(gateway, create))
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames"
        path.write_text("\n".join(frames))
        command = [sys.executable, "-m", "bench._bare_websocket", str(port), str(path), str(rate)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                wait_until_ready(port, process, "/readyz")
                yield port, process
            finally:
                process.terminate()


async def _main(port: int, path: Path, rate: float) -> None:
    frames = path.read_text().split("\n")

    async def answer(socket: ServerConnection) -> None:
        async for _ in socket:
            begun = time.perf_counter()
            for number, frame in enumerate(frames):
                ahead = begun + number / rate - time.perf_counter() if rate else 0
                if ahead > 0:
                    await asyncio.sleep(ahead)
                await socket.send(frame)

    def ready(socket: ServerConnection, request: Request) -> Response | None:
        return socket.respond(HTTPStatus.OK, "ready\n") if request.path == "/readyz" else None

    async with serve(
        answer,
        "127.0.0.1",
        port,
        compression=None,
        max_size=None,
        ping_interval=None,
        process_request=ready,
        backlog=4096,
    ):
        await asyncio.Future()


if __name__ == "__main__":
    import uvloop  # as the gateway

    raise_file_limit()
    uvloop.run(_main(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])))
