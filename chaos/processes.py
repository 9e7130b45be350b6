"""A real gateway that may be killed, frozen and started again, always at the same address."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.process import Serve, free_port

from chaos.history import Entry, Note, Printed, Process, load

__all__ = ["GATEWAY", "Gateway", "custom_site"]

GATEWAY = "gateway"
_LOG, _WITNESS = "serve.log", "work.jsonl"


def custom_site(folder: Path, module: str) -> dict[str, str]:
    """The environment of a process that imports this module of ours before it begins."""
    (folder / "sitecustomize.py").write_text(f"import {module}\n")
    known = os.environ.get("PYTHONPATH")
    path = [str(folder), str(Path(__file__).parents[1]), *([known] if known else [])]
    return {"PYTHONPATH": os.pathsep.join(path)}


class Gateway:
    """``vivace serve`` with a scripted engine, its lives on record."""

    def __init__(
        self,
        folder: Path,
        note: Note,
        script: str,
        *,
        owners: Sequence[str],
        rate: float,
        engine: Mapping[str, object],
        tables: Mapping[str, Any],
    ) -> None:
        self.folder = folder
        self._note = note
        self._port = free_port()
        self._given: dict[str, Any] = {
            "script": script,
            "owners": owners,
            "rate": rate,
            "engine": engine,
            "tables": tables,
            "port": self._port,
            "patience": 60,
            "environment": custom_site(folder, "chaos.engine_witness")
            | {"CHAOS_WITNESS": str(folder / _WITNESS)},
        }
        self._server: Serve | None = None
        self._lives = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def incarnation(self) -> str:
        return f"p{self.server.process.pid}"

    @property
    def server(self) -> Serve:
        assert self._server is not None, "it has not been started"
        return self._server

    async def start(self) -> None:
        """Returns when it is ready."""
        self._lives += 1
        self._server = Serve(self.folder, **self._given)
        await asyncio.to_thread(self._server.__enter__)
        self._note(Process(time.monotonic(), GATEWAY, self.incarnation, True))

    async def kill(self) -> None:
        """As ``kill -9``; its log is put aside, since the next one begins its own."""
        server, name = self.server, self.incarnation
        server.process.kill()
        await asyncio.to_thread(server.__exit__, None, None, None)
        self._note(Process(time.monotonic(), GATEWAY, name, False))
        (self.folder / _LOG).rename(self.folder / f"serve-{self._lives}.log")

    def freeze(self) -> None:
        self.server.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.server.process.send_signal(signal.SIGCONT)

    def testimony(self) -> list[Entry]:
        """What its engines said they did, and what it logged."""
        witness = self.folder / _WITNESS
        told: list[Entry] = load(witness) if witness.exists() else []
        logs = sorted(self.folder.glob("serve*.log"))
        return [*told, *(Printed(time.monotonic(), log.name, log.read_text()) for log in logs)]
