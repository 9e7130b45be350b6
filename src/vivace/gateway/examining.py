"""``vivace fleet check``: all that a configuration leads to, tried from this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from vivace import __version__
from vivace.config import Config, StoreConfig
from vivace.errors import ConfigError, StoreError
from vivace.fleet_config import FleetConfig
from vivace.gateway.parts import build_colleagues, build_limiter
from vivace.gateway.probing import Probed, probe
from vivace.gateway.shown import told_by
from vivace.link.frames import VERSIONS
from vivace.store.base import REMEMBERED_S, Colleague, GatewayTable

__all__ = ["Noticed", "examine"]

_CLOCKS_APART = 2.0
"""Seconds by which the database's clock may differ: only it decides who counts as gone, but dates,
and what is forgotten when, are by each gateway's own."""

State = Literal["ok", "wrong", "hint"]


class Noticed(Struct, frozen=True):
    check: str
    state: State
    found: str
    advice: str = ""


async def examine(
    config: Config, base: Path, environment: Mapping[str, str]
) -> AsyncIterator[Noticed]:
    """One after the other, as each is known."""
    async for each in _store(config.store, config.fleet):
        yield each
    yield await _valkey(config.fleet)
    async for each in _nodes(config, base, environment):
        yield each


# -- the store, and who shares it -----------------------------------------------------------------


async def _store(config: StoreConfig, fleet: FleetConfig) -> AsyncIterator[Noticed]:
    table = build_colleagues(config)
    if table is None:
        yield Noticed(
            "store",
            "hint",
            f"{config.place} is a file, which one gateway has for itself",
            "For several gateways set store.url to a PostgreSQL that all of them reach.",
        )
        return
    try:
        began = time.time()
        clock = await table.clock()
        apart = clock - (began + time.time()) / 2
        yield Noticed("store", "ok", f"{config.place} answers, and its tables are up to date")
        yield _clocks(apart)
        if logged_by := await table.logged_by():
            yield _logging(logged_by)
        for each in await _gateways(table, fleet):
            yield each
    except StoreError as error:
        yield Noticed("store", "wrong", f"{config.place}: {error}", _STORE_AWAY)
    finally:
        await table.close()


_STORE_AWAY = (
    "Until it answers no turn is kept, and none begins that is to be. Try the address from this "
    "machine: psql URL."
)


def _logging(settings: list[str]) -> Noticed:
    return Noticed(
        "database log",
        "wrong",
        f"PostgreSQL writes prompts and code to its log, by {' and '.join(settings)}",
        "They are the parameters of statements. Have a superuser type: "
        "ALTER ROLE ... SET log_parameter_max_length = 0, with the user of store.url; then restart "
        "the gateways.",
    )


def _clocks(apart: float) -> Noticed:
    if abs(apart) <= _CLOCKS_APART:
        return Noticed("clock", "ok", "this machine and the database agree about the time")
    ahead = "ahead of" if apart > 0 else "behind"
    return Noticed(
        "clock",
        "wrong",
        f"the database's clock is {abs(apart):.0f} s {ahead} this machine's",
        "Set both by NTP. Who counts as gone is decided by the database's clock alone; dates of "
        "turns, and when they are forgotten, go by both.",
    )


async def _gateways(table: GatewayTable, fleet: FleetConfig) -> Iterable[Noticed]:
    known = await table.all(REMEMBERED_S)
    living = [each for each in known if each.lives(fleet.dead_after_seconds)]
    names = {each.name for each in living}
    gone = [each for each in known if each not in living and each.name not in names]
    return [*_living(living), *map(_gone, gone)]


def _living(gateways: list[Colleague]) -> Iterator[Noticed]:
    if not gateways:
        yield Noticed("gateways", "hint", "none runs on this store now")
        return
    told = ", ".join(each.name or each.id for each in gateways)
    yield Noticed("gateways", "ok", f"heard of just now: {told}")
    for each in gateways:
        about, name = told_by(each.about), each.name or each.id
        if about.version not in ("", __version__):
            yield Noticed(
                "gateways",
                "hint",
                f"{name} runs Vivace {about.version}, and this is {__version__}",
                "Versions next to each other work together. Upgrade one gateway after the other.",
            )
        if each.drain is not None:
            yield Noticed(
                "gateways",
                "hint",
                f"{name} is {about.state}, and takes no turns",
                f"To have it take them again: vivace drain {name} --undo",
            )
    if len({each.name for each in gateways}) < len(gateways):
        yield Noticed(
            "gateways",
            "hint",
            "two of them have one name",
            "Give each a fleet.name of its own, so that vivace drain knows which you mean.",
        )


