"""Faults that a gateway could have, each put into the shipped code by name.

A checker that never found anything proves nothing: with any of these, some seeds of the simulation
must be broken (``scripts/chaos simulate --defect NAME``).
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec.structs import replace

from vivace.conversation import keeping, open_items
from vivace.conversation.keeping import Keeping
from vivace.conversation.log import Entry, Jumped, Said
from vivace.conversation.session import Say, Session
from vivace.gateway.attempts import Attempts
from vivace.gateway.dispatch import Dispatch
from vivace.gateway.keeping.adopted import Adopted
from vivace.gateway.keeping.kept import Keeper, KeptTurn
from vivace.gateway.keeping.presence import Presence
from vivace.gateway.keeping.recovery import Recovery
from vivace.gateway.ports import Told
from vivace.gateway.resuming.records import LogRecord
from vivace.gateway.runs import LocalRuns, Run
from vivace.store import sqlite_orders, sqlite_turns
from vivace.store.values import Fenced, Taken

__all__ = ["DEFECTS", "Defect", "defective"]

Change = tuple[Any, str, Any]
"""Of which module or class, which of its names, and what it is instead."""


class Defect:
    def __init__(
        self, name: str, what: str, changes: Callable[[], Sequence[Change]], shown_by: str | None
    ) -> None:
        self.name = name
        self.what = what
        self.changes = changes
        self.shown_by = shown_by
        """The fault that shows it in a run of one node; None where only seeds do."""


DEFECTS: dict[str, Defect] = {}


def _defect(
    name: str, shown_by: str | None = "kill-gateway"
) -> Callable[[Callable[[], Sequence[Change]]], None]:
    def take(changes: Callable[[], Sequence[Change]]) -> None:
        DEFECTS[name] = Defect(name, (changes.__doc__ or "").strip(), changes, shown_by)

    return take


@contextmanager
def defective(name: str | None) -> Iterator[None]:
    """Inside the block the shipped code has this fault; None for none."""
    changes = DEFECTS[name].changes() if name is not None else ()
    before = [(place, each, getattr(place, each)) for place, each, _ in changes]
    try:
        for place, each, value in changes:
            setattr(place, each, value)
        yield
    finally:
        for place, each, value in before:
            setattr(place, each, value)


# -- said before it is on record ------------------------------------------------------------------


def _known_from_the_start(*what: str) -> Sequence[Change]:
    """Nothing waits for these records."""
    make = Keeping.__init__

    def made(self: Keeping) -> None:
        make(self)
        self._recorded.update(what)

    return [(Keeping, "__init__", made)]


@_defect("created-early", "die-before-accept")
def _() -> Sequence[Change]:
    """``response.created`` is told before the turn is on record."""
    return _known_from_the_start(keeping.TURN)


@_defect("end-early", "die-before-end")
def _() -> Sequence[Change]:
    """The last event is told before the end is on record."""
    end = KeptTurn.end

    async def later(self: KeptTurn, *given: Any) -> None:
        await asyncio.sleep(0.02)
        await end(self, *given)

    async def ended(self: KeptTurn, *given: Any) -> None:
        self.__dict__["_late"] = asyncio.create_task(later(self, *given))

    return [*_known_from_the_start(keeping.END), (KeptTurn, "end", ended)]


@_defect("steer-answered-early", None)
def _() -> Sequence[Change]:
    """A steer over HTTP is answered before it is on record."""

    async def tell(self: Run, event: Any) -> Told:
        return Told(await self.asker.told(event), self.ticket.successor_id)

    return [(Run, "tell", tell)]


@_defect("journal-late")
def _() -> Sequence[Change]:
    """What is said is written down four words at a time."""
    enter = KeptTurn.enter

    def late(self: KeptTurn, entry: Entry) -> None:
        waiting: list[Entry] = self.__dict__.setdefault("_late", [])
        waiting.append(entry)
        if not isinstance(entry, Said) or len(waiting) >= 4:
            for each in waiting:
                enter(self, each)
            waiting.clear()

    return [(KeptTurn, "enter", late)]


@_defect("journal-dropped-early", None)
def _() -> Sequence[Change]:
    """What a turn said is thrown away when its end is about to be written."""
    end = KeptTurn.end

    async def ended(self: KeptTurn, *given: Any) -> None:
        self.close()
        await asyncio.sleep(0.01)
        await end(self, *given)

    return [(KeptTurn, "end", ended)]


# -- who may write --------------------------------------------------------------------------------


@_defect("no-fence", None)
def _() -> Sequence[Change]:
    """The end of a turn is written by whoever comes, also over an earlier one."""
    end = sqlite_turns.end

    def unfenced(db: sqlite3.Connection, given: Any, now: float) -> Any:
        sql = "UPDATE turns SET status = NULL, epoch = ? WHERE id = ?"
        db.execute(sql, (given.epoch, given.id))
        return end(db, given, now)

    return [(sqlite_turns, "end", unfenced)]


@_defect("take-without-epoch", None)
def _() -> Sequence[Change]:
    """Whoever takes a turn does not count the epoch up, so the holder before may still write."""

    def take(db: sqlite3.Connection, response_id: str, epoch: int, holder: str) -> Any:
        sql = "UPDATE turns SET holder = ? WHERE id = ? AND status IS NULL"
        db.execute(sql, (holder, response_id))
        row = db.execute(sqlite_turns._RECORD, (response_id,)).fetchone()
        found = sqlite_turns._record(row) if row else None
        return Fenced() if found is None or found.status is not None else Taken(found)

    return [(sqlite_turns, "take", take)]


@_defect("orphans-forgotten")
def _() -> Sequence[Change]:
    """Turns of a gateway that died are nobody's."""

    async def look(self: Recovery, *, dead_after: float = 0) -> int:
        await self._keeper.store.beat(self._keeper.holder)
        return 0

    return [(Recovery, "look", look)]


