"""What goes into a store and comes out of it: turns, orders to them, and what became of a write.

A write that loses against another is no error. It has an outcome that says so, because whoever
wrote has to act on it: be silent when fenced, give back the earlier turn for a key that was used.
"""

from __future__ import annotations

from datetime import date
from typing import Literal

from msgspec import Struct

__all__ = [
    "OPEN_ORDERS",
    "RECORDED",
    "Accepted",
    "AccessKey",
    "AccessKeys",
    "Colleague",
    "Done",
    "Ended",
    "Fenced",
    "Kept",
    "Key",
    "KeyInUse",
    "KeyReused",
    "NewTurn",
    "NotOpen",
    "OpenTurn",
    "Order",
    "OrderKind",
    "OrderState",
    "Ordered",
    "Orphan",
    "SteersGone",
    "StoredResponse",
    "StoredTurn",
    "Taken",
    "TurnEnd",
    "TurnRecord",
    "TurnStat",
    "UnknownParent",
    "Wanted",
]

RECORDED = "recorded"
"""The status of a turn that ``save`` put on record whole: only its response says how it ended."""

OrderKind = Literal["steer", "end_thinking", "interrupt", "cancel"]
OrderState = Literal["asked", "accepted", "pending", "applied", "returned", "done"]
"""``asked``: by another gateway than the turn's, whose holder has not seen it yet."""

OPEN_ORDERS: tuple[OrderState, ...] = ("accepted", "pending")
"""Pending ones wait for a later turn, with the input that is still required of their client."""


# -- turns ----------------------------------------------------------------------------------------


class StoredTurn(Struct, frozen=True, kw_only=True):
    """A turn that has ended, as something to continue from."""

    id: str
    owner: str
    previous_id: str | None
    created_at: int
    tokens: int
    input: bytes
    """The turn's own input items, as JSON."""
    response: bytes
    """The finished response object, as JSON."""


class StoredResponse(Struct, frozen=True, kw_only=True):
    """How a turn ended, without what it was asked."""

    status: str
    response: bytes
    """The finished response object, as JSON."""
    cuts: bytes | None


class TurnStat(Struct, frozen=True, kw_only=True):
    """The status of a turn, and how many bytes there are to read of it."""

    status: str | None
    """None while it is open."""
    input_bytes: int
    response_bytes: int
    cuts_bytes: int | None
    """None of a turn that was stored without its cuts."""


class Key(Struct, frozen=True, kw_only=True):
    """A client's word for one request, by which it may send it again."""

    key: str
    request_hash: bytes
    seconds: float = 86_400.0
    """How long it is known."""


class NewTurn(Struct, frozen=True, kw_only=True):
    """A turn that is about to begin."""

    id: str
    """Its writing may be repeated: the same id is the same turn."""
    owner: str
    previous_id: str | None = None
    """A turn on record. One that follows a turn which is not has its whole past as ``input``."""
    holder: str
    """The incarnation of a gateway that may write it; it has beaten before."""
    engine: str | None = None
    request: bytes
    """Settings and the response object as created: what it takes to run or show it again."""
    input: bytes
    created_at: int
    background: bool = False
    key: Key | None = None
    applied: tuple[str, ...] = ()
    """The pending steers that its input has."""


class TurnEnd(Struct, frozen=True, kw_only=True):
    """The end of a turn and all that must be on record with it."""

    id: str
    epoch: int
    op: str
    """A UUID of this end alone: by it a lost answer is told from somebody else's end."""
    status: str
    response: bytes
    cuts: bytes | None = None
    tokens: int = 0
    successor: NewTurn | None = None
    """The turn that a steer made; its ``applied`` are this turn's steers that it has."""
    pending: tuple[str, ...] = ()
    """Steers that wait for a later turn; all others of this turn are handed back."""


class TurnRecord(Struct, frozen=True, kw_only=True):
    """All that is on record of a turn, open or ended."""

    id: str
    owner: str
    previous_id: str | None
    root_id: str
    """The first of its conversation that is known to be one."""
    epoch: int
    attempt: int
    holder: str | None
    engine: str | None
    said: bytes | None
    """The log up to the beginning of this attempt."""
    request: bytes | None
    input: bytes
    status: str | None
    """None while it is open."""
    response: bytes
    """Empty while it is open."""
    cuts: bytes | None
    tokens: int
    background: bool
    broken: bool
    """A turn before it was deleted, so nothing may follow it."""
    parked_until: float | None
    """Seconds since 1970 by the store's clock."""
    created_at: int


