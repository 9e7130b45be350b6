"""Engine nodes, gateways that share them, and their PostgreSQL's turns, in threads of one process:
each can be frozen, and come back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import asyncpg

from tests.support.server import RunningGateway, configuration
from tests.support.waiting import eventually
from vivace.config import check
from vivace.engines.base import Card
from vivace.engines.scripted import Capacity, Reply, ScriptedEngine
from vivace.node.app import EngineNode

__all__ = ["Fleet", "Frozen", "RunningNode"]

KEY = "the key of this test's fleet"
SLOW = {"heartbeat_seconds": 1, "dead_after_seconds": 60}
"""No gateway counts as gone because the machine was busy: a test says which does (``bury``)."""
T = TypeVar("T")


class Frozen:
    """An event loop that does nothing, as that of a process that was stopped."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._thawed, stands = threading.Event(), threading.Event()

        def stand() -> None:
            stands.set()
            self._thawed.wait()

        loop.call_soon_threadsafe(stand)
        stands.wait(10)

    def thaw(self) -> None:
        self._thawed.set()


class RunningNode:
    """``with RunningNode("a", replies) as node``: an engine node with one scripted engine."""

    def __init__(self, name: str, replies: Sequence[Reply], *, rate: float, slots: int) -> None:
        engine = {"name": "coder", "kind": "scripted", "model": "coder", "slots": slots}
        raw = {"version": 1, "engines": [engine], "node": {"name": name, "port": 0}}
        self.name = name
        self.engine = ScriptedEngine(
            "coder", [Card("coder", 100_000)], capacity=Capacity(rate=rate)
        )
        self.engine.play(replies)
        self.node = EngineNode(
            check(raw, Path("node.toml")),
            Path(),
            {"VIVACE_FLEET_KEY": KEY},
            build=lambda *_: self.engine,
        )
        self.port = 0
        self._listens, self._ends = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        async with self.node.listening() as (_, self.port):
            self._listens.set()
            await self._ends.wait()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(10)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """Its links break at once, nothing listens there any more, and what it knew is gone."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._cut)
            self._thread.join(10)

    def _cut(self) -> None:
        for socket in self.node._sockets.values():
            socket._connection.transport.abort()
        self._ends.set()

    def __enter__(self) -> RunningNode:
        self._thread.start()
        assert self._listens.wait(20)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


class Fleet:
    """Nodes first, then gateways that all use them."""

    def __init__(self, stack: ExitStack, url: str, replies: Sequence[Reply]) -> None:
        self._stack = stack
        self._url = url
        self._replies = replies
        self.nodes: list[RunningNode] = []

    def node(self, rate: float = 50, slots: int = 16) -> RunningNode:
        name = "abc"[len(self.nodes)]
        node = RunningNode(name, self._replies, rate=rate, slots=slots)
        self.nodes.append(self._stack.enter_context(node))
        return node

    def gateway(self, **tables: Any) -> RunningGateway:
        fleet = SLOW | {"engines": [each.url for each in self.nodes]} | tables.pop("fleet", {})
        config = configuration(
            **{
                "engines": [],
                "tiers": [{"name": "fast", "engines": ["coder"]}],
                "store": {"url": self._url},
                "fleet": fleet,
            }
            | tables
        )
        gateway = self._stack.enter_context(RunningGateway(config=config))
        eventually(lambda: gateway.http.get("/readyz").text.startswith("ready"), 60)
        return gateway

    def freeze(self, gateway: RunningGateway) -> Frozen:
        """It does nothing more, until the test ends at the latest."""
        return self._freeze(gateway._loop)

    def stop(self, node: RunningNode) -> Frozen:
        """The same."""
        return self._freeze(node.loop)

    def _freeze(self, loop: asyncio.AbstractEventLoop) -> Frozen:
        frozen = Frozen(loop)
        self._stack.callback(frozen.thaw)
        return frozen

    def bury(self, gateway: RunningGateway) -> None:
        """For the others it counts as gone: it was not heard of for long."""
        aged = "UPDATE gateways SET seen = seen - interval '1 hour' WHERE id = $1 RETURNING id"
        assert self._value(aged, gateway.gateway.keeper.holder) is not None

    def give_away(self, response_id: str) -> None:
        """As if another gateway had taken it, which its own does not know yet."""
        taken = "UPDATE turns SET epoch = epoch + 1, holder = 'another' WHERE id = $1 RETURNING id"
        assert self._value(taken, response_id) is not None

    def status(self, response_id: str) -> str | None:
        """As it is on record; no gateway is asked, which would take it."""
        found: str | None = self._value("SELECT status FROM turns WHERE id = $1", response_id)
        return found

    def _value(self, sql: str, *given: str) -> Any:
        async def ask() -> Any:
            connection = await asyncpg.connect(self._url)
            try:
                return await connection.fetchval(sql, *given)
            finally:
                await connection.close()

        return asyncio.run(ask())
