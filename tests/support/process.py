"""``vivace serve`` as a process of its own, for what only a process can show: signals and death."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import httpx

_SERVER = """
version = 1
[server]
port = {port}
[limits]
drain_seconds = {drain}
"""
_SCRIPTED = """
[[engines]]
name = "scripted"
kind = "scripted"
model = "local-model"
script = "script.toml"
rate = {rate}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Serve:
    """``with Serve(folder, script) as server``; the folder keeps the store between two of them."""

    def __init__(
        self,
        folder: Path,
        script: str = "",
        *,
        rate: float = 2000,
        drain: float = 10,
        engine: str = "",
        patience: float = 20,
    ) -> None:
        """``engine`` is the configuration of another one than the scripted."""
        self.port = free_port()
        self._patience = patience
        config = folder / "vivace.toml"
        config.write_text(
            _SERVER.format(port=self.port, drain=drain) + (engine or _SCRIPTED.format(rate=rate))
        )
        (folder / "script.toml").write_text(script)
        self._log = (folder / "serve.log").open("w")
        command = [sys.executable, "-m", "vivace.cli", "serve", "--config", str(config)]
        self.process = subprocess.Popen(command, stderr=self._log)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text()

    def __enter__(self) -> Serve:
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url[:-3]}/readyz").status_code == 200:
                    return self
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(f"vivace serve did not start:\n{self.log}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()
