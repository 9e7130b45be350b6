"""A real gateway that may be killed, frozen and started again, always at the same address."""

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
from tests.support.process import Serve, free_port

from chaos.history import Entry, Note, Printed, Process, load
from chaos.points import Armed, Met, arm, disarm, met_in

__all__ = ["GATEWAY", "Gateway", "custom_site"]

GATEWAY = "gateway"
_LOG, _WITNESS = "serve.log", "work.jsonl"


def custom_site(folder: Path, *modules: str) -> dict[str, str]:
    """The environment of a process that imports these modules of ours before it begins."""
    (folder / "sitecustomize.py").write_text("".join(f"import {each}\n" for each in modules))
    known = os.environ.get("PYTHONPATH")
    path = [str(folder), str(Path(__file__).parents[1]), *([known] if known else [])]
    return {"PYTHONPATH": os.pathsep.join(path)}


class Gateway:
    """``vivace serve``, its lives on record."""

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
    ) -> None:
        """``defect``: a fault that is put into its code."""
        self.folder = folder
        self._defect = defect
        self.patience = 20.0
        """Seconds in which it must come to the point where it is to die."""
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
            "environment": self._environment(),
        }
        self._server: Serve | None = None
        self._lives = 0

    def _environment(self) -> dict[str, str]:
        """With a ``llama-server`` on its path that plays the script."""
        program = self.folder / "bin" / "llama-server"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\nfrom chaos.llama_server import main\n\nmain()\n")
        program.chmod(0o755)
        modules = ["chaos.engine_witness", "chaos.point_hooks"]
        if self._defect is not None:
            modules.append("chaos.defect_hooks")
        return custom_site(self.folder, *modules) | {
            "CHAOS_DEFECT": self._defect or "",
            "CHAOS_WITNESS": str(self.folder / _WITNESS),
            "CHAOS_POINTS": str(self.folder),
            "PATH": os.pathsep.join([str(program.parent), os.environ["PATH"]]),
        }

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

    # -- its lives --------------------------------------------------------------------------------

    def launch(self) -> None:
        """Without waiting until it is ready, which it may never be."""
        self._lives += 1
        self._server = Serve(self.folder, **self._given)
        self._note(Process(time.monotonic(), GATEWAY, self.incarnation, True))

    async def start(self) -> None:
        """Returns when it is ready."""
        self.launch()
        await self.ready()

    async def ready(self) -> None:
        await asyncio.to_thread(self.server.__enter__)

    async def kill(self) -> None:
        """As ``kill -9``; its log is put aside, since the next one begins its own."""
        server, name = self.server, self.incarnation
        server.process.kill()
        await asyncio.to_thread(server.__exit__, None, None, None)
        self._note(Process(time.monotonic(), GATEWAY, name, False))
        log = self.folder / _LOG
        if log.exists():
            log.rename(self.folder / f"serve-{self._lives}.log")

    def freeze(self) -> None:
        self.server.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.server.process.send_signal(signal.SIGCONT)

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

    # -- its engines ------------------------------------------------------------------------------

    def working_engines(self) -> list[psutil.Process]:
        """Processes of engines that are writing an answer now."""
        pids = (int(path.name.partition("-")[2]) for path in self.folder.glob("working-*"))
        return [psutil.Process(pid) for pid in sorted(pids) if psutil.pid_exists(pid)]

    def testimony(self) -> list[Entry]:
        """What its engines said they did, and what it logged."""
        witness = self.folder / _WITNESS
        told: list[Entry] = load(witness) if witness.exists() else []
        logs = sorted(self.folder.glob("serve*.log"))
        return [*told, *(Printed(time.monotonic(), log.name, log.read_text()) for log in logs)]
