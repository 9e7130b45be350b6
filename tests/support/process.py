"""``vivace serve`` as a process of its own, for what only a process can show: signals and death,
its memory and its open files, and what a stranger may do to it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket as tcp
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.support.http import bearer, keys
from tests.support.ports import free_port
from tests.support.socket import Socket, narrow
from tests.support.waiting import PATIENCE_S, eventually

_SCRIPTED = {
    "name": "scripted",
    "kind": "scripted",
    "model": "local-model",
    "script": "script.toml",
}


def alive(process: psutil.Process) -> bool:
    """One that ended and that nobody asked about is not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def toml(value: object) -> str:
    """A value as TOML writes it; tables in their inline form."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {toml(each)}" for name, each in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    return json.dumps(value)


class Serve:
    """``with Serve(folder, script) as server``; the folder keeps the store between two of them."""

    def __init__(
        self,
        folder: Path,
        script: str = "",
        *,
        rate: float = 2000,
        drain: float = 10,
        engine: Mapping[str, object] | None = None,
        owners: Sequence[str] = (),
        tables: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        patience: float = PATIENCE_S,
        port: int | None = None,
    ) -> None:
        """``engine`` adds to the scripted one, or is another if it has a ``kind``; ``owners`` get
        a key each (``tests.support.http.bearer``). ``tables`` are any others of ``vivace.toml``;
        what stands in ``server`` and ``limits`` is added to what is there. A ``port`` is for one
        that takes the place of another."""
        self.port = port or free_port()
        self.folder = folder
        self._patience = patience
        given = dict(tables or {})
        config = {
            "version": 1,
            "server": {"port": self.port} | given.pop("server", {}),
            "limits": {"drain_seconds": drain} | given.pop("limits", {}),
            "engines": [_engine(engine or {}, rate)],
            "keys": keys(*owners),
        } | given
        path = folder / "vivace.toml"
        path.write_text("".join(f"{name} = {toml(value)}\n" for name, value in config.items()))
        (folder / "script.toml").write_text(script)
        self._log = (folder / "serve.log").open("w")
        command = [sys.executable, "-m", "vivace.cli", "serve", "--config", str(path), *arguments]
        self.process = subprocess.Popen(
            command, stderr=self._log, env={**os.environ, **(environment or {})}
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text()

    @property
    def errors(self) -> list[str]:
        """What it logged as a fault of its own."""
        return [line for line in self.log.splitlines() if " ERROR " in line or "Traceback" in line]

    @property
    def faults(self) -> list[str]:
        """What it logged as an error, which is never a client's doing."""
        return [
            line for line in self.log.splitlines() if re.match(r"\S+ \S+ (ERROR|CRITICAL) ", line)
        ]

    # -- ways in ----------------------------------------------------------------------------------

    def http(self, owner: str | None = None, **settings: Any) -> httpx.Client:
        """A client for paths from the root on (``/v1/responses``), with the owner's key."""
        root = self.url.removesuffix("/v1")
        headers = {**_bearer(owner), **settings.pop("headers", {})}
        # Reading the certificates of the world, for nothing, would take 40 ms each time.
        # vivace: ignore[python-tls-check-disabled] plain HTTP to this machine
        given = {"timeout": PATIENCE_S, "verify": False, **settings}
        return httpx.Client(base_url=root, headers=headers, **given)

    def socket(self, owner: str | None = None, *, receive_buffer: int | None = None) -> Socket:
        return Socket(self.url, _bearer(owner), receive_buffer=receive_buffer)

    def raw(
        self, data: bytes = b"", timeout: float = PATIENCE_S, *, receive_buffer: int | None = None
    ) -> tcp.socket:
        """A TCP connection that has said ``data``, for clients that keep to no protocol."""
        plug = tcp.socket()
        plug.settimeout(timeout)
        if receive_buffer is not None:
            narrow(plug, receive_buffer)
        plug.connect(("127.0.0.1", self.port))
        plug.sendall(data)
        return plug

    # -- what it costs, and what it tells ---------------------------------------------------------

    @property
    def resident(self) -> int:
        """Bytes of memory it holds."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    @property
    def open_files(self) -> int:
        """Open descriptors, connections among them."""
        return int(psutil.Process(self.process.pid).num_fds())

    def metric(self, name: str, owner: str | None = None, **labels: str) -> float:
        """The sum over all samples of this name that have these labels."""
        with self.http(owner) as http:
            text = http.get("/metrics").raise_for_status().text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    # -- its life ---------------------------------------------------------------------------------

    def __enter__(self) -> Serve:
        def has_ended_or_is_ready() -> bool:
            with contextlib.suppress(httpx.TransportError):
                return self.process.poll() is not None or http.get("/readyz").status_code == 200
            return False

        try:
            with self.http() as http:
                eventually(has_ended_or_is_ready, self._patience, lambda: self.log)
            assert self.process.poll() is None, f"vivace serve did not start:\n{self.log}"
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
        self.process.kill()
        self.process.wait()
        self._log.close()


def _engine(given: Mapping[str, object], rate: float) -> dict[str, object]:
    return dict(given) if "kind" in given else {**_SCRIPTED, "rate": rate, **given}


def _bearer(owner: str | None) -> dict[str, str]:
    return {} if owner is None else bearer(owner)
