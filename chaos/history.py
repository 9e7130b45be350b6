"""The record of a round: what clients did and saw, in the order they did and saw it.

Times are of one clock of the machine that records. An answer that never came has no ``end``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

__all__ = [
    "Called",
    "Calm",
    "Entry",
    "Event",
    "Joined",
    "Left",
    "Note",
    "Saw",
    "Sent",
    "Started",
    "load",
    "save",
]

Event = dict[str, Any]


class Started(Struct, frozen=True, tag="started"):
    """What the gateway was told: requests a minute for each key, by model."""

    at: float
    limits: dict[str, int] = {}


class Joined(Struct, frozen=True, tag="joined"):
    """A stream of events begins: a WebSocket, or the replay of one response."""

    at: float
    client: str
    owner: str
    replays: str | None = None
    """The response whose events these are."""


class Sent(Struct, frozen=True, tag="sent"):
    at: float
    client: str
    event: Event | str
    """As text, when it is no event that a client should send."""


class Saw(Struct, frozen=True, tag="saw"):
    at: float
    client: str
    event: Event


class Left(Struct, frozen=True, tag="left"):
    """The stream is over: its client left, vanished without a word, or was sent away."""

    at: float
    client: str
    how: Literal["left", "vanished", "closed"] = "left"


class Called(Struct, frozen=True, tag="called"):
    """A request over HTTP, and its answer."""

    begin: float
    end: float | None
    owner: str
    method: str
    path: str
    body: Any = None
    status: int | None = None
    answer: Any = None

    @property
    def at(self) -> float:
        return self.begin if self.end is None else self.end


class Calm(Struct, frozen=True, tag="calm"):
    """Everybody has waited for all that was under way; what the gateway's figures say then."""

    at: float
    figures: dict[str, float]


Entry = Started | Joined | Sent | Saw | Left | Called | Calm
Note = Callable[[Entry], None]
"""Takes an entry down."""

_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def save(path: Path, history: Iterable[Entry]) -> None:
    path.write_bytes(msgspec.json.Encoder().encode_lines(list(history)))


def load(path: Path) -> list[Entry]:
    return _decoder.decode_lines(path.read_bytes())
