"""``vivace engine`` as a process of its own: an engine node that can be killed and frozen."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from tests.support.ports import free_port
from tests.support.process import toml
from tests.support.waiting import PATIENCE_S, eventually

FLEET_KEY = "the key of this test's fleet"
KEYED = {"VIVACE_FLEET_KEY": FLEET_KEY}
"""For the environment of nodes and gateways."""


class EngineProcess:
    """``with EngineProcess(folder, "a", script) as node``."""

    def __init__(
        self,
        folder: Path,
        name: str,
        script: str = "",
        *,
        rate: float = 400,
        port: int | None = None,
        engine: Mapping[str, object] | None = None,
        limits: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        patience: float = PATIENCE_S,
        **node: Any,
    ) -> None:
        """``engine`` adds to a scripted one, or is another if it has a ``kind``; ``node`` to the
        table of that name. A ``port`` is for one that takes the place of another."""
        self.port = port or free_port()
        self.name = name
        self._patience = patience
        self._scheme = "https" if "certificate" in node else "http"
        # vivace: ignore[python-path-from-parameter] a name of the test
        place = folder / name
        place.mkdir(exist_ok=True)
        scripted = {
            "name": "coder",
            "kind": "scripted",
            "model": "coder",
            "script": "script.toml",
            "rate": rate,
        }
        given = dict(engine or {})
        config = {
            "version": 1,
            "node": {"name": name, "port": self.port, **node},
            "limits": dict(limits or {}),
            "engines": [given if "kind" in given else scripted | given],
        }
        path = place / "vivace.toml"
        path.write_text("".join(f"{key} = {toml(value)}\n" for key, value in config.items()))
        (place / "script.toml").write_text(script)
        self._log = (place / "engine.log").open("a")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vivace.cli", "engine", "--config", str(path)],
            stderr=self._log,
            env={**os.environ, **KEYED, **(environment or {})},
        )

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self) -> EngineProcess:
        address = f"{self._scheme}://127.0.0.1:{self.port}/readyz"

        def has_ended_or_is_ready() -> bool:
            if self.process.poll() is not None:
                return True
            with contextlib.suppress(httpx.TransportError):
                # vivace: ignore[python-tls-not-checked] this machine, a certificate of the test
                return httpx.get(address, verify=False).is_success
            return False

        try:
            eventually(has_ended_or_is_ready, self._patience, lambda: self.log)
            assert self.process.poll() is None, f"vivace engine did not start:\n{self.log}"
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.thaw()
        self.process.kill()
        self.process.wait()
        self._log.close()


def make_certificates(folder: Path) -> Path:
    """An authority, and a certificate of it for this machine."""
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    steps = [
        ["req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=tests"],
        ["req", *curve, "-keyout", "node.key", "-out", "node.csr", "-subj", "/CN=node"],
        [
            *("x509", "-req", "-in", "node.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-out", "node.pem", "-extfile", "names"),
        ],
    ]
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for step in steps:
        subprocess.run(["openssl", *step], cwd=folder, check=True, capture_output=True)
    return folder
