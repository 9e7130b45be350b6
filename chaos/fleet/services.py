"""What a fleet takes from others: PostgreSQL with a standby that has every commit, Valkey, and a
balancer."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.valkey import Valkey

from chaos.history import Note, Process

__all__ = ["Balancer", "Pair", "Services", "with_services"]

_POSTGRES = "postgres"


class Pair:
    """Two PostgreSQLs: whatever the first confirms, the second has."""

    def __init__(self) -> None:
        self.first = Postgres()
        self.first.emptied()
        self.second = Postgres(self.first)
        self._lives = 0
        self._failed_over = False

    def fresh(self) -> None:
        """An empty database, and a standby again if the last one had to take over."""
        if self._failed_over:
            self.second.stop()
            self.second = Postgres(self.first)
            self._failed_over = False
        self.first.thaw()
        self.first.start()
        self.second.start()
        self.first.emptied()

    @property
    def url(self) -> str:
        """Of the one that takes writes."""
        return self.first.url(self.first.database_name)

    def stop(self) -> None:
        for each in (self.first, self.second):
            each.thaw()
            each.stop()

    # -- what is done to it -----------------------------------------------------------------------

    async def kill(self, note: Note) -> None:
        await asyncio.to_thread(self.first.kill)
        note(Process(time.monotonic(), _POSTGRES, f"life {self._lives}", False))

    async def start(self, note: Note) -> None:
        """After a crash; returns when it serves."""
        await asyncio.to_thread(self.first.start)
        self._born(note)

    async def fail_over(self, note: Note) -> None:
        """To the standby; returns when that takes writes."""
        await asyncio.to_thread(self.second.promote)
        self.first, self.second = self.second, self.first
        self._failed_over = True
        self._born(note)

    def _born(self, note: Note) -> None:
        self._lives += 1
        note(Process(time.monotonic(), _POSTGRES, f"life {self._lives}", True))

    def freeze(self) -> None:
        self.first.freeze()

    def thaw(self) -> None:
        self.first.thaw()


class Services:
    """What many runs use one after the other: to start them takes a second each."""

    def __init__(self) -> None:
        self.valkey = Valkey()
        try:
            self.pair = Pair()
        except BaseException:
            self.valkey.stop()
            raise

    def fresh(self) -> None:
        self.pair.fresh()
        self.valkey.restore()

    def stop(self) -> None:
        self.pair.stop()
        self.valkey.stop()

    @contextlib.asynccontextmanager
    async def overheard(self) -> AsyncIterator[list[str]]:
        """All that Valkey is asked inside the block, whenever it lives."""
        lines: list[str] = []
        listening = asyncio.create_task(self._listen(lines))
        try:
            yield lines
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, lines: list[str]) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.valkey.port)
                try:
                    writer.write(b"MONITOR\r\n")
                    while line := await reader.readline():
                        lines.append(line.decode(errors="replace"))
                finally:
                    writer.close()
            await asyncio.sleep(0.02)


_BALANCED = """
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    timeout tunnel 60s
    timeout check 500ms
    option redispatch
    retries 2
frontend clients
    bind 127.0.0.1:{port}
    default_backend gateways
backend gateways
    balance leastconn
    option httpchk GET /readyz
    default-server inter 200ms fall 2 rise 1
"""


class Balancer:
    """HAProxy before the gateways, as anybody would have it."""

    def __init__(self, folder: Path, gateways: Mapping[str, int]) -> None:
        """``gateways``: their ports, by their names."""
        program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
        if program is None:
            raise RuntimeError("HAProxy is not installed: apt-get install haproxy")
        self.port = free_port()
        path = folder / "haproxy.cfg"
        servers = (f"    server {name} 127.0.0.1:{port} check" for name, port in gateways.items())
        path.write_text(_BALANCED.format(port=self.port) + "\n".join(servers) + "\n")
        with (folder / "haproxy.txt").open("wb") as log:
            self._process = subprocess.Popen(
                [program, "-db", "-f", str(path)], stdout=log, stderr=log
            )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def with_services(do: Callable[[Services], int]) -> int:
    """How a command ends that takes them; where they cannot be had, it says what is missing."""
    try:
        services = Services()
    except (pytest.skip.Exception, pytest.fail.Exception) as error:
        print(f"This takes PostgreSQL, Valkey and HAProxy: {error}")
        return 2
    try:
        return do(services)
    finally:
        services.stop()
