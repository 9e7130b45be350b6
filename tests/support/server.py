"""A gateway on a real port, in a thread of the test's own process."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx
import msgspec

from tests.support.threaded import ThreadedServer
from tests.support.waiting import PATIENCE_S, eventually
from tests.support.wire_schema import wire_schema
from tests.support.witness import Witness
from vivace.config import Config
from vivace.engines.scripted import Reply, ScriptedEngine
from vivace.gateway.app import Gateway, uvicorn_config

MODEL = "local-model"
T = TypeVar("T")


def configuration(**changes: Any) -> Config:
    """A complete configuration with a scripted engine; tables given by name replace defaults."""
    engine = {"name": "scripted", "kind": "scripted", "model": MODEL, "rate": 2000}
    raw: dict[str, Any] = {
        "version": 1,
        "server": {"port": 0},
        "store": {"path": ":memory:"},
        "engines": [engine | changes.pop("engine", {})],
    }
    return msgspec.convert(raw | changes, Config)


class RunningGateway:
    """``with RunningGateway(...) as gateway``: listens at ``gateway.url`` until the block ends."""

    def __init__(
        self,
        replies: Sequence[Reply] = (),
        *,
        base: Path | None = None,
        config: Config | None = None,
        port: int = 0,
        loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        wire_schema()  # so that a missing schema skips the test, not the server's thread
        self._config = config or configuration()
        self.gateway = Gateway(self._config, base or Path.cwd())
        self.witness = Witness(self.gateway.app)
        for engine in self.gateway.catalogue.engines[:1]:  # without one, others join
            assert isinstance(engine, ScriptedEngine)
            self.engine = engine
            self.engine.play(replies)
        settings = uvicorn_config(self.gateway, self._config)
        settings.app = self.witness
        settings.port = port
        self._server = ThreadedServer(settings)
        self._new_loop = loop
        self._thread = threading.Thread(target=self._run_loop, daemon=True)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Something on the gateway's own loop, where its parts may be touched."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def go_on(self, behind: str = "") -> None:
        """Wait until the engine has come to a ``Stall``, and end it.

        Where an answer that was steered away may still be stalled, ``behind`` are the words before
        the stall that is meant.
        """

        eventually(lambda: self._end_stalls(behind))

    def go_on_until(self, holds: Callable[[], bool]) -> None:
        """End every ``Stall`` that the engine comes to, until ``holds()``.

        Of many requests at once with one key several begin, and all but one of them are stopped:
        that one may come to its stall behind another.
        """
        eventually(lambda: holds() or (self._end_stalls() and False))

    def _end_stalls(self, behind: str = "") -> bool:
        requests = list(self.engine._requests)
        stalled = [
            each for each in requests if each.stalled_until and "".join(each.texts).endswith(behind)
        ]
        for each in stalled:
            each.stalled_until = 0.0
        return bool(stalled)

    def _run_loop(self) -> None:
        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self.gateway.running():
            await self._server.serve()

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def http(self) -> httpx.Client:
        # Reading the certificates of the world, for nothing, would take 40 ms each time.
        # vivace: ignore[python-tls-not-checked] plain HTTP to this machine
        return httpx.Client(base_url=self.url.removesuffix("/v1"), timeout=PATIENCE_S, verify=False)

    def start(self) -> RunningGateway:
        self._thread.start()
        self._server.wait_until_it_listens(self._thread)
        return self

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), f"the gateway does not end:\n{self._stacks()}"

    def _stacks(self) -> str:
        """Where the tasks of the gateway's loop are."""
        told = io.StringIO()
        for task in asyncio.all_tasks(self._loop):
            task.print_stack(file=told)
        return told.getvalue()

    def __enter__(self) -> RunningGateway:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if error is None:
            assert self.witness.problems == []
