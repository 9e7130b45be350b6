"""A store beside a dictionary that does the same, with every write repeated at will."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

from tests.support.store import asked, ending, new, rid, steer
from vivace.store.base import (
    Accepted,
    Done,
    Ended,
    Fenced,
    Key,
    KeyReused,
    NewTurn,
    NotOpen,
    Order,
    Ordered,
    OrderState,
    SteersGone,
    Store,
    Taken,
    TurnEnd,
    UnknownParent,
)

T = TypeVar("T")

TURNS, STEERS = 7, 4
KEYS = (None, None, "k", "k", "l", "l", None)
"""Of each turn by its number; two that share one have the same body or not."""
BODIES = (b"", b"", b"one", b"one", b"two", b"three", b"")

_salts = itertools.count()
turns = st.integers(0, TURNS - 1)
steers = st.integers(0, STEERS - 1)
some_steers = st.lists(steers, unique=True, max_size=2)
epochs = st.integers(1, 3)
holders = st.sampled_from(("g1", "g2"))
times = st.integers(1, 2)
OPEN = ("accepted", "pending")
UNDONE = ("asked", *OPEN)


class Row:
    def __init__(self, turn: NewTurn, root: str) -> None:
        self.turn, self.root = turn, root
        self.epoch, self.attempt = 1, 1
        self.holder: str | None = turn.holder
        self.status: str | None = None
        self.op = ""
        self.broken = False


class StoreModel(RuleBasedStateMachine):
    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.salt = f"{next(_salts)}-"
        self.rows: dict[str, Row] = {}
        self.keys: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.orders: dict[str, Order] = {}

    async def open(self) -> Store:
        raise NotImplementedError

    def do(self, work: Awaitable[T]) -> T:
        async def whole() -> T:
            return await work

        return self.runner.run(whole())

    @initialize()
    def begin(self) -> None:
        self.store = self.do(self.open())

    def teardown(self) -> None:
        if hasattr(self, "store"):
            for number in range(TURNS):
                self.look(number)
            self.do(self.close())
        self.runner.close()

    async def close(self) -> None:
        await self.store.close()

    # -- names ------------------------------------------------------------------------------------

    def label(self, number: int) -> str:
        return f"{self.salt}{number}"

    def owner(self, number: int) -> str:
        """Every turn number has its owner; two of them have the others' for strangers."""
        return f"{self.salt}{'you' if number == TURNS - 1 else 'me'}"

    def steer_id(self, number: int) -> str:
        return f"{self.salt}s{number}"

    def steer_ids(self, numbers: list[int]) -> tuple[str, ...]:
        return tuple(map(self.steer_id, numbers))

    def request(self, number: int, parent: int | None, holder: str, applied: list[int]) -> NewTurn:
        before = None if parent is None else self.label(parent)
        word, owner = KEYS[number], self.owner(number)
        key = Key(key=word, request_hash=BODIES[number]) if word else None
        ids = self.steer_ids(applied)
        return new(self.label(number), before, owner=owner, holder=holder, key=key, applied=ids)

    def compare(self, count: int, work: Callable[[], Awaitable[T]], expected: T) -> None:
        for _ in range(count):
            assert self.do(work()) == expected

    # -- writes -----------------------------------------------------------------------------------

    @rule(number=turns, parent=st.none() | turns, holder=holders, applied=some_steers, count=times)
    def accept(
        self, number: int, parent: int | None, holder: str, applied: list[int], count: int
    ) -> None:
        turn = self.request(number, parent, holder, applied if parent is not None else [])
        expected = self._accepted(turn)
        self.compare(count, lambda: self.store.accept(turn), expected)

    def _accepted(self, turn: NewTurn) -> Accepted | UnknownParent | KeyReused | SteersGone:
        if turn.key is not None:
            known = self.keys.get((turn.owner, turn.key.key))
            if known is not None:
                same = known[1] == turn.key.request_hash
                return Accepted(known[0]) if same else KeyReused(known[0])
        if turn.id in self.rows:
            return Accepted(turn.id)
        parent = self.rows.get(turn.previous_id or "")
        if turn.previous_id is not None:
            if parent is None or parent.turn.owner != turn.owner:
                return UnknownParent("unknown")
            if parent.broken or parent.status is None:
                return UnknownParent("broken" if parent.broken else "open")
        if not self._may_apply(turn.applied, turn.previous_id):
            return SteersGone()
        if turn.key is not None:
            self.keys[turn.owner, turn.key.key] = (turn.id, turn.key.request_hash)
        self._begin(turn, parent.root if parent else turn.id)
        return Accepted(turn.id)

    def _may_apply(self, ids: tuple[str, ...], turn_id: str | None) -> bool:
        found = [self.orders.get(each) for each in ids]
        return all(each and each.turn_id == turn_id and each.state in OPEN for each in found)

    def _begin(self, turn: NewTurn, root: str) -> None:
        self.rows[turn.id] = Row(turn, root)
        for each in turn.applied:
            self.orders[each] = replace(self.orders[each], state="applied", applied_by=turn.id)

    @rule(number=turns, epoch=epochs, attempt=st.integers(2, 4), count=times)
    def attempt(self, number: int, epoch: int, attempt: int, count: int) -> None:
        row = self.rows.get(rid(self.label(number)))
        expected: Done | Fenced = Fenced()
        if row and row.status is None and row.epoch == epoch and row.attempt <= attempt:
            row.attempt, expected = attempt, Done()
        place = rid(self.label(number)), epoch, attempt
        self.compare(count, lambda: self.store.attempt(*place, "e", b"said"), expected)

    @rule(
        number=turns,
        epoch=epochs,
        by=st.sampled_from("ab"),
        following=st.none() | turns,
        applied=some_steers,
        pending=some_steers,
        count=times,
    )
    def end(
        self,
        number: int,
        epoch: int,
        by: str,
        following: int | None,
        applied: list[int],
        pending: list[int],
        count: int,
    ) -> None:
        label = self.label(number)
        successor = None
        if following is not None and self.owner(following) == self.owner(number):
            asked = replace(self.request(following, number, "g1", applied), key=None)
            successor = None if asked.id in self.rows else asked
        end = ending(label, epoch, by=by, successor=successor, pending=self.steer_ids(pending))
        expected = self._ended(end)
        self.compare(count, lambda: self.store.end(end), expected)

    def _ended(self, end: TurnEnd) -> Ended | Fenced | SteersGone:
        row = self.rows.get(end.id)
        if row is None:
            return Fenced()
        if row.status is None and row.epoch == end.epoch:
            if end.successor and not self._may_apply(end.successor.applied, end.id):
                return SteersGone()
            row.status, row.op, row.holder = end.status, end.op, None
            if end.successor is not None:
                self._begin(end.successor, row.root)
            self._close_orders(end.id, end.pending)
        elif row.op != end.op:
            return Fenced()
        mine = [each for each in self.orders.values() if each.turn_id == end.id]
        return Ended(tuple(sorted(each.id for each in mine if each.state == "returned")))

    def _close_orders(self, turn_id: str, pending: tuple[str, ...] = ()) -> None:
        for each in list(self.orders.values()):
            if each.turn_id == turn_id and each.state in UNDONE:
                state: OrderState = "pending" if each.id in pending else "returned"
                self.orders[each.id] = replace(each, state=state)

    @rule(number=turns, epoch=epochs, holder=holders, count=times)
    def take(self, number: int, epoch: int, holder: str, count: int) -> None:
        turn_id = rid(self.label(number))
        row = self.rows.get(turn_id)
        if row and row.status is None and row.epoch == epoch:
            row.epoch, row.holder = epoch + 1, holder
        held = row and row.status is None and (row.epoch, row.holder) == (epoch + 1, holder)
        for _ in range(count):
            taken = self.do(self.store.take(turn_id, epoch, holder))
            assert isinstance(taken, Taken) == bool(held)
            if isinstance(taken, Taken):
                assert (taken.turn.epoch, taken.turn.holder) == (epoch + 1, holder)

    @rule(
        number=steers,
        to=turns,
        make=st.sampled_from((steer, asked)),
        epoch=st.none() | st.integers(1, 2),
        count=times,
    )
    def order(
        self, number: int, to: int, make: Callable[..., Order], epoch: int | None, count: int
    ) -> None:
        order = make(self.steer_id(number), self.label(to), owner=self.owner(0))
        row = self.rows.get(order.turn_id)
        mine = row is not None and row.turn.owner == order.owner
        expected: Ordered | NotOpen | KeyReused | Fenced = Ordered(order.id)
        if order.id not in self.orders:
            if not mine or row is None or row.status is not None:
                expected = NotOpen(ended=mine)
            elif epoch not in (None, row.epoch):
                expected = Fenced()
            else:
                self.orders[order.id] = order
        self.compare(count, lambda: self.store.order(order, epoch=epoch), expected)

    @rule(number=steers, state=st.sampled_from(("pending", "returned")), count=times)
    def mark(self, number: int, state: OrderState, count: int) -> None:
        order_id = self.steer_id(number)
        found = self.orders.get(order_id)
        if found and found.state in OPEN:
            self.orders[order_id] = found = replace(found, state=state)
        self.compare(count, lambda: self.store.mark(order_id, self.owner(0), state), found)

    @rule(number=steers, holder=holders, count=times)
    def claim(self, number: int, holder: str, count: int) -> None:
        order_id = self.steer_id(number)
        found = self.orders.get(order_id)
        row = self.rows.get(found.turn_id) if found else None
        if found and found.state == "asked" and row is not None and row.holder == holder:
            self.orders[order_id] = found = replace(found, state="accepted")
        self.compare(count, lambda: self.store.claim(order_id, self.owner(0), holder), found)

    @rule(number=steers, count=times)
    def withdraw(self, number: int, count: int) -> None:
        order_id = self.steer_id(number)
        found = self.orders.get(order_id)
        if found and found.state == "asked":
            self.orders[order_id] = found = replace(found, state="returned")
        self.compare(count, lambda: self.store.withdraw(order_id, self.owner(0)), found)

    @rule(number=steers, state=st.sampled_from((None, "returned")), count=times)
    def reply(self, number: int, state: OrderState | None, count: int) -> None:
        order_id = self.steer_id(number)
        found = self.orders.get(order_id)
        if found and not found.reply:
            moved = state if state and found.state in ("asked", "accepted") else found.state
            self.orders[order_id] = replace(found, state=moved, reply=b"so be it")
        work = lambda: self.store.reply(order_id, self.owner(0), b"so be it", state)  # noqa: E731
        self.compare(count, work, None)

    @rule(number=turns)
    def delete(self, number: int) -> None:
        turn_id = rid(self.label(number))
        row = self.rows.pop(turn_id, None)
        assert self.do(self.store.delete(turn_id, self.owner(number))) == (row is not None)
        if row is None:
            return
        self._close_orders(turn_id)
        for each in list(self.orders.values()):
            if each.turn_id == turn_id:
                self.orders[each.id] = replace(each, input=None, reply=None)
        gone = {turn_id}
        while later := {
            name
            for name, each in self.rows.items()
            if each.turn.previous_id in gone and name not in gone
        }:
            gone |= later
            for name in later:
                self.rows[name].broken = True

    # -- reads ------------------------------------------------------------------------------------

    @rule(number=turns)
    def look(self, number: int) -> None:
        turn_id, owner = rid(self.label(number)), self.owner(number)
        found = self.do(self.store.find(turn_id, owner))
        assert self._told(found) == self._known(self.rows.get(turn_id))
        for name, order in self.orders.items():
            assert self.do(self.store.find_order(name, order.owner)) == order

    def _told(self, found: Any) -> object:
        names = [
            "previous_id",
            "root_id",
            "epoch",
            "attempt",
            "holder",
            "status",
            "broken",
            "input",
        ]
        return found and tuple(getattr(found, name) for name in names)

    def _known(self, row: Row | None) -> object:
        if row is None:
            return None
        turn = row.turn
        written = (row.epoch, row.attempt, row.holder, row.status, row.broken)
        return (turn.previous_id, row.root, *written, turn.input)
