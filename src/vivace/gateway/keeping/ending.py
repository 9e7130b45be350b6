"""The end of a turn that is kept: on record before it is told, with what follows it."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from vivace.conversation.chain import Link
from vivace.conversation.response import open_response
from vivace.conversation.session import Say, Ticket
from vivace.conversation.turn import Turn
from vivace.errors import RequestError, StoreError, Unavailable
from vivace.gateway.archive import Archive
from vivace.gateway.cancelling import cancels_of_others
from vivace.gateway.ids import now
from vivace.gateway.keeping.handed_over import to_hand_over, without_end
from vivace.gateway.keeping.kept import Keeper, KeptTurn, TakenAway
from vivace.gateway.runs import Run
from vivace.protocol.codec import error_frame
from vivace.protocol.events import Event
from vivace.store.base import NewTurn

__all__ = ["Ending"]

log = logging.getLogger("vivace.turns")


class Ending:
    def __init__(self, keeper: Keeper, archive: Archive) -> None:
        self._keeper = keeper
        self._archive = archive
        self.given_up: frozenset[str] = frozenset()
        """Turns that were handed over last: whoever reads one is to come back for it."""

    async def on_record(
        self, kept: KeptTurn, run: Run, link: Link, last: list[Event], name: str
    ) -> tuple[list[Event], Link]:
        """The closing events, as they may be told now, and what can be continued. Raises
        ``TakenAway`` where nothing may be told."""
        turn, ticket = run.turn, run.ticket
        failed = turn.status == "failed"
        follower = run.home.seal(ticket, None if failed else link)
        pending = [] if failed else run.home.pending_after(ticket, link)
        try:
            with cancels_of_others():
                if kept.lost:
                    link = await self._archive.save(link, turn.response, run.owner)
                    await kept.let_go()
                else:
                    follows = self._follows(follower, link, turn, run.owner)
                    await kept.end(turn, link, pending, follows)
                    link = self._archive.ended(link, run.owner)
                    if follower is not None:
                        self._keeper.on_record.add(follower.id)
        except TakenAway:
            raise
        except Exception:
            # The answer is whole, so the client gets it; what it must not get is a false promise.
            log.exception("not stored request_id=%s turn=%s", name, turn.id)
            unstored = replace(turn.response, store=False)
            last[-1] = replace(last[-1], response=unstored)
            await run.keep(unstored)
            await kept.let_go()
        return last, link

    async def elsewhere(self, run: Run, name: str) -> None:
        """Another gateway has the turn and its steers, and tells its end; here nobody does."""
        ticket, home, run.taken = run.ticket, run.home, True
        log.warning("taken away request_id=%s turn=%s", name, run.id)
        await self._leave(run)
        if ticket.follower is not None:
            self._keeper.forget(ticket.follower.id)
        ticket.steers, ticket.follower = [], None
        why = _handed_over(run.id) if run.id in self.given_up else _taken(run.id)
        told = Say(error_frame(why, ticket.lane))
        await home.act([told, *home.settle(ticket, None)])

    async def _leave(self, run: Run) -> None:
        """Who took it may have found nobody else who knows what was said."""
        kept, record = run.kept, run.record
        if kept is None or record is None or run.log_is_elsewhere or run.id in self.given_up:
            return
        said = to_hand_over(kept.epoch, record.created, without_end(record.packed()))
        try:
            await self._keeper.store.leave(run.id, kept.epoch, said)
        except StoreError as error:
            log.warning("what was said is not left turn=%s", run.id, exc_info=error)

    def _follows(
        self, follower: Ticket | None, link: Link, turn: Turn, owner: str
    ) -> NewTurn | None:
        """The turn that a steer made, as it goes on record with the end of the steered one."""
        if follower is None:
            return None
        follower.parent = replace(link, kept=True)
        response = open_response(follower.request, follower.id, turn.response.model, now())
        self._keeper.remember(follower.id, response, ())
        return self._keeper.new_turn(follower, response, owner)


def _handed_over(response_id: str) -> RequestError:
    return Unavailable(
        f"This server is drained, and another goes on with response '{response_id}'. Connect "
        "again, and resume it.",
        code="server_shutting_down",
        retry_after=1,
    )


def _taken(response_id: str) -> RequestError:
    error = RequestError(
        f"Response '{response_id}' is not this server's any more: another took it over when this "
        "one was not heard of, or it was deleted. Retrieve it, or resume it.",
        code="resumed_elsewhere",
        param="response_id",
    )
    error.status = 409
    return error
