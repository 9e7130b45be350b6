"""Real processes that may be killed, frozen and started again, always at the same address: gateways
and engine nodes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from tests.support.nodes import EngineProcess
from tests.support.ports import free_port
from tests.support.process import Serve

from chaos.history import Entry, Note, Printed, Process, load
from chaos.points import Armed, Met, arm, disarm, met_in

__all__ = ["GATEWAY", "Gateway", "Node", "Server", "custom_site"]

GATEWAY = "gateway"
_WITNESS = "work.jsonl"
_HOLDER = "holder"


def custom_site(folder: Path, *modules: str) -> dict[str, str]:
    """The environment of a process that imports these modules of ours before it begins."""
    (folder / "sitecustomize.py").write_text("".join(f"import {each}\n" for each in modules))
    known = os.environ.get("PYTHONPATH")
    path = [str(folder), str(Path(__file__).parents[1]), *([known] if known else [])]
    return {"PYTHONPATH": os.pathsep.join(path)}


class Server:
    """What gateways and nodes have in common: lives on record, and witnesses inside."""

    def __init__(self, folder: Path, note: Note, name: str, defect: str | None) -> None:
        """``defect``: a fault that is put into its code."""
        self.folder = folder
        self.name = name
        self.port = free_port()
        self._note = note
        self._defect = defect
        self._server: Serve | EngineProcess | None = None
        self._lives = 0

    def _begin(self) -> Serve | EngineProcess:
        raise NotImplementedError

    def _environment(self, *modules: str) -> dict[str, str]:
        """With a ``llama-server`` on its path that plays the script."""
        program = self.folder / "bin" / "llama-server"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\nfrom chaos.llama_server import main\n\nmain()\n")
        program.chmod(0o755)
        defects = ["chaos.defect_hooks"] if self._defect is not None else []
        return custom_site(self.folder, "chaos.engine_witness", *modules, *defects) | {
            "CHAOS_DEFECT": self._defect or "",
            "CHAOS_WITNESS": str(self.folder / _WITNESS),
            "CHAOS_POINTS": str(self.folder),
            "CHAOS_HOLDER": str(self.folder / _HOLDER),
            "PATH": os.pathsep.join([str(program.parent), os.environ["PATH"]]),
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def incarnation(self) -> str:
        return f"p{self.server.process.pid}"

    @property
    def server(self) -> Serve | EngineProcess:
        assert self._server is not None, "it has not been started"
        return self._server

    @property
    def runs(self) -> bool:
        return self._server is not None and self._server.process.poll() is None

    # -- its lives --------------------------------------------------------------------------------

    def launch(self) -> None:
        """Without waiting until it is ready, which it may never be."""
        self._lives += 1
        self._server = self._begin()
        self._note(Process(time.monotonic(), self.name, self.incarnation, True))

    async def start(self) -> None:
        """Returns when it is ready."""
        self.launch()
        await self.ready()

    async def ready(self) -> None:
        await asyncio.to_thread(self.server.__enter__)

    async def kill(self) -> None:
        """As ``kill -9``."""
        server, name = self.server, self.incarnation
        server.process.kill()
        await asyncio.to_thread(server.__exit__, None, None, None)
        self._note(Process(time.monotonic(), self.name, name, False))
        self._put_aside()

    def _put_aside(self) -> None:
        """What it logged, since the next one begins its own."""

    async def end(self, seconds: float) -> None:
        """By SIGTERM; raises ``TimeoutError`` if it takes longer than this."""
        process = self.server.process
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(seconds):
            while process.poll() is None:
                await asyncio.sleep(0.02)
        await self.kill()  # and what there is to do about it afterwards

    def freeze(self) -> None:
        self.server.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.server.process.send_signal(signal.SIGCONT)

    # -- its engines ------------------------------------------------------------------------------

    def working_engines(self) -> list[psutil.Process]:
        """Processes of engines that are writing an answer now."""
        pids = (int(path.name.partition("-")[2]) for path in self.folder.glob("working-*"))
        return [psutil.Process(pid) for pid in sorted(pids) if psutil.pid_exists(pid)]

    def witnessed(self) -> list[Entry]:
        """What its engines said they did."""
        witness = self.folder / _WITNESS
        return load(witness) if witness.exists() else []

    def testimony(self) -> list[Entry]:
        """The same, and what it logged."""
        now, logs = time.monotonic(), sorted(self.folder.rglob("*.log"))
        printed = (Printed(now, f"{self.name} {log.name}", log.read_text()) for log in logs)
        return [*self.witnessed(), *printed]


class Gateway(Server):
    """``vivace serve``."""

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
        defect: str | None = None,
        name: str = GATEWAY,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, note, name, defect)
        self.patience = 20.0
        """Seconds in which it must come to the point where it is to die."""
        own = self._environment(
            "chaos.point_hooks", "chaos.holder_hooks", "chaos.count_hooks", "chaos.slow_hooks"
        )
        self._given: dict[str, Any] = {
            "script": script,
            "owners": owners,
            "rate": rate,
            "engine": engine,
            "tables": tables,
            "port": self.port,
            "patience": 60,
            "environment": own | dict(environment or {}),
        }

    def _begin(self) -> Serve:
        return Serve(self.folder, **self._given)

    def _put_aside(self) -> None:
        log = self.folder / "serve.log"
        if log.exists():
            log.rename(self.folder / f"serve-{self._lives}.log")

    @property
    def holder(self) -> str:
        """What it calls itself in the store."""
        path = self.folder / _HOLDER
        return path.read_text() if path.exists() else ""

    # -- where it dies by itself ------------------------------------------------------------------

    def arm(self, armed: Armed) -> None:
        arm(self.folder, armed)

    def met(self) -> Met | None:
        """Where it came to the point that was armed."""
        return met_in(self.folder)

    async def died(self) -> Met:
        """Wait until it is dead; raises ``TimeoutError`` if it did not come to the point."""
        try:
            async with asyncio.timeout(self.patience):
                while (met := self.met()) is None or self.server.process.poll() is None:
                    await asyncio.sleep(0.01)
        finally:
            disarm(self.folder)
        await self.kill()
        return met


class Node(Server):
    """``vivace engine``."""

    def __init__(
        self,
        folder: Path,
        note: Note,
        name: str,
        script: str,
        *,
        rate: float,
        engine: Mapping[str, object],
        defect: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, note, name, defect)
        self._given: dict[str, Any] = {
            "script": script,
            "rate": rate,
            "engine": engine,
            "port": self.port,
            "patience": 60,
            "environment": self._environment("chaos.slow_hooks") | dict(environment or {}),
        }

    def _begin(self) -> EngineProcess:
        return EngineProcess(self.folder, self.name, **self._given)
