"""``vivace engine`` as a process of its own, which can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from tests.support.process import free_port, toml

KEY = "a key that only tests have"
SCRIPT = """
[[replies]]
when = "long"
then = [{ do = "say", text = "word ", times = 3000 }]
[[replies]]
when = "middle"
then = [{ do = "say", text = "word ", times = 200 }]
[[replies]]
then = [{ do = "say", text = "A few words." }]
"""


class EngineProcess:
    """``with EngineProcess(folder) as node``; a second one may take the place of the first."""

    def __init__(self, folder: Path, port: int | None = None, **node: Any) -> None:
        self.port = port or free_port()
        engine = {"name": "e", "kind": "scripted", "model": "local-model", "script": "script.toml"}
        config = {
            "version": 1,
            "engines": [{**engine, "rate": 200}],
            "node": {"name": "n", "port": self.port, **node},
        }
        path = folder / "node.toml"
        path.write_text("".join(f"{name} = {toml(value)}\n" for name, value in config.items()))
        (folder / "script.toml").write_text(SCRIPT)
        self._log = (folder / "node.log").open("a")
        self._secure = "certificate" in node
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vivace.cli", "engine", "--config", str(path)],
            stderr=self._log,
            env={**os.environ, "VIVACE_FLEET_KEY": KEY},
        )

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text()

    def __enter__(self) -> EngineProcess:
        deadline = time.monotonic() + 20
        scheme = "https" if self._secure else "http"
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                # vivace: ignore[python-tls-check-disabled] this machine, a certificate of the test
                if httpx.get(f"{scheme}://127.0.0.1:{self.port}/readyz", verify=False).is_success:
                    return self
            except httpx.TransportError:
                time.sleep(0.02)
        self.__exit__(None, None, None)
        raise AssertionError(f"vivace engine did not start:\n{self.log}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()
