"""The directory of running turns where several gateways share a store: those that run here, and by
what is on record those of the others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from vivace.conversation.response import read_response
from vivace.errors import InvalidRequest
from vivace.gateway.elsewhere.along import ReadingAlong
from vivace.gateway.elsewhere.asking import Asking, line_of
from vivace.gateway.ports import RunDirectory, RunningTurn, Told
from vivace.gateway.resuming.records import LogRecord
from vivace.protocol.codec import error_frame
from vivace.protocol.events import Response, SteerFailed
from vivace.protocol.requests import Interrupt, Steer
from vivace.store.base import OpenTurn

__all__ = ["DistantTurn", "SharedRuns"]


class _Request(Struct):
    response: Raw


_request: msgspec.json.Decoder[_Request] = msgspec.json.Decoder(_Request)


class DistantTurn:
    """One that another gateway holds."""

    def __init__(
        self, runs: SharedRuns, asking: Asking, along: ReadingAlong, turn: OpenTurn
    ) -> None:
        self.turn = turn
        self._runs = runs
        self._asking = asking
        self._along = along

    @property
    def id(self) -> str:
        return self.turn.id

    @property
    def owner(self) -> str:
        return self.turn.owner

    def answers_to(self, response_id: str) -> bool:
        return response_id == self.id or response_id in line_of(self.turn)

    async def response(self) -> Response:
        """As its record has it: only its holder knows what it has said."""
        return replace(self._created(), status="in_progress")

    def _created(self) -> Response:
        return read_response(bytes(_request.decode(self.turn.request or b"").response))

    def told(self) -> AbstractAsyncContextManager[LogRecord | None]:
        """What its holder tells of it, while it does; None if that cannot be heard here."""
        return self._along.reading(self.id, self.owner, self._created)

    def ended(self) -> None:
        """Nothing more is to be heard of it."""
        self._along.ended(self.id)

    async def cancel(self) -> None:
        await self._asking.cancel(self.turn)

    async def tell(self, event: Steer | Interrupt) -> Told:
        told = await self._asking.tell(self.turn, event)
        if told is None or (_too_late(told) and not (isinstance(event, Steer) and event.once)):
            heir = await self._runs.find_heir(self.id, self.owner)
            if heir is not None and heir.id != self.id:
                return await heir.tell(event)
        if told is None:
            why = f"Response '{self.id}' has ended; continue it with a new one."
            error = InvalidRequest(why, code="response_already_completed")
            return Told(error_frame(error), None)
        return told


def _too_late(told: Told) -> bool:
    receipt = told.receipt
    return isinstance(receipt, SteerFailed) and receipt.error.code == "response_already_completed"


class SharedRuns:
    """Whoever asks for a turn whose gateway is gone has it taken at that moment."""

    def __init__(self, here: RunDirectory, asking: Asking, along: ReadingAlong) -> None:
        self._here = here
        self._asking = asking
        self._along = along

    async def began(self, turn: RunningTurn) -> None:
        await self._here.began(turn)

    async def ended(self, turn: RunningTurn) -> None:
        await self._here.ended(turn)

    async def find(self, response_id: str, owner: str) -> RunningTurn | None:
        found = await self._here.find(response_id, owner)
        if found is not None:
            return found
        for turn in await self._asking.open_turns(response_id, owner):
            if turn.id == response_id:
                return self._distant(turn)
        return await self._here.find(response_id, owner)  # it may have been taken just now

    async def find_heir(self, response_id: str, owner: str) -> RunningTurn | None:
        found = await self._here.find_heir(response_id, owner)
        if found is not None:
            return found
        for turn in await self._asking.open_turns(response_id, owner):
            distant = self._distant(turn)
            if distant.answers_to(response_id):
                return distant
        return await self._here.find_heir(response_id, owner)

    def _distant(self, turn: OpenTurn) -> DistantTurn:
        return DistantTurn(self, self._asking, self._along, turn)

    async def forget(self, response_id: str, owner: str) -> None:
        await self._here.forget(response_id, owner)

    def on_forget(self, forget: Callable[[str, str], None]) -> None:
        self._here.on_forget(forget)
