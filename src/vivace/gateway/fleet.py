"""The engine nodes of a gateway: found by their addresses, and kept in touch with.

A name with many addresses is looked up again and again, because nodes come and go behind it. A node
that cannot be reached keeps its engines here, which then take nothing, until its address is gone
from the name or the node comes back with others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from vivace.engines.node_logs import LogAlong, has_log, read_along
from vivace.engines.remote import Address, Node, RemoteEngine
from vivace.engines.taking_over import TakenLog, take_over
from vivace.errors import ConfigError
from vivace.fleet_config import FleetConfig, NodeAddress, check_fleet, fleet_key, node_address
from vivace.gateway.membership import Membership
from vivace.gateway.shown import EngineShown, NodeShown, NodeState
from vivace.scheduling.scheduler import Room
from vivace.supervisor import Supervisor

__all__ = ["Fleet", "addresses_of", "dial_address", "trust"]

log = logging.getLogger("vivace.fleet")

_LOOK_AT_DRAINED = 0.1
"""Seconds between two looks at nodes that are drained, for turns that can leave them by now."""
_LOOK_UP_AGAIN = 5.0
"""Seconds between two looks at a name's addresses."""
_MAX_ADDRESSES = 1000
"""Addresses of one name. A DNS answer with more is ignored: each address is dialled for ever."""
_KNOWN_WITHIN = 2.0
"""Seconds in which a gateway that was just started has looked at all names."""


class _Linked:
    """A node, and which of its engines were let in."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.engines: tuple[RemoteEngine, ...] = ()


class Fleet:
    def __init__(
        self,
        config: FleetConfig,
        base: Path,
        membership: Membership,
        supervisor: Supervisor,
        gateway: str,
        environment: Mapping[str, str] = os.environ,
        *,
        orphan_seconds: float = 0.0,
    ) -> None:
        """``gateway``: this run of this gateway, as nodes are told. ``orphan_seconds``: for how
        long they go on with its turns when it is gone, if another may take them."""
        check_fleet(config)  # whoever made the configuration, and however
        self._membership = membership
        self._supervisor = supervisor
        self._gateway = gateway
        self._addresses = [node_address(url) for url in config.engines]
        self._key = fleet_key(config, environment) if self._addresses else ""
        self._tls = trust(config, base) if any(each.secure for each in self._addresses) else None
        self._orphan_seconds = orphan_seconds
        self._linked: dict[Address, _Linked] = {}
        self._unknown = len(self._addresses)
        """How many addresses were not looked up yet."""
        self._known = asyncio.Event()

    def start(self) -> None:
        """Reach for the nodes, and keep in touch with them until the supervisor stops."""
        if self._addresses:
            self._supervisor.watch("drained nodes", self._clear)
        for each in self._addresses:
            if each.many:
                name = f"nodes behind {each.host}:{each.port}"
                self._supervisor.watch(name, partial(self._keep_looking, each))
            else:
                self._reach(self._address(each, each.host))
                self._is_known()

    def _is_known(self) -> None:
        self._unknown -= 1
        if self._unknown == 0:
            self._known.set()

    async def take(self, turn: str, epoch: int, attempt: int) -> TakenLog | None:
        """What a node has of a turn that this gateway has taken on record with this epoch."""
        if not self._addresses:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KNOWN_WITHIN):
                await self._known.wait()
        return await take_over(self.nodes, turn, epoch, attempt)

    async def has(self, turn: str, attempt: int) -> bool:
        """Whether a node has the log of this attempt, or of a later one."""
        return await has_log(self.nodes, turn, attempt)

    async def along(self, turn: str) -> LogAlong | None:
        """What a node says of a turn that another gateway holds, as far as that has told it."""
        return await read_along(self.nodes, turn)

    @property
    def nodes(self) -> list[Node]:
        """Those that were found, linked or not."""
        return [each.node for each in self._linked.values()]

    def shown(self) -> tuple[NodeShown, ...]:
        return tuple(_shown(node) for node in self.nodes)

    def drain(self, address: str, *, on: bool, seconds: float | None) -> None:
        """Of a node that is linked."""
        for node in self.nodes:
            if node.url == address:
                node.drain(on=on, seconds=seconds)

    def let_go(self, turns: frozenset[str]) -> None:
        """What nodes say of these is heard by another gateway soon."""
        for node in self.nodes:
            node.let_go = turns

    async def _clear(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_AT_DRAINED)
            for linked in self._linked.values():
                if linked.node.stage and linked.node.linked.is_set():
                    for engine in linked.engines:
                        self._membership.clear(engine, begun=linked.node.stage == 2)

    def _address(self, node: NodeAddress, host: str) -> Address:
        return dial_address(node, host, self._key, self._tls)

    async def _keep_looking(self, name: NodeAddress) -> None:
        """All addresses of a name, as they come and go."""
        ours: set[Address] = set()
        new = True
        while True:
            found = {self._address(name, host) for host in _bounded(name, await addresses_of(name))}
            # An answer without any address is more often a fault of who answers than the truth.
            found = found or ours
            for address in found - ours:
                self._reach(address)
            if new:
                new = False
                self._is_known()
            ours = found | {each for each in ours - found if not self._leave_alone(each)}
            await asyncio.sleep(_LOOK_UP_AGAIN)

    def _reach(self, address: Address) -> None:
        if address not in self._linked:
            changed, patience = partial(self._changed, address), self._orphan_seconds
            node = Node(address, self._gateway, changed, patience=patience)
            self._supervisor.watch(_task_name(address), node.run)
            self._linked[address] = _Linked(node)

    def _leave_alone(self, address: Address) -> bool:
        """Its address is not in the name any more. While it can be reached all the same, it is
        drained rather than gone: what it has, it finishes. Whether it is gone."""
        linked = self._linked[address]
        if linked.node.linked.is_set():
            return False
        del self._linked[address]
        linked.node.close()
        self._supervisor.end(_task_name(address))
        self._let_in(linked, ())
        return True

    def _changed(self, address: Address, node: Node) -> None:
        self._let_in(self._linked[address], node.engines)

    def _let_in(self, linked: _Linked, engines: tuple[RemoteEngine, ...]) -> None:
        for engine in linked.engines:
            if engine not in engines:
                self._membership.leave(engine)
        members = [each for each in linked.engines if each in engines]
        for engine in engines:
            if engine not in members and self._join(engine):
                members.append(engine)
        linked.engines = tuple(members)

    def _join(self, engine: RemoteEngine) -> bool:
        offer = engine.offer
        try:
            self._check_name(engine)
            room = Room(offer.slots, offer.reserved, queues=True)
            self._membership.join(engine, room, offer.silence)
        except ConfigError as error:
            log.error("%s is not used: %s", engine.name, str(error))  # no client's words
            return False
        return True

    def _check_name(self, engine: RemoteEngine) -> None:
        """Nodes that share a settings file may share a name; one would take the other's place."""
        for other in self._linked.values():
            if other.node.linked.is_set() and any(
                each.name == engine.name for each in other.engines
            ):
                raise ConfigError(
                    f"two engine nodes call themselves {other.node.name!r}. Give each a node.name "
                    "of its own, or none: then its address is its name."
                )


