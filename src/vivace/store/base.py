"""What a store keeps and what it promises.

What a write reported survives the death of the process. Turns belong to an owner and do not exist
for anyone else. A store may forget the oldest turns to stay within its bounds.

Any write may be repeated with the same arguments, and answers as it did: its answer may have been
lost on the way. A write of an open turn names the epoch of whoever holds it, and one that comes
too late is ``Fenced``. ``StoreError`` means that the store is away or out of order; if it is
``uncertain``, what was to be written may be on record all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from vivace.store.values import (
    RECORDED,
    Accepted,
    AccessKey,
    AccessKeys,
    Colleague,
    Done,
    Ended,
    Fenced,
    Kept,
    Key,
    KeyInUse,
    KeyReused,
    NewTurn,
    NotOpen,
    OpenTurn,
    Order,
    Ordered,
    OrderKind,
    OrderState,
    Orphan,
    SteersGone,
    StoredResponse,
    StoredTurn,
    Taken,
    TurnEnd,
    TurnRecord,
    TurnStat,
    UnknownParent,
    Wanted,
)

__all__ = [
    "RECORDED",
    "REMEMBERED_S",
    "Accepted",
    "AccessKey",
    "AccessKeys",
    "Colleague",
    "Done",
    "Ended",
    "Fenced",
    "GatewayTable",
    "Journal",
    "Kept",
    "Key",
    "KeyInUse",
    "KeyReused",
    "KeyTable",
    "NewTurn",
    "NotOpen",
    "OpenTurn",
    "Order",
    "OrderKind",
    "OrderState",
    "Ordered",
    "Orphan",
    "SteersGone",
    "Store",
    "StoredResponse",
    "StoredTurn",
    "Taken",
    "TurnEnd",
    "TurnRecord",
    "TurnStat",
    "UnknownParent",
    "Wanted",
]


REMEMBERED_S = 3600.0
"""How long a gateway that is gone is still told of."""


class Journal(Protocol):
    """The second copy of what turns in the making have said: written before it is sent, for the
    gateway that is started after this one has died."""

    def left(self) -> list[Kept]:
        """The turns that were open when the last gateway died here."""

    def forget_left(self) -> None:
        """They have been dealt with, and what is needed of them is written again."""

    def append(self, turn_id: str, entry: bytes) -> bool:
        """Never waits. False when it is not written, nor will be anything more of this turn."""

    def ended(self, turn_id: str) -> None:
        """Its end is on record elsewhere; nothing of it is needed here."""

    def deleted(self) -> None:
        """A turn was deleted that may have words here."""

    def wipe(self) -> None:
        """To be called again and again: the second time, nothing is left of what was deleted."""

    def close(self) -> None: ...


class Store(Protocol):
    async def open(self) -> None:
        """Once, before the first turn. Raises ``StoreError`` if it can never work as it is; a
        store that is only away is no reason not to start."""

    # -- the life of a turn -----------------------------------------------------------------------

    async def accept(self, turn: NewTurn) -> Accepted | UnknownParent | KeyReused | SteersGone:
        """Put a turn on record before anybody hears of it."""

    async def attempt(
        self, response_id: str, epoch: int, attempt: int, engine: str, said: bytes
    ) -> Done | Fenced:
        """Another engine goes on from ``said``. Attempts only ever count up."""

    async def leave(self, response_id: str, epoch: int, said: bytes) -> Done | Fenced:
        """For who took the turn from its holder of this epoch, unless there is something already
        that was said."""

    async def park(self, response_id: str, epoch: int, seconds: float | None) -> Done | Fenced:
        """No engine works on it until its client is back; None: one does again."""

    async def end(self, end: TurnEnd) -> Ended | Fenced | SteersGone:
        """The end, its successor and what becomes of its orders: all of them or nothing."""

    async def take(
        self, response_id: str, epoch: int, holder: str, dead_after: float = 0.0
    ) -> Taken | Fenced:
        """Become the holder of a turn that was last seen at ``epoch``; one of many succeeds, and
        nobody if its holder has beaten within the last ``dead_after`` seconds.

        The same holder succeeds again, because its first answer may have been lost: whoever takes
        for a gateway takes one turn once at a time.
        """

    async def orphans(
        self, holder: str, dead_after: float, limit: int = 100, *, but: Sequence[str] = ()
    ) -> list[Orphan]:
        """Return open turns, ``but`` these, of other holders that have not beaten for so many
        seconds."""

    async def beat(self, holder: str, dead_after: float = 0.0) -> None:
        """Say that this holder lives, and counts as gone ``dead_after`` seconds later: others that
        were configured with less wait as long."""

    async def company(self, holder: str, seconds: float) -> int:
        """How many other holders were heard of within so many seconds."""

    async def held(self, holder: str) -> dict[str, int]:
        """The open turns that are this holder's, with their epochs."""

    async def open_turns(self, response_id: str, owner: str) -> list[OpenTurn]:
        """This turn and those that its steers have made, as far as they are open."""

    async def may_be_continued(self, response_id: str, owner: str) -> bool:
        """Whether it has ended, and neither it nor one before it was deleted."""

    # -- orders -----------------------------------------------------------------------------------

    async def order(
        self, order: Order, key: Key | None = None, *, epoch: int | None = None
    ) -> Ordered | NotOpen | KeyReused | Fenced:
        """Put on record what somebody wants of an open turn, for its holder to find; or, with the
        ``epoch`` by which it is held, what its holder has accepted."""

    async def open_orders(self, turn_ids: Sequence[str]) -> list[Order]:
        """Return the orders to these turns that are not settled, oldest first."""

    async def asked_of(self, holder: str) -> list[Order]:
        """What others ask of turns that it holds, and it has not decided about."""

    async def claim(self, order_id: str, owner: str, holder: str) -> Order | None:
        """Accept what was asked, for who holds the turn; returns the order as it is now, which may
        be as another left it."""

    async def withdraw(self, order_id: str, owner: str) -> Order | None:
        """Take back what was asked, unless it was accepted; returns the order as it is now."""

    async def reply(
        self, order_id: str, owner: str, reply: bytes, state: OrderState | None = None
    ) -> None:
        """Tell who asked, once, and move the order on to this state, if it waits for that."""

    async def mark(self, order_id: str, owner: str, state: OrderState) -> Order | None:
        """Move an open order on; returns it as it is now, which may be as another left it."""

    async def find_order(self, order_id: str, owner: str) -> Order | None: ...

    async def find_key(self, key: Key, owner: str) -> str | KeyReused | None:
        """The turn or order that has this key, if it is known: a look that saves an engine the
        work. Who has it first is decided by ``accept`` and ``order``."""

    # -- turns on record --------------------------------------------------------------------------

    async def save(self, turn: StoredTurn) -> None:
        """Put on record a turn that is not written while it is open, or put it there anew."""

    async def find(self, response_id: str, owner: str) -> TurnRecord | None:
        """All that is on record of it, open or ended."""

    async def stat(self, response_id: str, owner: str) -> TurnStat | None:
        """Return the status of a turn, open or ended, and the sizes of its parts, of which nothing
        is read; None if there is no such turn."""

    async def response(self, response_id: str, owner: str) -> StoredResponse | None:
        """Return how a turn ended, whose input is not read; None if no such turn has ended."""

    async def load(self, response_id: str, owner: str) -> StoredTurn | None:
        """A turn that has ended."""

    async def chain(self, response_id: str, owner: str) -> list[StoredTurn] | None:
        """The turn and all before it, oldest first; None when one of them is gone or open."""

    async def weight(self, response_id: str, owner: str) -> int:
        """How many bytes ``chain`` would bring into memory."""

    async def delete(self, response_id: str, owner: str) -> bool:
        """Whether there was such a turn. What follows it is broken from now on."""

    # -- keeping it in order ----------------------------------------------------------------------

    async def prune(self, now: int) -> int:
        """Forget what is too old or too much, oldest first; returns how many turns went.

        To be called often. ``now`` is what the clock says; a store does not age its turns by one
        that leaps ahead. Text that was deleted before is nowhere on the disk afterwards, and a
        store that could not be written tries whether it can.
        """

    @property
    def trouble(self) -> str | None:
        """Why turns cannot be kept just now, for whoever runs the server; None if they can."""

    async def close(self) -> None: ...