class Orphan(Struct, frozen=True, kw_only=True):
    """An open turn whose holder is gone, or said nothing for too long."""

    id: str
    owner: str
    epoch: int
    background: bool
    parked_until: float | None


class OpenTurn(Struct, frozen=True, kw_only=True):
    """Where a turn is that has not ended."""

    id: str
    owner: str
    epoch: int
    holder: str | None
    background: bool
    request: bytes | None
    silent: float | None
    """Seconds since its holder was heard of, by the store's clock; None if it never was."""
    dead_after: float = 0.0
    """Seconds after which the holder itself says that it counts as gone; 0 if it says nothing."""


class Kept(Struct):
    """What a journal has of a turn that was open when its gateway died."""

    id: str
    entries: list[bytes]
    whole: bool = True
    """False: something is missing, so a client may have seen more of it than stands here."""


class Order(Struct, frozen=True, kw_only=True):
    """What somebody wants of a turn that may run anywhere."""

    id: str
    turn_id: str
    owner: str
    kind: OrderKind
    input: bytes | None = None
    state: OrderState = "accepted"
    applied_by: str | None = None
    at_item_end: bool = False
    """A steer that waits until the item in the making is done."""
    reply: bytes | None = None
    """For one that was ``asked``: what its holder said to it, and empty until then."""


# -- who may come in ------------------------------------------------------------------------------


class AccessKey(Struct, frozen=True, kw_only=True):
    """A key that somebody comes in with; the key itself is nowhere."""

    id: str
    """Whom turns belong to."""
    name: str
    sha256: str
    created_at: date
    admin: bool = False
    """Whether it may move work between gateways and engine nodes."""


class AccessKeys(Struct, frozen=True):
    """All of them, as they were at one moment."""

    revision: str | None
    """Changes with each change of the keys; None if changes cannot be noticed."""
    keys: tuple[AccessKey, ...]
    ever: bool
    """Whether there was one at any time."""


# -- gateways -------------------------------------------------------------------------------------


class Wanted(Struct, frozen=True):
    """What a gateway is to do."""

    drain: float | None
    """Take no more turns, and hand over those that have not ended in so many seconds."""


class Colleague(Struct, frozen=True, kw_only=True):
    """A gateway, as all know of it that share the store."""

    id: str
    name: str
    """Of its own choice; two may have the same."""
    about: bytes
    """What it tells of itself, in JSON; empty of one that tells nothing."""
    drain: float | None
    silent: float
    """Seconds since it was heard of, by the store's clock."""
    dead_after: float = 0.0
    """Seconds after which it says itself that it counts as gone; 0 if it says nothing."""

    def lives(self, dead_after: float) -> bool:
        """Return whether it was heard of lately enough for a gateway with this ``dead_after``."""
        return self.silent <= max(dead_after, self.dead_after)


# -- outcomes -------------------------------------------------------------------------------------


class Accepted(Struct, frozen=True):
    """On record. Under a key that was used before, ``turn_id`` is the turn of that time."""

    turn_id: str


class UnknownParent(Struct, frozen=True):
    """There is no such turn for this owner, it is still open, or its own past was deleted."""

    why: Literal["unknown", "open", "broken"]


class KeyReused(Struct, frozen=True):
    """The key stands for another request, whose turn or order this is."""

    used_by: str


class KeyInUse(Struct, frozen=True):
    """The name, id or hash is that of another key that somebody comes in with."""


class SteersGone(Struct, frozen=True):
    """A steer that was to be applied is not open any more; nothing was written."""


class Done(Struct, frozen=True):
    pass


class Fenced(Struct, frozen=True):
    """Another holds the turn now, or it has ended or is deleted: say nothing more of it."""


class Ended(Struct, frozen=True):
    returned: tuple[str, ...] = ()
    """Steers of this turn that were handed back."""


class Taken(Struct, frozen=True):
    turn: TurnRecord
    """As it stands, with the epoch that its new holder writes by."""


class Ordered(Struct, frozen=True):
    """On record. Under a key that was used before, this is the order of that time."""

    order_id: str


class NotOpen(Struct, frozen=True):
    """The turn has ended, or there is none."""

    ended: bool
