"""Whether engine nodes can be reached as a gateway reaches them, and who they are."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from vivace.engines.remote import Address, Node
from vivace.fleet_config import FleetConfig, NodeAddress, fleet_key, node_address
from vivace.gateway.fleet import addresses_of, dial_address, trust

__all__ = ["Probed", "probe"]

_PATIENCE = 5.0
"""Seconds in which a node that is there has answered."""
_LOOK = 0.02


class Probed(Struct, frozen=True, kw_only=True):
    """What became of one try."""

    url: str
    trouble: str | None
    name: str = ""
    incarnation: str = ""
    link: int = 0
    draining: bool = False
    engines: tuple[str, ...] = ()


async def probe(config: FleetConfig, base: Path, environment: Mapping[str, str]) -> list[Probed]:
    """All nodes that are behind the addresses. Raises ``ConfigError`` if the key is missing, or the
    certificates cannot be read."""
    key = fleet_key(config, environment)
    tls = trust(config, base)
    quiet = logging.getLogger("vivace.link")
    before, quiet.disabled = quiet.disabled, True  # what is wrong is told by who asks
    try:
        found = await asyncio.gather(
            *(_behind(node_address(url), key, tls) for url in config.engines)
        )
    finally:
        quiet.disabled = before
    return [each for several in found for each in several]


async def _behind(node: NodeAddress, key: str, tls: ssl.SSLContext) -> list[Probed]:
    url = f"{'wss' if node.secure else 'ws'}://{node.host}:{node.port}"
    hosts = sorted(await addresses_of(node))
    if not hosts:
        return [Probed(url=url, trouble=f"the name {node.host} has no address")]
    if not node.many:
        hosts = [node.host]
    dialled = [dial_address(node, host, key, tls) for host in hosts]
    return list(await asyncio.gather(*map(_try, dialled)))


async def _try(address: Address) -> Probed:
    node = Node(address, "vivace fleet check")
    dialling = asyncio.create_task(node.run())
    untried = node.trouble
    try:
        for _ in range(round(_PATIENCE / _LOOK)):
            if node.linked.is_set() or node.trouble != untried:
                break
            await asyncio.sleep(_LOOK)
        if node.trouble == untried:
            return Probed(url=node.url, trouble="nobody answered in time")
        return Probed(
            url=node.url,
            trouble=node.trouble,
            name=node.name,
            incarnation=node.incarnation,
            link=node.version,
            draining=bool(node.stage),
            engines=tuple(engine.offer.name for engine in node.engines),
        )
    finally:
        node.close()
        dialling.cancel()
        await asyncio.gather(dialling, return_exceptions=True)
