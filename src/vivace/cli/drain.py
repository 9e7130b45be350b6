"""``vivace drain``: a gateway or an engine node is to have no more work."""

from __future__ import annotations

import asyncio

import click

from vivace.cli import options
from vivace.cli.output import say
from vivace.cli.top_fleet import ago
from vivace.client import fleet as client
from vivace.client.errors import ClientError
from vivace.client.fleet import FleetSeen, GatewaySeen, NodeSeen

__all__ = ["drain"]

_LOOK = 0.5


@click.command()
@click.argument("name", required=False)
@click.option("--undo", is_flag=True, help="Have it take work again. A restart does so, too.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, max=86_400),
    help="How long what runs may stay before it is moved; as limits.drain_seconds if not given.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait until nothing is left there.")
@options.url
@options.key
def drain(
    name: str | None, undo: bool, seconds: float | None, no_wait: bool, url: str, key: str | None
) -> None:
    """Have a gateway or an engine node take no more work, and wait until it has none.

    NAME is what vivace top calls it; without one, all are listed. --url may be that of any gateway.
    What runs may end there; after some seconds a node's turns go on at another node, and a
    gateway's turns at another gateway. It takes an admin key: vivace keys create NAME --admin.
    """
    asyncio.run(_list(url, key) if name is None else _drain(name, undo, seconds, no_wait, url, key))


async def _list(url: str, key: str | None) -> None:
    seen = await client.fleet(url, key)
    for gateway in seen.gateways:
        heard = ago(gateway.last_heard_seconds)
        say(f"gateway  {gateway.name}  {gateway.state}  {gateway.id}  heard of {heard}")
    for node in seen.nodes:
        say(f"node     {node.name}  {node.state}  {node.address}")


async def _drain(
    name: str, undo: bool, seconds: float | None, no_wait: bool, url: str, key: str | None
) -> None:
    await client.drain(url, key, name, seconds=seconds, undo=undo)
    if undo:
        say(f"{name} takes work again.")
        return
    if no_wait:
        say(f"{name} takes no new work.")
        return
    told = ""
    while True:
        found = _find(await client.fleet(url, key), name)
        if found.state == "drained":
            say(f"{name} is drained: nothing is left there. You can stop it now.")
            return
        if found.state in ("gone", "away"):
            raise ClientError(f"{name} is {found.state} before it was drained; look at its log.")
        words = _words(found)
        if words != told:
            say(f"{name}: {words}", err=True)
            told = words
        await asyncio.sleep(_LOOK)


def _find(seen: FleetSeen, name: str) -> GatewaySeen | NodeSeen:
    everyone: tuple[GatewaySeen | NodeSeen, ...] = (*seen.nodes, *seen.gateways)
    found = [each for each in everyone if name in _names(each)]
    living = [each for each in found if each.state != "gone"] or found
    if not living:
        raise ClientError(f"{name} is not there any more; look at its log.")
    return living[0]


def _names(each: GatewaySeen | NodeSeen) -> tuple[str, ...]:
    return (each.name, each.id if isinstance(each, GatewaySeen) else each.address)


def _words(each: GatewaySeen | NodeSeen) -> str:
    told = f"{each.state}, {each.running} running"
    if isinstance(each, NodeSeen):
        return f"{told}, {each.waiting} waiting"
    if each.passing:
        told += f", {each.passing} of them with store: false, which end there"
    return told
