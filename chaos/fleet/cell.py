"""A whole fleet on one machine, with a way of ours between every two, and who has which turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import asyncpg
import httpx
from msgspec import Struct
from tests.support.nodes import KEYED
from tests.support.proxy import Proxy

from chaos.fleet.clocks import Clock
from chaos.fleet.services import Balancer, Services
from chaos.fleet.times import Times
from chaos.history import Entry, Note, Printed, Table, Worked
from chaos.processes import Gateway, Node, Server
from chaos.rounds import calm
from chaos.sessions import MODEL, NARROW, SCRIPT
from chaos.tables import dump_postgres

__all__ = ["LIMITS", "OWNERS", "At", "Cell"]

OWNERS = ("alice", "bob")
LIMITS = {NARROW: 2}
_ENGINE = "scripted"
_SLOTS = 24
_GATEWAYS, _NODES = ("gateway-1", "gateway-2"), ("node-a", "node-b")
_HEARD = 0.2
"""Seconds after which whoever asked has seen an answer begin."""
_OPEN = "SELECT id, holder, epoch, background FROM turns WHERE status IS NULL"


class At(Struct, frozen=True):
    """An open turn, and who has it."""

    id: str
    gateway: str
    """Empty if that is gone."""
    node: str
    """Whose engine works on it, and has for long enough that its client heard of it; empty if none
    does."""
    attempt: int
    epoch: int
    background: bool


class Cell:
    """``async with Cell(folder, note, services, times) as cell``: all of it serves in the block."""

    def __init__(
        self,
        folder: Path,
        note: Note,
        services: Services,
        times: Times,
        *,
        engines: bool = False,
        clocks: bool = False,
        defect: str | None = None,
        script: str = SCRIPT,
    ) -> None:
        """``engines``: those of nodes are processes of their own. ``clocks``: those of gateways
        can be set. ``defect``: a fault that is put into the code of all. ``script``: what engines
        play."""
        self.note = note
        self.services = services
        self.times = times
        self.ways: dict[tuple[str, str], Proxy] = {}
        """From each gateway to whatever it asks."""
        self.gateways: list[Gateway] = []
        self.nodes: list[Node] = []
        self.clocks: dict[str, Clock] = {}
        self._folder = folder
        self._engines = engines
        self._clocks = clocks
        self._defect = defect
        self._script = script
        self._stack = AsyncExitStack()
        self._overheard: list[str] = []
        self._balancer: Balancer | None = None

    async def __aenter__(self) -> Cell:
        try:
            await self._build()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def _build(self) -> None:
        await asyncio.to_thread(self.services.fresh)
        self._overheard = await self._stack.enter_async_context(self.services.overheard())
        self._stack.push_async_callback(self._end)
        for name in _NODES:
            self.nodes.append(self._node(name))
            self.nodes[-1].launch()
        for name in _GATEWAYS:
            await self._make_ways(name)
            self.gateways.append(self._gateway(name))
            self.gateways[-1].launch()
        ports = {each.name: each.port for each in self.gateways}
        self._balancer = Balancer(self._folder, ports)
        self._stack.callback(self._balancer.stop)
        await asyncio.gather(*(each.ready() for each in (*self.nodes, *self.gateways)))
        await self.serves()

    async def _end(self) -> None:
        for server in (*self.gateways, *self.nodes):
            if server.runs:
                server.thaw()
                await server.kill()

    async def _make_ways(self, gateway: str) -> None:
        pair, valkey = self.services.pair, self.services.valkey
        ports = {"primary": pair.first.port, "standby": pair.second.port, "valkey": valkey.port}
        ports |= {node.name: node.port for node in self.nodes}
        for name, port in ports.items():
            proxy = Proxy(port, reads=name in ("primary", "standby"))
            self.ways[gateway, name] = await self._stack.enter_async_context(proxy)

    # -- what it is told --------------------------------------------------------------------------

    def _node(self, name: str) -> Node:
        folder = self._place(name)
        engine: dict[str, Any] = {
            "name": _ENGINE,
            "slots": _SLOTS,
            "silence_seconds": self.times.silence,
        }
        if self._engines:
            engine |= {"kind": "llamacpp", "model": "marks", "path": "none.gguf"}
        return Node(
            folder,
            self.note,
            name,
            self._script,
            rate=self.times.rate,
            engine=engine,
            defect=self._defect,
        )

    def _gateway(self, name: str) -> Gateway:
        folder = self._place(name)
        environment = KEYED | self._slow
        if self._clocks:
            clock = self.clocks[name] = Clock(folder / "clock")
            environment |= clock.environment
        return Gateway(
            folder,
            self.note,
            "",
            owners=OWNERS,
            rate=self.times.rate,
            engine={},
            tables=self._configured(name),
            defect=self._defect,
            name=name,
            environment=environment,
        )

    @property
    def _slow(self) -> dict[str, str]:
        return {"CHAOS_SLOWER": str(self.times.slower)}

    def _place(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir()
        return folder

    def _configured(self, gateway: str) -> dict[str, Any]:
        port = {to: way.port for (whose, to), way in self.ways.items() if whose == gateway}
        first, second = (f"127.0.0.1:{port[each]}" for each in ("primary", "standby"))
        database = self.services.pair.first.database_name
        url = f"postgresql://vivace@{first},{second}/{database}?target_session_attrs=read-write"
        times, narrow = self.times, {"requests_per_minute": LIMITS[NARROW]}
        return {
            "engines": [],
            "tiers": [
                {"name": MODEL, "engines": [_ENGINE], "limits": {"concurrency": 64}},
                {"name": NARROW, "engines": [_ENGINE], "limits": narrow},
            ],
            "store": {"url": url, "resume_seconds": times.resume},
            "limits": {"orphan_seconds": times.orphan, "drain_seconds": times.drain},
            "fleet": {
                "engines": [f"ws://127.0.0.1:{port[name]}" for name in _NODES],
                "valkey": f"redis://127.0.0.1:{port['valkey']}/0",
                "allow_remote": True,
                "heartbeat_seconds": times.heartbeat,
                "dead_after_seconds": times.dead_after,
            },
        }

    # -- doors ------------------------------------------------------------------------------------

    @property
    def doors(self) -> Mapping[str, str]:
        assert self._balancer is not None
        return {"haproxy": self._balancer.url} | self.gateway_urls

    @property
    def gateway_urls(self) -> dict[str, str]:
        return {each.name: each.url for each in self.gateways}

    async def serves(self, seconds: float = 60) -> None:
        """Returns when every gateway, and the balancer, has engines and store again; raises
        ``TimeoutError``."""
        async with asyncio.timeout(seconds), httpx.AsyncClient(timeout=2) as http:
            for url in self.doors.values():
                while not await _is_ready(http, url):
                    await asyncio.sleep(0.05)

    # -- who has which turn -----------------------------------------------------------------------

    async def open_turns(self) -> list[At]:
        """Those that are kept."""
        holders = {each.holder: each.name for each in self.gateways if each.runs}
        working = self._working()
        connection = await asyncpg.connect(self.services.pair.url, timeout=5)
        try:
            rows = await connection.fetch(_OPEN)
        finally:
            await connection.close()
        return [
            At(
                row["id"],
                holders.get(row["holder"], ""),
                *working.get(row["id"], ("", 0)),
                row["epoch"],
                row["background"],
            )
            for row in rows
        ]

    def _working(self) -> dict[str, tuple[str, int]]:
        """Which node works on each turn, and on which attempt."""
        working: dict[str, tuple[str, int]] = {}
        for node in self.nodes:
            if node.runs:
                by = time.monotonic() - _HEARD * self.times.slower
                for response, attempt in _under_way(node.witnessed(), node.incarnation, by):
                    working[response] = node.name, attempt
        return working

    # -- the end ----------------------------------------------------------------------------------

    async def tables(self) -> list[Table]:
        return await dump_postgres(self.services.pair.url)

    async def figures(self, headers: Mapping[str, str]) -> dict[str, float]:
        """What gateways count as under way, once nothing should be."""
        found = await asyncio.gather(*(calm(each.url, headers) for each in self.gateways))
        return {
            f"{gateway.name} {name}": value
            for gateway, figures in zip(self.gateways, found, strict=True)
            for name, value in figures.items()
        }

    @property
    def living(self) -> tuple[str, ...]:
        return tuple(each.holder for each in self.gateways if each.runs)

    def testimony(self) -> Iterable[Entry]:
        servers: list[Server] = [*self.gateways, *self.nodes]
        for server in servers:
            yield from server.testimony()
        yield Printed(time.monotonic(), "valkey", "".join(self._overheard))


async def _is_ready(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(f"{url}/readyz")).status_code == 200
    except httpx.TransportError:
        return False


def _under_way(told: Iterable[Entry], incarnation: str, by: float) -> Iterable[tuple[str, int]]:
    """What this one has begun by then, and works on still."""
    working: dict[str, int] = {}
    for entry in told:
        if isinstance(entry, Worked) and entry.incarnation == incarnation:
            if entry.what == "began" and entry.at < by:
                working[entry.response] = entry.attempt
            elif working.get(entry.response) == entry.attempt:
                del working[entry.response]
    return working.items()
