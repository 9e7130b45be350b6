"""A ``vivace serve`` of its own for a benchmark, in its own process."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.ports import free_port


@contextlib.contextmanager
def served(
    config: str, *, source: Path | None = None, under: Sequence[str] = (), **files: str
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Serve this configuration (``{port}`` is filled in); ``files`` are written beside it.

    Yields the port and the process. Names of files have their dots as underscores. ``source`` is
    the ``src`` of another tree to serve from, ``under`` a command that watches it and whose words
    on stderr are wanted.
    """
    environment = {**os.environ, "PYTHONPATH": str(source)} if source is not None else None
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name.replace("_", ".")).write_text(text)
        path = Path(folder) / "vivace.toml"
        path.write_text(config.format(port=port))
        command = [*under, sys.executable, "-m", "vivace.cli", "serve", "--config", str(path)]
        heard = subprocess.PIPE if under else subprocess.DEVNULL
        with subprocess.Popen(command, stderr=heard, env=environment) as process:
            try:
                wait_until_ready(port, process, seconds=600 if under else 60)
                yield port, process
            finally:
                process.terminate()


def wait_until_ready(
    port: int, process: subprocess.Popen[Any], path: str = "/readyz", seconds: float = 60
) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}"):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"the server on port {port} did not become ready")


_SCRIPTED = """
version = 1
[server]
port = {{port}}
[limits]
body_megabytes = 32
[store]
path = ":memory:"
[[engines]]
name = "yardstick"
kind = "scripted"
model = "local-model"
script = "script.toml"
rate = {rate}
burst = {burst}
context = {context}
"""


def words(count: int) -> str:
    """So many words that do not repeat each other: some proxies take repetition for a fault."""
    return "".join(f" word{number}" for number in range(count))


@contextlib.contextmanager
def served_script(
    text: str,
    *,
    times: int = 1,
    rate: float,
    burst: int = 1,
    context: int = 131_072,
    source: Path | None = None,
    under: Sequence[str] = (),
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Serve a scripted engine that always says this text so many times, at this rate, with so
    many tokens in one delta."""
    config = _SCRIPTED.format(rate=rate, burst=burst, context=context)
    script = f'[[replies]]\nthen = [{{ do = "say", text = "{text}", times = {times} }}]\n'
    with served(config, source=source, under=under, script_toml=script) as server:
        yield server


def threads(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def cpu(pid: int) -> float:
    """Seconds of the serving process alone; the engine's core is a process of its own."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in threads(pid)) / 1e9


def delayed(pid: int) -> float:
    """Seconds for which its threads were ready to run and something else had the core."""
    return sum(int((task / "schedstat").read_text().split()[1]) for task in threads(pid)) / 1e9


def raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