def dial_address(node: NodeAddress, host: str, key: str, tls: ssl.SSLContext | None) -> Address:
    """``host``: one of those behind its name."""
    place = f"[{host}]" if ":" in host else host
    scheme = "wss" if node.secure else "ws"
    return Address(f"{scheme}://{place}:{node.port}", key, tls if node.secure else None, node.host)


def trust(config: FleetConfig, base: Path) -> ssl.SSLContext:
    """By which certificates nodes are believed."""
    try:
        return ssl.create_default_context(cafile=base / config.ca if config.ca else None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"fleet.ca cannot be used: {error}.") from error


def _task_name(address: Address) -> str:
    return f"link to {address.url}"


def _bounded(name: NodeAddress, hosts: set[str]) -> Sequence[str]:
    if len(hosts) > _MAX_ADDRESSES:
        log.error("%s has %d addresses; %d are used", name.host, len(hosts), _MAX_ADDRESSES)
    return sorted(hosts)[:_MAX_ADDRESSES]


async def addresses_of(name: NodeAddress) -> set[str]:
    """None if there are none now, for whatever reason."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(name.host, name.port, type=socket.SOCK_STREAM)
    except OSError as error:
        log.warning("%s has no address now: %s", name.host, error.strerror)
        return set()
    return {str(address[0]) for *_, address in found}


def _shown(node: Node) -> NodeShown:
    linked = node.linked.is_set()
    engines = tuple(
        EngineShown(
            name=engine.name,
            takes_work=engine.healthy(),
            running=node.running(engine.offer.name),
            waiting=node.waiting(engine.offer.name),
            slots=engine.offer.slots,
        )
        for engine in node.engines
    )
    state: NodeState = "ready"
    if not linked:
        state = "away"
    elif node.stage:
        busy = any(each.running or each.waiting for each in engines)
        state = ("draining" if node.stage == 1 else "moving") if busy else "drained"
    heard = node.heard_at
    return NodeShown(
        name=node.name or node.url,
        address=node.url,
        state=state,
        trouble=None if linked else node.trouble or "the link is broken",
        link=node.version,
        last_heard_seconds=None if heard is None else round(time.monotonic() - heard, 1),
        engines=engines,
    )
