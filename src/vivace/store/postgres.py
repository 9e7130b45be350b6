"""Turns in PostgreSQL: the store that several gateways share.

What decides between them is a row and its lock, never a clock or a lease; where time is told, it
is told by the database. Nothing here is in a transaction of several steps, so a gateway that stops
in the middle holds nobody up.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any, TypeVar

import asyncpg

from vivace.errors import StoreError
from vivace.store import partitions, postgres_health, statements
from vivace.store.base import (
    Accepted,
    Done,
    Ended,
    Fenced,
    Key,
    KeyReused,
    NewTurn,
    NotOpen,
    OpenTurn,
    Order,
    Ordered,
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
)
from vivace.store.connections import Connection, Connections, Work
from vivace.store.health import Health
from vivace.store.migrating import check_version
from vivace.store.values import RECORDED

__all__ = ["PostgresStore"]

T = TypeVar("T")

_STEERS_GONE = "VV001"
_TRIES = 3
"""What stood in the way may be gone by the time it is looked at."""


class PostgresStore:
    def __init__(self, url: str, *, max_age: float, max_bytes: int) -> None:
        self._max_age = max_age
        self._max_bytes = max_bytes
        self._health = Health(postgres_health.words)
        self._is_checked = False
        self._connections = Connections(url, self._health, self._greet)
        # However many requests keep the others busy, no heartbeat waits behind them: it would be
        # late, and others would take this gateway's turns.
        self._lease_connections = Connections(url, self._health, self._greet)

    async def open(self) -> None:
        try:
            await self._connections.run(partitions.make_ahead, at_first=True)
        except StoreError as error:
            if isinstance(error.__cause__, OSError | TimeoutError | asyncpg.InterfaceError):
                return  # away; ``trouble`` says so
            raise

    # -- the life of a turn -----------------------------------------------------------------------

    async def accept(self, turn: NewTurn) -> Accepted | UnknownParent | KeyReused | SteersGone:
        return await self._place(lambda db: _accept(db, turn))

    async def attempt(
        self, response_id: str, epoch: int, attempt: int, engine: str, said: bytes
    ) -> Done | Fenced:
        row = (response_id, epoch, attempt, engine, said)
        return _guarded(await self._value(statements.ATTEMPT, *row))

    async def leave(self, response_id: str, epoch: int, said: bytes) -> Done | Fenced:
        return _guarded(await self._value(statements.LEAVE, response_id, epoch, said))

    async def park(self, response_id: str, epoch: int, seconds: float | None) -> Done | Fenced:
        return _guarded(await self._value(statements.PARK, response_id, epoch, seconds))

    async def end(self, end: TurnEnd) -> Ended | Fenced | SteersGone:
        return await self._place(lambda db: _end(db, end))

    async def take(
        self, response_id: str, epoch: int, holder: str, dead_after: float = 0.0
    ) -> Taken | Fenced:
        async def work(db: Connection) -> Taken | Fenced:
            await db.execute(statements.TAKE, response_id, epoch, holder, dead_after)
            row = await db.fetchrow(statements.FIND, response_id, None)
            if row is None or row["status"] is not None:
                return Fenced()
            mine = row["epoch"] == epoch + 1 and row["holder"] == holder
            return Taken(TurnRecord(**row)) if mine else Fenced()

        return await self._connections.run(work)

    async def orphans(
        self, holder: str, dead_after: float, limit: int = 100, *, but: Sequence[str] = ()
    ) -> list[Orphan]:
        rows = await self._rows(statements.ORPHANS, holder, dead_after, limit, list(but))
        return [Orphan(**row) for row in rows]

    async def beat(self, holder: str, dead_after: float = 0.0) -> None:
        await self._lease_connections.run(
            lambda db: db.execute(statements.BEAT, holder, dead_after)
        )

    async def company(self, holder: str, seconds: float) -> int:
        found = await self._lease_connections.run(
            lambda db: db.fetchval(statements.COMPANY, holder, seconds)
        )
        return int(found)

    async def held(self, holder: str) -> dict[str, int]:
        rows = await self._lease_connections.run(lambda db: db.fetch(statements.HELD, holder))
        return {row["id"]: row["epoch"] for row in rows}

    async def open_turns(self, response_id: str, owner: str) -> list[OpenTurn]:
        rows = await self._rows(statements.OPEN_TURNS, response_id, owner)
        return [OpenTurn(**row) for row in rows]

    async def may_be_continued(self, response_id: str, owner: str) -> bool:
        return await self._value(statements.CONTINUED, response_id, owner) is not None

    # -- orders -----------------------------------------------------------------------------------

    async def order(
        self, order: Order, key: Key | None = None, *, epoch: int | None = None
    ) -> Ordered | NotOpen | KeyReused | Fenced:
        return await self._connections.run(lambda db: _order(db, order, key, epoch))

    async def open_orders(self, turn_ids: Sequence[str]) -> list[Order]:
        rows = await self._rows(statements.OPEN_ORDERS, list(turn_ids))
        return [Order(**row) for row in rows]

    async def asked_of(self, holder: str) -> list[Order]:
        return [Order(**row) for row in await self._rows(statements.ASKED_OF, holder)]

    async def claim(self, order_id: str, owner: str, holder: str) -> Order | None:
        await self._value(statements.CLAIM, order_id, owner, holder)
        return await self.find_order(order_id, owner)

    async def withdraw(self, order_id: str, owner: str) -> Order | None:
        await self._value(statements.WITHDRAW, order_id, owner)
        return await self.find_order(order_id, owner)

    async def reply(
        self, order_id: str, owner: str, reply: bytes, state: OrderState | None = None
    ) -> None:
        await self._value(statements.REPLY, order_id, owner, reply, state)

    async def mark(self, order_id: str, owner: str, state: OrderState) -> Order | None:
        await self._value(statements.MARK, order_id, owner, state)
        return await self.find_order(order_id, owner)

    async def find_order(self, order_id: str, owner: str) -> Order | None:
        rows = await self._rows(statements.FIND_ORDER, order_id, owner)
        return Order(**rows[0]) if rows else None

    async def find_key(self, key: Key, owner: str) -> str | KeyReused | None:
        return await self._connections.run(lambda db: _used(db, owner, key))

    # -- turns on record --------------------------------------------------------------------------

    async def save(self, turn: StoredTurn) -> None:
        row = (turn.id, turn.owner, turn.previous_id, turn.created_at, turn.tokens)
        values = (*row, turn.input, turn.response, RECORDED)
        await self._place(lambda db: db.execute(statements.SAVE, *values))

    async def find(self, response_id: str, owner: str) -> TurnRecord | None:
        rows = await self._rows(statements.FIND, response_id, owner)
        return TurnRecord(**rows[0]) if rows else None

    async def stat(self, response_id: str, owner: str) -> TurnStat | None:
        rows = await self._rows(statements.STAT, response_id, owner)
        return TurnStat(**rows[0]) if rows else None

    async def response(self, response_id: str, owner: str) -> StoredResponse | None:
        rows = await self._rows(statements.RESPONSE, response_id, owner)
        return StoredResponse(**rows[0]) if rows else None

    async def load(self, response_id: str, owner: str) -> StoredTurn | None:
        rows = await self._rows(statements.LOAD, response_id, owner)
        return StoredTurn(**rows[0]) if rows else None

    async def chain(self, response_id: str, owner: str) -> list[StoredTurn] | None:
        rows = await self._rows(statements.CHAIN, response_id, owner)
        turns = [StoredTurn(**row) for row in rows]
        return turns if turns and turns[0].previous_id is None else None

    async def weight(self, response_id: str, owner: str) -> int:
        return int(await self._value(statements.WEIGHT, response_id, owner))

    async def delete(self, response_id: str, owner: str) -> bool:
        """It is looked for first: after a lost answer nothing else tells whether it was there."""
        was_there = False

        async def work(db: Connection) -> bool:
            nonlocal was_there
            found = await db.fetchrow(statements.PARENT, response_id, owner)
            was_there = was_there or found is not None
            await db.execute(statements.DELETE, response_id, owner)
            return was_there

        return await self._connections.run(work)

    # -- keeping it in order ----------------------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        return self._health.trouble

    async def prune(self, now: int) -> int:
        """By the database's clock: ``now`` is another's."""
        await self._connections.run(partitions.make_ahead)
        for statement in statements.TIDY:
            age = (self._max_age,) if "$1" in statement else ()
            await self._value(statement, *age)
        return await self._connections.aside(
            lambda db: partitions.forget(db, self._max_age, self._max_bytes)
        )

    async def close(self) -> None:
        await asyncio.gather(self._connections.close(), self._lease_connections.close())

    async def _greet(self, db: Connection) -> None:
        if not self._is_checked:
            await check_version(db)
            self._is_checked = True

    async def _place(self, work: Work[T]) -> T:
        """A day that is missing is made: a server may sleep for longer than days are made ahead."""

        async def whole(db: Connection) -> T:
            try:
                return await work(db)
            except asyncpg.CheckViolationError:
                await partitions.make_ahead(db)
                return await work(db)

        return await self._connections.run(whole)

    async def _value(self, sql: str, *values: object) -> Any:
        return await self._connections.run(lambda db: db.fetchval(sql, *values))

    async def _rows(self, sql: str, *values: object) -> list[Any]:
        rows: list[Any] = await self._connections.run(lambda db: db.fetch(sql, *values))
        return rows


def _guarded(found: object) -> Done | Fenced:
    return Fenced() if found is None else Done()


async def _accept(
    db: Connection, turn: NewTurn
) -> Accepted | UnknownParent | KeyReused | SteersGone:
    row = (
        *(turn.id, turn.owner, turn.previous_id, turn.holder, turn.engine, turn.request),
        *(turn.input, turn.created_at, turn.background, list(turn.applied), *_key(turn.key)),
    )
    for _ in range(_TRIES):
        if await db.fetchval(statements.ACCEPT, *row) is not None:
            return Accepted(turn.id)
        used = await _used(db, turn.owner, turn.key)
        if used is not None:
            return used if isinstance(used, KeyReused) else Accepted(used)
        if await db.fetchrow(statements.PARENT, turn.id, turn.owner) is not None:
            return Accepted(turn.id)
        refused = await _parent(db, turn)
        if refused is not None:
            return refused
        if turn.applied:
            return SteersGone()
    raise StoreError(f"The store has another turn under the id {turn.id}; make a new one.")


async def _parent(db: Connection, turn: NewTurn) -> UnknownParent | None:
    if turn.previous_id is None:
        return None
    parent = await db.fetchrow(statements.PARENT, turn.previous_id, turn.owner)
    if parent is None:
        return UnknownParent("unknown")
    if parent["broken"]:
        return UnknownParent("broken")
    return UnknownParent("open") if parent["status"] is None else None


async def _order(
    db: Connection, order: Order, key: Key | None, epoch: int | None
) -> Ordered | NotOpen | KeyReused | Fenced:
    row = (
        *(order.id, order.turn_id, order.owner, order.kind, order.input, order.state),
        *(*_key(key), order.at_item_end, order.reply, epoch),
    )
    for _ in range(_TRIES):
        if await db.fetchval(statements.ORDER, *row) is not None:
            return Ordered(order.id)
        used = await _used(db, order.owner, key)
        if used is not None:
            return used if isinstance(used, KeyReused) else Ordered(used)
        if await db.fetchrow(statements.FIND_ORDER, order.id, order.owner) is not None:
            return Ordered(order.id)
        turn = await db.fetchrow(statements.PARENT, order.turn_id, order.owner)
        if turn is None or turn["status"] is not None:
            return NotOpen(ended=turn is not None)
    if epoch is not None:
        return Fenced()
    raise StoreError(f"The store has another order under the id {order.id}; make a new one.")


async def _end(db: Connection, end: TurnEnd) -> Ended | Fenced | SteersGone:
    following = end.successor
    successor: tuple[object, ...] = (None, None, None, None, None, None, None, [])
    if following is not None:
        successor = (
            *(following.id, following.holder, following.engine, following.request, following.input),
            *(following.created_at, following.background, list(following.applied)),
        )
    ended = (end.id, end.epoch, uuid.UUID(end.op), end.status, end.response, end.cuts, end.tokens)
    try:
        row = await db.fetchrow(statements.END, *ended, list(end.pending), *successor)
    except asyncpg.PostgresError as error:
        if error.sqlstate == _STEERS_GONE:
            return SteersGone()
        raise
    return Ended(tuple(row["returned"])) if row["is_ended"] else Fenced()


async def _used(db: Connection, owner: str, key: Key | None) -> str | KeyReused | None:
    row = None if key is None else await db.fetchrow(statements.KEY, owner, key.key)
    if row is None or key is None:
        return None
    same = row["request_hash"] == key.request_hash
    return str(row["turn_id"]) if same else KeyReused(row["turn_id"])


def _key(key: Key | None) -> tuple[object, ...]:
    return (None, None, None) if key is None else (key.key, key.request_hash, key.seconds)
