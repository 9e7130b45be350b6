"""Gateways and engine nodes, as people are shown them."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

__all__ = [
    "About",
    "EngineShown",
    "GatewayShown",
    "NodeShown",
    "NodeState",
    "Shown",
    "State",
    "told_by",
]

State = Literal["ready", "draining", "drained"]


class About(Struct, frozen=True, kw_only=True):
    """What a gateway tells others of itself."""

    version: str = ""
    state: State = "ready"
    running: int = 0
    """Turns that engines work on for it, or that wait for one."""
    passing: int = 0
    """Those among them that are not on record, and so cannot be handed over."""


NodeState = Literal["ready", "away", "draining", "moving", "drained"]


class EngineShown(Struct, frozen=True, kw_only=True):
    name: str
    takes_work: bool
    running: int
    waiting: int
    slots: int


class NodeShown(Struct, frozen=True, kw_only=True):
    """As this gateway knows it."""

    name: str
    address: str
    state: NodeState
    trouble: str | None
    """Why it is away."""
    link: int
    """The version of the link that both speak; 0 if it never was there."""
    last_heard_seconds: float | None
    engines: tuple[EngineShown, ...]


class GatewayShown(Struct, frozen=True, kw_only=True):
    name: str
    id: str
    state: State | Literal["gone"]
    version: str
    here: bool
    """Whether it is the one that answers."""
    running: int
    passing: int
    last_heard_seconds: float


class Shown(Struct, frozen=True, kw_only=True):
    gateways: tuple[GatewayShown, ...]
    nodes: tuple[NodeShown, ...]


_about: msgspec.json.Decoder[About] = msgspec.json.Decoder(About)


def told_by(about: bytes) -> About:
    """What a gateway tells of itself, as others read it; nothing, if it has told nothing yet."""
    try:
        return _about.decode(about)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return About()
