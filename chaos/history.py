"""The record of a round: what clients, faults and engines did and saw, in the order they did.

Times are of one clock of the machine that records (``CLOCK_MONOTONIC``, the same for all its
processes). A call that never came back has no ``end``: it may or may not have happened. Events are
kept whole; a digest of their bytes would say that two differ and not in what. The last entries are
the tables of the store, when all was calm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    "Loses",
    "Lost",
    "Note",
    "Printed",
    "Process",
    "Recorder",
    "Saw",
    "Sent",
    "Stalled",
    "Started",
    "Struck",
    "Table",
    "Worked",
    "created_in",
    "load",
    "save",
]

Event = dict[str, Any]


class Started(Struct, frozen=True, tag="started"):
    """What the gateway was told: requests a minute for each key, by model."""

    at: float
    limits: dict[str, int] = {}
    gateways: int = 1
    """How many there are, which share a store and take engines from nodes if they are several."""
    wall: float = 0.0
    """The time of day then, by which logs are put among the rest."""


class Joined(Struct, frozen=True, tag="joined"):
    """A stream of events begins: a WebSocket, or the replay of one response."""

    at: float
    client: str
    owner: str
    replays: str | None = None
    """The response whose events these are."""
    after: int | None = None
    """The number after which they are to begin."""
    gateway: str = ""
    """At whose door, if there are several."""


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
    gateway: str = ""
    """Which one was asked, if there are several."""

    @property
    def at(self) -> float:
        return self.begin if self.end is None else self.end


class Calm(Struct, frozen=True, tag="calm"):
    """Everybody has waited for all that was under way; what the gateway's figures say then."""

    at: float
    figures: dict[str, float]
    living: tuple[str, ...] = ()
    """The incarnations of gateways that run then."""


# -- faults, and what only those see who are inside -----------------------------------------------


Loses = Literal["", "gateway", "node", "both", "limits"]


class Struck(Struct, frozen=True, tag="struck"):
    """A fault, from its first effect until it was healed; without an end it never was."""

    begin: float
    end: float | None
    fault: str
    target: str
    """The process or the stream that it hit."""
    turns: tuple[str, ...] | None = None
    """Those that were in the state that it was to hit; None where any open one will do."""
    loses: Loses = ""
    """What these turns lost by it."""

    @property
    def at(self) -> float:
        return self.begin


class Process(Struct, frozen=True, tag="process"):
    """A gateway, an engine or a store came up, or was seen to be gone."""

    at: float
    name: str
    incarnation: str
    up: bool


class Worked(Struct, frozen=True, tag="worked"):
    """What an engine did for a response, told by itself."""

    at: float
    engine: str
    incarnation: str
    response: str
    what: Literal["began", "stopped"]
    attempt: int = 1
    shown: tuple[str, ...] = ()
    """What it was shown when it began, a word for each item (``vivace.engines.scripted``)."""
    said: str = ""
    """And the text behind that from which it was to go on."""
    answers: bool = True
    """Else it is only to read what it is shown, so that it knows it later."""


class Lost(Struct, frozen=True, tag="lost"):
    """A gateway lost what all of them count in, told by itself; until it has that again it gives
    out its share."""

    at: float
    incarnation: str


class Stalled(Struct, frozen=True, tag="stalled"):
    """The machine itself stood still, or had no time for whoever records: what was late then may
    be nobody's fault."""

    begin: float
    end: float

    @property
    def at(self) -> float:
        return self.begin


class Printed(Struct, frozen=True, tag="printed"):
    """All that a process logged, or left with a service that must not know words of clients."""

    at: float
    process: str
    text: str


class Table(Struct, frozen=True, tag="table"):
    """What is on record at the end. Rows of ``turns`` have ``id``, ``owner``, ``previous_id``,
    ``status``, ``response``, ``input`` and, where there is one, ``holder``; those of ``orders``
    ``id``, ``turn_id``, ``state``, ``applied_by``; those of ``once`` ``owner``, ``key``,
    ``turn_id``."""

    at: float
    name: str
    rows: list[dict[str, Any]]


Entry = (
    Started
    | Joined
    | Sent
    | Saw
    | Left
    | Called
    | Calm
    | Struck
    | Process
    | Worked
    | Lost
    | Stalled
    | Printed
    | Table
)
Note = Callable[[Entry], None]
"""Takes an entry down."""

_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


class Recorder:
    """Takes entries down and to a file at once, so that a run that dies leaves what it saw."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.history: list[Entry] = []
        self._encoder = msgspec.json.Encoder()
        self._file = path.open("wb")

    def __call__(self, entry: Entry) -> None:
        self.history.append(entry)
        self._file.write(self._encoder.encode(entry) + b"\n")

    def close(self) -> None:
        self._file.close()


def save(path: Path, history: Iterable[Entry]) -> None:
    path.write_bytes(msgspec.json.Encoder().encode_lines(list(history)))


def load(path: Path) -> list[Entry]:
    """All entries; half a line at the end, of a recorder that was killed, is none."""
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return _decoder.decode_lines(whole)


def created_in(history: Sequence[Entry]) -> dict[str, str]:
    """Whose each response is that somebody saw begin."""
    owners = {entry.client: entry.owner for entry in history if isinstance(entry, Joined)}
    found: dict[str, str] = {}
    for entry in history:
        if isinstance(entry, Saw) and entry.event["type"] == "response.created":
            found[entry.event["response"]["id"]] = owners[entry.client]
        elif isinstance(entry, Called) and _created_by(entry):
            found[entry.answer["id"]] = entry.owner
    return found


def _created_by(call: Called) -> bool:
    return call.method == "POST" and call.path == "/v1/responses" and call.status == 200
