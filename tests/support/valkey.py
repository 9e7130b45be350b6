"""A real Valkey, or Redis, that keeps nothing: to be used, stopped, killed and started again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NoConnection

from tests.support.ports import free_port
from tests.support.waiting import eventually

SERVERS = ("valkey-server", "redis-server")
CHOSEN = "VIVACE_VALKEY_SERVER"
"""The variable that names one of them; unset, the first that is there."""


def program() -> str:
    """In CI one that is missing is a failure."""
    wanted = os.environ.get(CHOSEN)
    for name in (wanted,) if wanted else SERVERS:
        if found := shutil.which(name):
            return found
    missing = f"{wanted or 'valkey-server'} is not installed: scripts/install-valkey"
    if wanted or os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


class Valkey:
    def __init__(self) -> None:
        self._program = program()
        self._folder = Path(tempfile.mkdtemp(prefix="vivace-valkey-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.socket = self._folder / "socket"
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> Redis:
        return Redis(port=self.port, decode_responses=True)

    def start(self) -> None:
        """Empty, as it is after each end."""
        options = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "unixsocket": str(self.socket),
            "dir": str(self._folder),
            "save": "",
            "appendonly": "no",
        }
        command = [self._program, *(word for k, v in options.items() for word in (f"--{k}", v))]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        eventually(self._answers, explain=lambda: (self._folder / "log").read_text()[-2000:])

    def _answers(self) -> bool:
        with self.client() as client:
            try:
                return bool(client.ping())
            except NoConnection:
                return False

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Return when it stands still."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        process = psutil.Process(self._process.pid)
        eventually(lambda: process.status() == psutil.STATUS_STOPPED)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def restore(self) -> None:
        """As new, whatever was done to it."""
        assert self._process is not None
        if self._process.poll() is None:
            self.thaw()
        else:
            self.start()
        with self.client() as client:
            client.flushall()
            client.script_flush()

    def stop(self) -> None:
        """For good."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextlib.contextmanager
    def watched(self) -> Iterator[list[str]]:
        """What MONITOR tells of all that is asked inside the block, once the block has ended."""
        lines: list[str] = []
        with self.client() as watcher, watcher.monitor() as monitor, self.client() as client:
            yield lines
            client.echo("the end")
            for told in monitor.listen():
                lines.append(told["command"])
                if "the end" in told["command"]:
                    return
