"""Steers and interrupts that a client says here, for turns that another gateway may hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from vivace.conversation.session import Decision, Say, Session
from vivace.errors import RequestError, StoreAway, StoreError
from vivace.gateway.elsewhere.asking import Asking
from vivace.gateway.ports import RunDirectory
from vivace.gateway.runs import Run
from vivace.protocol.codec import error_frame
from vivace.protocol.events import ErrorFrame
from vivace.protocol.requests import Interrupt, Steer

__all__ = ["Words", "target"]

Act = Callable[[Sequence[Decision]], Awaitable[None]]


def target(event: Steer | Interrupt) -> str:
    """The response that it is for."""
    return event.previous_response_id if isinstance(event, Steer) else event.response_id


class Words:
    """Those of one connection."""

    def __init__(
        self,
        directory: RunDirectory,
        asking: Asking | None,
        session: Session,
        here: Mapping[str, Run],
        act: Act,
        owner: str,
        request_id: str,
    ) -> None:
        """``asking`` asks other gateways, where there may be some; ``here``: what the connection
        runs."""
        self._directory = directory
        self._asking = asking
        self._session = session
        self._here = here
        self._act = act
        self._owner = owner
        self._request_id = request_id

    async def tell(self, event: Steer | Interrupt) -> None:
        """For a turn that is told here and held by another gateway, or was when that began."""
        try:
            turn = await self._directory.find_heir(target(event), self._owner)
            if turn is None:
                await self._act(self._session.receive(event))
                return
            receipt = (await turn.tell(event)).receipt
        except (RequestError, StoreError) as error:
            known = error if isinstance(error, RequestError) else StoreAway(error)
            receipt = error_frame(known, None, self._request_id)
        if receipt is not None:
            await self._act([Say(receipt)])

    def may_come_elsewhere(self, event: Steer) -> bool:
        """Whether a turn that runs here may be steered by the same request from another gateway."""
        if event.once is None or self._asking is None:
            return False
        return any(run.answers_to(target(event)) for run in self._here.values())

    async def steer_once(self, event: Steer) -> None:
        """Its receipt goes out with it; what there was no receipt for is told here."""
        assert self._asking is not None
        told = await self._asking.tell_first(event, self._owner)
        if told is None:
            await self._act(self._session.receive(event))
        elif isinstance(told.receipt, ErrorFrame):
            await self._act([Say(told.receipt)])