@_defect("ended-while-awake", None)
def _() -> Sequence[Change]:
    """A turn whose client came back waits for it all the same, and is ended when it is late."""
    runs = Recovery.runs

    def woken(self: Recovery, response_id: str) -> None:
        waiting = self._waiting.get(response_id)
        runs(self, response_id)
        if waiting is not None and not waiting.background:
            waiting.over = False
            self._waiting[response_id] = waiting

    return [(Recovery, "runs", woken)]


@_defect("key-not-unique", "cut-client")
def _() -> Sequence[Change]:
    """A key that was used before is not looked for."""
    return [
        (sqlite_turns, "key_used", lambda *_: None),
        (sqlite_orders, "key_used", lambda *_: None),
    ]


# -- steers ---------------------------------------------------------------------------------------


@_defect("steer-outside-transaction", "die-after-end-steered")
def _() -> Sequence[Change]:
    """The successor goes on record some time after the end of the steered turn."""
    end, end_turn = sqlite_turns.end, KeptTurn.end

    def alone(db: sqlite3.Connection, given: Any, now: float) -> Any:
        if given.successor is None:
            return end(db, given, now)
        steers = given.successor.applied
        done = end(db, replace(given, successor=None, pending=(*given.pending, *steers)), now)
        for steer in steers:
            sql = "UPDATE orders SET state = 'applied', applied_by = ? WHERE id = ?"
            db.execute(sql, (given.successor.id, steer))
        return done

    async def later(self: KeptTurn, turn: Any, link: Any, pending: Any, follows: Any) -> None:
        await end_turn(self, turn, link, pending, follows)
        if follows is not None:
            await asyncio.sleep(0.02)
            begin = partial(sqlite_turns._begin, turn=replace(follows, applied=()), root=follows.id)
            await self._keeper.store._write(begin)  # type: ignore[attr-defined]

    return [(sqlite_turns, "end", alone), (KeptTurn, "end", later)]


@_defect("successor-without-steer")
def _() -> Sequence[Change]:
    """The record of a successor has not the words of its steer."""
    new_turn = Keeper.new_turn

    def wordless(self: Keeper, ticket: Any, response: Any, owner: str) -> Any:
        made = new_turn(self, ticket, response, owner)
        return replace(made, input=b"[]") if ticket.line else made

    return [(Keeper, "new_turn", wordless)]


