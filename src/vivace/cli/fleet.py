"""``vivace fleet``: gateways, engine nodes and what they share."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from msgspec.structs import astuple

from vivace.cli import options
from vivace.cli.reporting import Finding, report
from vivace.client import fleet as client
from vivace.client.errors import ClientError
from vivace.client.fleet import FleetSeen, beside
from vivace.client.get import Unanswered, get
from vivace.config import load
from vivace.errors import ConfigError

__all__ = ["fleet"]


@click.group()
def fleet() -> None:
    """Look after several gateways and their engine nodes."""


@fleet.command()
@options.config
@options.url
@options.key
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON, for programs.")
def check(path: Path, url: str, key: str | None, as_json: bool) -> None:
    """Try all that a gateway's configuration leads to, and say what to do where something is wrong.

    To be typed on the machine of a gateway, with its environment: the database, its clock and
    gateways, Valkey, every engine node, and the gateway at --url, if one runs there. The exit code
    is 0 only if nothing is wrong; hints do not count.
    """
    with _quietly():
        found = _examined(path, path.resolve().parent, url, key)
        well = asyncio.run(report(found, as_json=as_json))
    sys.exit(0 if well else 1)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without a word in the log: what is wrong is told as a finding."""
    log = logging.getLogger("vivace")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


async def _examined(path: Path, base: Path, url: str, key: str | None) -> AsyncIterator[Finding]:
    try:
        config = load(path)
    except ConfigError as error:
        yield Finding("config", "wrong", str(error))
        return
    yield Finding("config", "ok", f"{path} can be used")
    from vivace.gateway.app import examine  # not for a Tab key or --help

    async for noticed in examine(config, base, os.environ):
        yield Finding(*astuple(noticed))
    async for finding in _running(url, key):
        yield finding


async def _running(url: str, key: str | None) -> AsyncIterator[Finding]:
    """What the gateway says of itself that answers there."""
    try:
        ready = await get(beside(url, "/readyz"))
    except (Unanswered, ClientError):
        yield Finding("server", "hint", f"no gateway answers at {url}", "Name one with --url.")
        return
    if ready.status != 200:
        yield Finding(
            "server",
            "wrong",
            f"the gateway at {url} takes no requests: {ready.text.strip()}",
            "Its log has more.",
        )
    else:
        yield Finding("server", "ok", f"the gateway at {url} is {ready.text.strip()}")
    try:
        seen = await client.fleet(url, key)
    except ClientError as error:
        yield Finding("server", "hint", f"it cannot be asked for its nodes: {error}")
        return
    for finding in _seen(seen):
        yield finding


def _seen(seen: FleetSeen) -> list[Finding]:
    away = [node for node in seen.nodes if node.state == "away"]
    return [
        Finding(
            "server",
            "wrong",
            f"it does not reach engine node {node.name}: {node.trouble}",
            "If it is reached from here, look at the gateway's own configuration and environment.",
        )
        for node in away
    ]
