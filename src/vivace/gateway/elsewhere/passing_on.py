"""Words of one connection's client to turns that run elsewhere, or may be steered from there."""

from __future__ import annotations

from collections.abc import Mapping

from vivace.conversation.session import Say, Session
from vivace.errors import RequestError, StoreAway, StoreError
from vivace.gateway.resuming.again import Again
from vivace.gateway.resuming.moving import Ground, Moves
from vivace.gateway.runs import Run
from vivace.protocol.codec import error_frame
from vivace.protocol.events import ErrorFrame, Event
from vivace.protocol.requests import Interrupt, Steer

__all__ = ["PassingOn"]


class PassingOn:
    def __init__(
        self,
        ground: Ground,
        session: Session,
        moves: Moves,
        again: Again,
        runs: Mapping[str, Run],
        request_id: str,
    ) -> None:
        """``runs`` are those of this connection."""
        self._ground = ground
        self._session = session
        self._moves = moves
        self._again = again
        self._runs = runs
        self._request_id = request_id

    async def took(self, event: Steer | Interrupt) -> bool:
        """Whether this was such a word, and is on its way."""
        if self._again.tells_of(_target(event)):
            self._moves.tasks.spawn(self._pass_on(event))
            return True
        if isinstance(event, Steer) and self._may_come_elsewhere(event):
            await self._steer_once(event)
            return True
        return False

    async def _pass_on(self, event: Steer | Interrupt) -> None:
        """To a turn that is told here and held by another gateway, or was when that began."""
        receipt: Event | None
        try:
            turn = await self._ground.runs.find_heir(_target(event), self._moves.owner)
            if turn is None:
                await self._moves.act(self._session.receive(event))
                return
            receipt = (await turn.tell(event)).receipt
        except (RequestError, StoreError) as error:
            known = error if isinstance(error, RequestError) else StoreAway(error)
            receipt = error_frame(known, None, self._request_id)
        if receipt is not None:
            await self._moves.act([Say(receipt)])

    def _may_come_elsewhere(self, event: Steer) -> bool:
        """Whether a turn that runs here may be steered by the same request from another gateway."""
        if event.once is None or self._ground.asking is None:
            return False
        return any(run.answers_to(_target(event)) for run in self._runs.values())

    async def _steer_once(self, event: Steer) -> None:
        """Its receipt goes out with it; what there was no receipt for is told here."""
        assert self._ground.asking is not None
        told = await self._ground.asking.tell_first(event, self._moves.owner)
        if told is None:
            await self._moves.act(self._session.receive(event))
        elif isinstance(told.receipt, ErrorFrame):
            await self._moves.act([Say(told.receipt)])


def _target(event: Steer | Interrupt) -> str:
    """The response that it is for."""
    return event.previous_response_id if isinstance(event, Steer) else event.response_id