@_defect("steer-handed-back-and-applied", "none")
def _() -> Sequence[Change]:
    """A steer that made a turn is told to have failed as well."""
    settle = Session.settle

    def both(self: Session, ticket: Any, link: Any) -> Any:
        follower = ticket.follower
        decisions = settle(self, ticket, link)
        carried = follower.carried if follower is not None else ()
        failed = [
            Say(self._desk.failed(each, ticket.lane, "response_not_active", "It ended."))
            for each in carried
        ]
        return [*failed, *decisions]

    return [(Session, "settle", both)]


# -- one text -------------------------------------------------------------------------------------


@_defect("random-ids")
def _() -> Sequence[Change]:
    """Items have random ids, so that a log told again is another."""

    def digest(*_: object, **__: object) -> Any:
        return SimpleNamespace(hexdigest=partial(secrets.token_hex, 16))

    return [(open_items, "blake2b", digest)]


@_defect("no-jump", None)
def _() -> Sequence[Change]:
    """A turn that runs again has the numbers of its first try."""
    hold = Recovery._hold

    async def silently(self: Recovery, adopted: Adopted, *log: Any) -> Any:
        adopted.entries = [each for each in adopted.entries if not isinstance(each, Jumped)]
        return await hold(self, adopted, *log)

    return [(Recovery, "_hold", silently)]


@_defect("word-forgotten")
def _() -> Sequence[Change]:
    """Who goes on with an answer is not shown the last word of it."""
    said = Adopted.said

    def shorter(self: Adopted) -> Any:
        found = said(self)
        if found is None or len(found.deltas) < 2:
            return found
        return replace(found, deltas=found.deltas[:-1], tokens=found.tokens - 1)

    return [(Adopted, "said", shorter)]


@_defect("attempt-forgotten", None)
def _() -> Sequence[Change]:
    """Who goes on after a second crash says that this is the second attempt."""
    make = Attempts.__init__

    def made(self: Attempts, plan: Any, planner: Any, meter: Any, said: Any, _: int) -> None:
        make(self, plan, planner, meter, said)

    return [(Attempts, "__init__", made)]


@_defect("resumed-one-late", "cut-client")
def _() -> Sequence[Change]:
    """Who comes back misses the first event that it asks for."""
    reader = LogRecord.reader

    def late(self: LogRecord, after: int, lane: str | None = None) -> Any:
        return reader(self, after + 1 if after >= 0 else after, lane)

    return [(LogRecord, "reader", late)]


@_defect("usage-twice")
def _() -> Sequence[Change]:
    """On record a turn that went on after a crash took what it had said twice."""
    end = sqlite_turns.end

    def twice(db: sqlite3.Connection, given: Any, now: float) -> Any:
        response = msgspec.json.decode(given.response)
        usage = response["usage"]
        if given.epoch > 1 and usage is not None:
            usage["output_tokens"] *= 2
            given = replace(given, response=msgspec.json.encode(response))
        return end(db, given, now)

    return [(sqlite_turns, "end", twice)]


# -- ghosts and owners ----------------------------------------------------------------------------


@_defect("place-kept", "none")
def _() -> Sequence[Change]:
    """A turn that was stopped keeps its place on the engine."""
    left = Dispatch.left

    def stays(self: Dispatch, place: Any, outcome: Any) -> None:
        if outcome.verdict != "unknown":
            left(self, place, outcome)

    return [(Dispatch, "left", stays)]


@_defect("ghost-speaks", None)
def _() -> Sequence[Change]:
    """A gateway that was frozen for long speaks on of turns that others have taken."""
    return [(Presence, "sure", property(lambda _: True))]


@_defect("asked-steer-renamed", None)
def _() -> Sequence[Change]:
    """A steer that another gateway asks for is put on record once more when it is accepted."""
    accept = Session._accept

    def renamed(self: Session, event: Any, lane: str | None, queue: Any) -> Any:
        return accept(self, replace(event, id=None), lane, queue)

    return [(Session, "_accept", renamed)]


@_defect("owner-unasked", None)
def _() -> Sequence[Change]:
    """A turn that runs is shown to any key."""

    async def find(self: LocalRuns, response_id: str, owner: str) -> Any:
        return self._turns.get(response_id)

    return [(LocalRuns, "find", find)]
