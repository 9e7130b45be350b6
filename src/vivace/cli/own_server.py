"""A server for the time of one run: ``vivace up``, beside us and ended with us."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import IO
from urllib.parse import urlsplit

import click

from vivace.addresses import is_loopback
from vivace.cli.output import say
from vivace.client.get import Unanswered, get
from vivace.errors import ConfigError
from vivace.interpreter import python_command

__all__ = ["own_server"]

_BETWEEN_LOOKS_S = 0.3
_TO_END_S = 20.0


@contextmanager
def own_server(url: str, model: str | None, context: int) -> Iterator[None]:
    """It answers at ``url`` inside of the block. What it says is shown until then, and no more
    afterwards: the terminal belongs to whoever is started next."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not is_loopback(parts.hostname or "") or parts.path != "/v1":
        raise click.UsageError(
            f"--up runs a server on this machine, and {url} is another address. Leave out --url, "
            "or name a port of this machine: http://127.0.0.1:8765/v1"
        )
    server = python_command("-m", "vivace.cli", "up", "--context", str(context))
    command = python_command("-m", "vivace.guard", *server)  # it ends though we be killed
    command += ["--port", str(parts.port or 80)]
    command += ["--model", model] if model is not None else []
    # In a session of its own, or a Ctrl-C that is meant for the agent would end it.
    process = subprocess.Popen(  # noqa: S603 - our own program, no shell
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    ready = threading.Event()
    threading.Thread(target=_show, args=(process.stdout, ready), daemon=True).start()
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        _await(process, url)
        ready.set()
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        _end(process)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """So that the server is ended too."""
    raise SystemExit(128 + number)


def _await(process: subprocess.Popen[bytes], url: str) -> None:
    while True:
        if process.poll() is not None:
            raise ConfigError("The server did not start; what it said stands above.")
        try:
            answer = asyncio.run(get(f"{url.removesuffix('/v1')}/readyz"))
        except Unanswered:
            pass
        else:
            if answer.status == 200:
                return
        time.sleep(_BETWEEN_LOOKS_S)


def _show(output: IO[bytes], ready: threading.Event) -> None:
    """Read to its end in any case: a full pipe would stop the server."""
    for line in output:
        if not ready.is_set():
            say(line.decode(errors="replace"), err=True, nl=False)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_TO_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
