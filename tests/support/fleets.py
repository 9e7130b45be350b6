"""Engine nodes, gateways that share them, and their PostgreSQL's turns, in threads of one process.

Each can be frozen, and come back. Nothing counts as gone because the machine was busy: links and
leases last for a minute, and a test says what is gone (``bury``, ``cut_off``, ``kill``). Engines
stop in the middle of an answer until a test lets them ``go``.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from unittest import mock

import asyncpg

from tests.support.server import RunningGateway, configuration
from tests.support.waiting import PATIENCE_S, eventually
from vivace.config import check
from vivace.engines.base import Card
from vivace.engines.link_socket import LinkSocket
from vivace.engines.scripted import Capacity, Reply, ScriptedEngine
from vivace.engines.scripted import _Request as ScriptedRequest
from vivace.node.app import EngineNode

__all__ = ["Fleet", "Frozen", "RunningNode", "patient_links"]

KEY = "the key of this test's fleet"
SLOW = {"heartbeat_seconds": 0.25, "dead_after_seconds": 600}
"""No gateway counts as gone because the machine was busy: a test says which does (``bury``)."""
HELD_AT = 20
"""Words of each answer after which an engine of a ``Fleet`` stops until it is let go."""
T = TypeVar("T")


class Frozen:
    """An event loop that does nothing, as that of a process that was stopped."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, between: asyncio.Lock | None = None
    ) -> None:
        """It stops when it can have the lock ``between``: what that guards is not half done."""
        self._thawed, stands = threading.Event(), threading.Event()

        async def stand() -> None:
            async with between or contextlib.nullcontext():
                stands.set()
                self._thawed.wait()

        asyncio.run_coroutine_threadsafe(stand(), loop)
        assert stands.wait(PATIENCE_S)

    def thaw(self) -> None:
        self._thawed.set()


def patient_links() -> Any:
    """Have links count as silent after a minute: in the block that this returns a patch for."""
    given = LinkSocket.__init__.__defaults__
    assert given is not None
    assert len(given) == 1
    return mock.patch.object(LinkSocket.__init__, "__defaults__", (PATIENCE_S,))


class _HeldEngine(ScriptedEngine):
    """Stops each answer after ``held_at`` of its tokens, while that is not None."""

    held_at: int | None = None

    def _advance(self, request: ScriptedRequest, now: float, *, joins: bool) -> None:
        if self.held_at is None or request._said < self.held_at:
            super()._advance(request, now, joins=joins)


class RunningNode:
    """``with RunningNode("a", replies) as node``: an engine node with one scripted engine."""

    def __init__(
        self,
        name: str,
        replies: Sequence[Reply],
        *,
        rate: float,
        slots: int,
        held_at: int | None = None,
        port: int = 0,
    ) -> None:
        """A ``port`` is for one that takes the place of another."""
        engine = {"name": "coder", "kind": "scripted", "model": "coder", "slots": slots}
        engine |= {"silence_seconds": 10 * PATIENCE_S}
        raw = {"version": 1, "engines": [engine], "node": {"name": name, "port": port}}
        self.name = name
        self.engine = _HeldEngine("coder", [Card("coder", 100_000)], capacity=Capacity(rate=rate))
        self.engine.held_at = held_at
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
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def running(self) -> int:
        """How many answers its engine works on."""
        return self.node._works.running

    def go(self, held_at: int | None = None) -> None:
        """Have its engine go on with all answers, up to ``held_at`` words of each if given."""
        self.engine.held_at = held_at

    def kill(self) -> None:
        """Its links break at once, nothing listens there any more, and what it knew is gone."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._cut)
            self._thread.join(PATIENCE_S)

    def _cut(self) -> None:
        for each in self.node._sockets.values():
            each._connection.transport.abort()
        self._ends.set()

    def __enter__(self) -> RunningNode:
        self._thread.start()
        assert self._listens.wait(PATIENCE_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


def _miss(gateway: RunningGateway, url: str) -> None:
    """What a link does when nothing came for too long."""
    for each in gateway.gateway.fleet.nodes:
        if each.url == url and each._socket is not None:
            each._socket.silent = True
            each._socket._connection.transport.abort()


class Fleet:
    """Nodes first, then gateways that all use them."""

    def __init__(self, stack: ExitStack, url: str, replies: Sequence[Reply]) -> None:
        self._stack = stack
        self._url = url
        self._replies = replies
        self.nodes: list[RunningNode] = []
        self._gateways: list[RunningGateway] = []
        stack.enter_context(patient_links())

    def node(self, slots: int = 16, *, name: str | None = None, port: int = 0) -> RunningNode:
        return self._started(name or "abc"[len(self.nodes)], slots, port=port)

    def restart(self, node: RunningNode) -> RunningNode:
        """In its place, with nothing of what it knew."""
        node.kill()
        self.nodes.remove(node)
        return self._started(node.name, 16, port=node.port)

    def _started(self, name: str, slots: int, **more: Any) -> RunningNode:
        node = RunningNode(name, self._replies, rate=1000, slots=slots, held_at=HELD_AT, **more)
        self.nodes.append(self._stack.enter_context(node))
        return node

    def at_work(self) -> RunningNode:
        """The node whose engine works on an answer."""
        return next(each for each in self.nodes if each.running)

    def go(self, held_at: int | None = None) -> None:
        """Have all engines go on, up to ``held_at`` words of each answer if given."""
        for node in self.nodes:
            node.go(held_at)

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
        gateway = self._stack.enter_context(RunningGateway(self._replies, config=config))
        self._gateways.append(gateway)
        with gateway.http as http:
            eventually(lambda: http.get("/readyz").text.startswith("ready"))
        return gateway

    def freeze(self, stopped: RunningGateway | RunningNode) -> Frozen:
        """It does nothing more, until the test ends at the latest."""
        if isinstance(stopped, RunningGateway):
            # No heartbeat is on its way: it would call back to life what is buried next.
            frozen = Frozen(stopped._loop, stopped.gateway.keeper.presence._beating)
        else:
            frozen = Frozen(stopped.loop)
        self._stack.callback(frozen.thaw)
        return frozen

    def cut_off(self, gateway: RunningGateway) -> None:
        """Break the links of a frozen gateway: nodes count it as gone."""
        for each in gateway.gateway.fleet.nodes:
            assert each._socket is not None
            plug = each._socket._connection.transport.get_extra_info("socket")
            plug.shutdown(socket.SHUT_RDWR)

    def stop(self, node: RunningNode) -> None:
        """Freeze it, and have gateways find that it is silent."""
        self.freeze(node)
        self.miss(node)

    def miss(self, node: RunningNode) -> None:
        """Have gateways do what they do when nothing came from it for too long."""
        for gateway in self._gateways:
            gateway._loop.call_soon_threadsafe(_miss, gateway, node.url)

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