def _gone(gateway: Colleague) -> Noticed:
    name = gateway.name or gateway.id
    return Noticed(
        "gateways",
        "wrong",
        f"{name} counts as gone: it was last heard of {gateway.silent:.0f} s ago",
        "Others have taken its turns. Start it again and look at its log; if it runs, look at its "
        "way to the database. It is forgotten an hour after it was heard of.",
    )


# -- limits ---------------------------------------------------------------------------------------


async def _valkey(config: FleetConfig) -> Noticed:
    if config.valkey is None:
        return Noticed(
            "valkey",
            "hint",
            "none is set up: each gateway gives out its share of every limit",
            "For limits that all gateways count together: fleet.valkey. With one gateway nothing "
            "is missing.",
        )
    try:
        limiter = build_limiter(config, lambda: 1)
    except ConfigError as error:
        return Noticed("valkey", "wrong", str(error))
    try:
        await limiter.open()
        watching = asyncio.create_task(limiter.watch())
        for _ in range(40):
            if limiter.shared:
                break
            await asyncio.sleep(0.05)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        if limiter.shared:
            return Noticed("valkey", "ok", "answers in time: limits are counted together")
    finally:
        await limiter.close()
    return Noticed(
        "valkey",
        "wrong",
        "fleet.valkey does not answer in time",
        "Meanwhile each gateway gives out its share of every limit, and no turn waits for it. Look "
        "whether it runs, and at the address, user and password there.",
    )


# -- engine nodes ---------------------------------------------------------------------------------


async def _nodes(
    config: Config, base: Path, environment: Mapping[str, str]
) -> AsyncIterator[Noticed]:
    if not config.fleet.engines:
        yield Noticed("nodes", "ok", "fleet.engines names none: engines run in this gateway")
        return
    try:
        probed = await probe(config.fleet, base, environment)
    except ConfigError as error:
        yield Noticed("nodes", "wrong", str(error))
        return
    for each in probed:
        yield _node(each)
    for noticed in _together(config, probed):
        yield noticed


def _node(node: Probed) -> Noticed:
    if node.trouble is not None:
        return Noticed("nodes", "wrong", f"{node.url}: {node.trouble}", _advice(node.trouble))
    who = f"{node.name} at {node.url}"
    if node.link < max(VERSIONS):
        return Noticed(
            "nodes",
            "hint",
            f"{who} speaks version {node.link} of the link, and this is {max(VERSIONS)}",
            "It works, without what is new since. Upgrade it.",
        )
    if node.draining:
        advice = f"To have it take work again: vivace drain {node.name} --undo"
        return Noticed("nodes", "hint", f"{who} is drained, and takes no work", advice)
    return Noticed("nodes", "ok", f"{who} offers {', '.join(node.engines)}")


def _advice(trouble: str) -> str:
    """Beside what the words for it say already."""
    if "no address" in trouble:
        return "Look at the name in fleet.engines, and at the DNS of this machine."
    if "nothing listens" in trouble:
        return "Start it there: vivace engine; it listens at node.host and node.port."
    if "another key" in trouble:
        return "The variable that fleet.key_env names must be the same here and there."
    if "encrypted" in trouble:
        return (
            "fleet.ca must have the certificate of the authority that signed the node's, which "
            "must be for the name in fleet.engines."
        )
    if "versions" in trouble:
        return "Upgrade the older of both, one version at a time."
    if "in time" in trouble or "cannot be reached" in trouble:
        return "Look at the way there: routes, firewalls, and whether 'wss' is meant."
    return ""


def _together(config: Config, probed: list[Probed]) -> Iterator[Noticed]:
    names: dict[str, set[str]] = {}
    for node in probed:
        if node.trouble is None:
            names.setdefault(node.name, set()).add(node.incarnation)
    for name, incarnations in names.items():
        if len(incarnations) > 1:
            yield Noticed(
                "nodes",
                "wrong",
                f"{len(incarnations)} nodes call themselves {name!r}, and only one of them is used",
                "Give each a node.name of its own, or none: then its address is its name.",
            )
    own = {engine.name for engine in config.engines}
    offered = own | {engine for node in probed for engine in node.engines}
    for tier in config.tiers:
        if not offered & set(tier.engines):
            yield Noticed(
                "tiers",
                "wrong",
                f"no node that works offers an engine of tier {tier.name!r}",
                f"It names {', '.join(tier.engines)}; nodes call theirs so in [[engines]] name.",
            )