class KeyTable(Protocol):
    """The keys that every gateway lets in, where the store is one that gateways share."""

    async def changed(self, revision: str | None) -> AccessKeys | None:
        """All keys, unless they are still as in this revision: then None. To be asked often."""

    async def add(self, key: AccessKey) -> Done | KeyInUse: ...

    async def remove(self, name: str) -> bool:
        """Whether there was a key of this name."""

    async def close(self) -> None: ...


class GatewayTable(Protocol):
    """The gateways that share a store, and what is wanted of them. A gateway is in there once it
    has beaten."""

    async def tell(self, gateway: str, name: str, about: bytes) -> Wanted | None:
        """What this one says of itself; returns what is wanted of it, None if it is not there."""

    async def all(self, seconds: float) -> list[Colleague]:
        """Those that were heard of within so many seconds."""

    async def drain(self, gateway: str, seconds: float | None) -> bool:
        """Want it to take no more turns, or with None to take them again; whether it is there."""

    async def clock(self) -> float:
        """Seconds since 1970, as the store counts them."""

    async def logged_by(self) -> list[str]:
        """Return the settings of the database that have prompts and code written to its log."""

    async def leave(self, gateway: str) -> None:
        """From now on it counts as gone, until it beats again: others may take its turns."""

    async def close(self) -> None: ...
