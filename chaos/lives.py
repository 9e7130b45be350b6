"""The parts of a story: a response, who read it, how it ended, a steer on its way."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from chaos.history import Event

__all__ = [
    "ENDED",
    "JUMP",
    "MOVED",
    "TERMINAL",
    "Asked",
    "Life",
    "Observed",
    "Reading",
    "Receipt",
    "Steered",
]

MOVED = "resumed_elsewhere"
"""The code of the error that tells a stream that another has its response from now on."""
TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})
ENDED = frozenset({"completed", "incomplete", "cancelled", "failed"})
JUMP = 1_000_000
"""Where a tail was lost, numbers go on at the next multiple of this."""


class Asked(Struct, frozen=True):
    """A request for a turn."""

    at: float
    owner: str
    body: Event
    refused: str | None = None
    """The code of the error that it got over HTTP."""
    status: int | None = None

    @property
    def tag(self) -> str:
        return str(self.body["metadata"]["tag"])

    @property
    def key(self) -> str | None:
        return self.body.get("idempotency_key")


class Reading:
    """The events of one response as one stream saw them."""

    def __init__(self, name: str, client: str, lane: str | None, after: int | None) -> None:
        self.id = name
        self.client = client
        self.lane = lane
        self.after = after
        """The number after which it was to begin; None from the first on."""
        self.events: list[Event] = []
        self.asked = False
        """Whether its own stream asked for the response, or for the one that it succeeds."""
        self.moved = False
        """Another stream took the response over."""

    @property
    def ended(self) -> bool:
        return bool(self.events) and self.events[-1]["type"] in TERMINAL


class Life:
    """One response, from the time that a client knew of it."""

    def __init__(self, owner: str, response: Event, at: float, client: str | None = None) -> None:
        self.id: str = response["id"]
        self.owner = owner
        self.client = client
        """The stream that asked for it, if one did."""
        self.lane: str | None = None
        self.at = at
        self.tag: str | None = response["metadata"].get("tag")
        """Of the request that it answers; a successor has its ancestor's."""
        self.parent: str | None = response["previous_response_id"]
        self.before: Life | None = None
        """The one before it on its lane."""
        self.readings: list[Reading] = []
        self.end: Event | None = None
        """The response object of its terminal event."""
        self.stored: bool = response["store"]

    @cached_property
    def events(self) -> list[Event]:
        """All that anybody saw, in order; to be asked for when the history has been read."""
        seen: dict[int, Event] = {}
        for reading in self.readings:
            for event in reading.events:
                seen.setdefault(event["sequence_number"], event)
        return [event for _, event in sorted(seen.items())]

    @property
    def asked(self) -> bool:
        """Whether a stream that asked for it has seen it begin."""
        return any(reading.asked for reading in self.readings)

    @property
    def jumped(self) -> bool:
        """Whether a tail of it was lost; some may have read that tail."""
        return any(event["sequence_number"] >= JUMP for event in self.events)

    @property
    def succeeds(self) -> bool:
        """Whether it follows a steered one by itself rather than answers a request."""
        return self.before is not None and self.tag is not None and self.before.tag == self.tag


class Steered:
    """A steer as it was sent, known by its words, which no other has."""

    def __init__(self, text: str, target: str, owner: str, client: str | None) -> None:
        self.text = text
        self.target = target
        self.owner = owner
        self.client = client
        """None for one over HTTP."""
        self.receipt: str | None = None
        """Known from the start only over HTTP."""
        self.refused = 0
        self.returned = 0


class Receipt:
    """A steer as it was accepted: its words are not said again."""

    def __init__(self, name: str, client: str | None, target: str) -> None:
        self.id = name
        self.client = client
        self.target = target
        self.accepted = 0
        self.pending = 0
        self.returned = 0


class Observed(Struct, frozen=True):
    """How somebody saw a response to have ended."""

    at: float
    response: Event
    where: str
