"""Gateways and engine nodes, as a gateway knows them, and the request to drain one."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from vivace.client.endpoint import refusal
from vivace.client.errors import ClientError, no_server
from vivace.client.get import Answer, Unanswered, get, post

__all__ = ["EngineSeen", "FleetSeen", "GatewaySeen", "NodeSeen", "beside", "drain", "fleet"]


class EngineSeen(Struct, frozen=True):
    name: str = ""
    takes_work: bool = False
    running: int = 0
    waiting: int = 0
    slots: int = 0


class NodeSeen(Struct, frozen=True):
    name: str = ""
    address: str = ""
    state: str = ""
    trouble: str | None = None
    link: int = 0
    last_heard_seconds: float | None = None
    engines: tuple[EngineSeen, ...] = ()

    @property
    def running(self) -> int:
        return sum(each.running for each in self.engines)

    @property
    def waiting(self) -> int:
        return sum(each.waiting for each in self.engines)

    @property
    def slots(self) -> int:
        return sum(each.slots for each in self.engines)


class GatewaySeen(Struct, frozen=True):
    name: str = ""
    id: str = ""
    state: str = ""
    version: str = ""
    here: bool = False
    running: int = 0
    passing: int = 0
    last_heard_seconds: float = 0.0


class FleetSeen(Struct, frozen=True):
    gateways: tuple[GatewaySeen, ...] = ()
    nodes: tuple[NodeSeen, ...] = ()


_seen: msgspec.json.Decoder[FleetSeen] = msgspec.json.Decoder(FleetSeen)


def beside(url: str, path: str) -> httpx2.URL:
    """What stands beside /v1, not below it."""
    try:
        address = httpx2.URL(url)
        sound = address.scheme in ("http", "https") and address.host
    except httpx2.InvalidURL:
        sound = False
    if not sound:
        raise ClientError(f"{url!r} is no address of a server; one looks like http://HOST:PORT/v1.")
    before = address.path.rstrip("/").removesuffix("/v1")
    return address.copy_with(path=f"{before}{path}", query=None, fragment=None)


async def fleet(url: str, key: str | None = None) -> FleetSeen:
    """Raises ``ClientError``."""
    try:
        answer = await get(beside(url, "/fleet"), key)
    except Unanswered:
        raise no_server(url) from None
    _check(url, answer)
    try:
        return _seen.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _no_fleet(url) from None


async def drain(
    url: str, key: str | None, name: str, *, seconds: float | None = None, undo: bool = False
) -> None:
    """Raises ``ClientError``, with why it cannot be."""
    asked: dict[str, Any] = {"name": name, "undo": undo}
    if seconds is not None:
        asked["seconds"] = seconds
    try:
        answer = await post(beside(url, "/fleet/drain"), asked, key)
    except Unanswered:
        raise no_server(url) from None
    _check(url, answer)


def _check(url: str, answer: Answer) -> None:
    if answer.status == 404 and b'"error"' not in answer.body:
        raise _no_fleet(url)
    if answer.status >= 400:
        raise refusal(url, answer.status, {}, answer.body)


def _no_fleet(url: str) -> ClientError:
    return ClientError(
        f"{url} does not tell of gateways and engine nodes. Is --url the address of a Vivace "
        "server, of this version?"
    )
