"""What others ask of turns that this gateway holds: done as if its own client had asked.

A steer is accepted on record before its turn hears of it, so that whoever takes the turn, should
this gateway die, applies it and not once more. The rest may be done twice without harm.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from itertools import groupby

from msgspec import Raw

from vivace.errors import StoreError
from vivace.gateway.elsewhere.asking import Reply
from vivace.gateway.keeping.kept import Keeper
from vivace.gateway.keeping.recovery import Recovery
from vivace.gateway.keeping.waiting import WaitingTurn
from vivace.gateway.metrics import Metrics
from vivace.gateway.ports import Bell, RunDirectory, RunningTurn, Told
from vivace.gateway.tasks import Tasks
from vivace.protocol.codec import encode
from vivace.protocol.events import ErrorFrame, SteerFailed
from vivace.protocol.requests import Interrupt, Steer
from vivace.store.base import Order, OrderState

__all__ = ["Carrying"]

log = logging.getLogger("vivace.turns")

_LOOK = 0.1
"""Seconds between two looks, where nobody rings."""


class Carrying:
    def __init__(
        self,
        keeper: Keeper,
        runs: RunDirectory,
        recovery: Recovery,
        bell: Bell,
        metrics: Metrics,
        seldom: float = _LOOK,
    ) -> None:
        """``runs`` are those of this gateway. ``seldom``: seconds between two looks while others
        ring."""
        self._keeper = keeper
        self._runs = runs
        self._recovery = recovery
        self._bell = bell
        self._seldom = seldom
        self._metrics = metrics
        self._tasks = Tasks()
        self._busy: set[str] = set()
        self._undone: dict[str, Order] = {}
        """Steers that may be accepted on record, and have no answer there yet."""
        self._told: dict[str, Told] = {}
        """What their turns made of them."""
        self._found = False
        """Whether the last look found something, which may not be done yet."""

    async def watch(self) -> None:
        while True:
            seldom = self._bell.up and not self._found
            await self._bell.heard(self._seldom if seldom else _LOOK)
            if self._keeper.open or self._recovery.has_waiting:
                with contextlib.suppress(StoreError):  # its trouble is known, and told elsewhere
                    await self.look()

    async def look(self) -> None:
        asked = await self._keeper.store.asked_of(self._keeper.holder)
        names = {order.id for order in asked}
        asked += [order for name, order in self._undone.items() if name not in names]
        self._found = bool(asked)
        asked.sort(key=lambda order: order.turn_id)  # and of one turn as they came
        for turn_id, orders in groupby(asked, lambda order: order.turn_id):
            if turn_id not in self._busy:
                self._busy.add(turn_id)
                self._tasks.spawn(self._carry_out(turn_id, [*orders]))

    async def _carry_out(self, turn_id: str, orders: Sequence[Order]) -> None:
        try:
            for order in orders:
                turn = await self._runs.find(turn_id, order.owner)
                if turn is not None:
                    await self._do(turn, order)
                else:
                    self._forget(order)
            await self._bell.answered(turn_id)
        except StoreError as error:  # it is looked at again
            log.warning("an order waits turn=%s: %s", turn_id, error)
        except Exception:
            for order in orders:  # it would fail again, and again
                self._forget(order)
            log.exception("fault turn=%s", turn_id)
        finally:
            self._busy.discard(turn_id)

    async def _do(self, turn: RunningTurn, order: Order) -> None:
        if order.kind == "cancel":
            await turn.cancel()
            await self._say(order, Told(None, None), "done")
        elif order.kind == "interrupt":
            await self._say(order, await turn.tell(Interrupt(response_id=turn.id)), "done")
        elif order.kind == "steer" and _takes_steers(turn):
            await self._steer(turn, order)
        elif isinstance(turn, WaitingTurn):
            return  # until an engine works on it
        else:
            ends = Steer(previous_response_id=turn.id, input=Raw(b"null"), when="end_thinking")
            await self._say(order, await turn.tell(ends), "done")

    async def _steer(self, turn: RunningTurn, order: Order) -> None:
        self._undone[order.id] = order
        claimed = await self._keeper.store.claim(order.id, order.owner, self._keeper.holder)
        if claimed is not None and claimed.state == "accepted" and not claimed.reply:
            told = self._told.get(order.id) or await turn.tell(_as_steer(turn, order))
            self._told[order.id] = told
            refused = isinstance(told.receipt, SteerFailed | ErrorFrame)
            await self._say(order, told, "returned" if refused else None)
        self._forget(order)  # else it was taken back, or the turn has ended

    def _forget(self, order: Order) -> None:
        self._undone.pop(order.id, None)
        self._told.pop(order.id, None)

    async def _say(self, order: Order, told: Told, state: OrderState | None) -> None:
        self._metrics.carried_out.labels(order.kind).inc()
        reply = encode(Reply(told.receipt, told.successor_id))  # type: ignore[arg-type]
        await self._keeper.store.reply(order.id, order.owner, reply, state)


def _as_steer(turn: RunningTurn, order: Order) -> Steer:
    return Steer(
        previous_response_id=turn.id,
        input=Raw(order.input or b"null"),
        when="item_end" if order.at_item_end else "now",
        id=order.id,
    )


def _takes_steers(turn: RunningTurn) -> bool:
    return not isinstance(turn, WaitingTurn) or turn.takes_steers
