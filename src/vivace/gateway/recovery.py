"""What becomes of the turns that were open when an earlier gateway died here.

All that they had said is in its journal, and is put on record with their end: whoever asks for such
a turn finds it, with every word that anybody has seen.
"""

from __future__ import annotations

import logging
import uuid

import msgspec

from vivace.conversation.log import Entry, Failed, Stopped, decode
from vivace.conversation.response import read_response
from vivace.conversation.turn import Turn
from vivace.errors import LogError
from vivace.gateway.kept import Keeper
from vivace.protocol.codec import encode
from vivace.protocol.events import Response
from vivace.store.base import Fenced, TurnEnd, TurnRecord
from vivace.store.journal import Kept

__all__ = ["end_what_was_open"]

log = logging.getLogger("vivace.turns")


class _Request(msgspec.Struct):
    response: msgspec.Raw


_request: msgspec.json.Decoder[_Request] = msgspec.json.Decoder(_Request)

_STOPPED = "This server stopped while it was in progress; send the request again."
_LOST = (
    "This server stopped while it was in progress, and what it had said until then is lost; send "
    "the request again."
)


async def end_what_was_open(keeper: Keeper, now: int, *, dead_after: float = 0) -> int:
    """Returns how many turns there were of gateways that have said nothing for so many seconds."""
    journal, ended = keeper.journal, 0
    left = {kept.id: kept for kept in journal.left()} if journal is not None else {}
    await keeper.store.beat(keeper.holder, "")
    while orphans := await keeper.store.orphans(keeper.holder, dead_after):
        for orphan in orphans:
            taken = await keeper.store.take(orphan.id, orphan.epoch, keeper.holder)
            if not isinstance(taken, Fenced):
                await keeper.store.end(_end(taken.turn, left.get(orphan.id), now))
                ended += 1
    if journal is not None:
        journal.forget_left()
    if ended:
        log.warning("%d turns were open when this server stopped; they have ended", ended)
    return ended


def _end(record: TurnRecord, left: Kept | None, now: int) -> TurnEnd:
    try:
        turn = _told(record, left, now)
    except LogError:
        turn = _told(record, None, now)
    return TurnEnd(
        id=record.id,
        epoch=record.epoch,
        op=str(uuid.uuid4()),
        status=turn.status,
        response=encode(turn.response),
        cuts=turn.cuts,
    )


def _told(record: TurnRecord, left: Kept | None, now: int) -> Turn:
    """The turn as far as it is known, and ended."""
    turn = Turn(_as_created(record, left))
    for data in left.entries[1:] if left is not None else ():
        turn.apply(decode(data))
    whole = left is not None and left.whole
    end: Entry = Stopped(now, "disconnect")
    if not whole:
        end = Failed(now, "lost_midway", _LOST)
    elif record.background:
        end = Failed(now, "server_restarted", _STOPPED)
    turn.apply(end)
    return turn


def _as_created(record: TurnRecord, left: Kept | None) -> Response:
    if left is not None and left.entries:
        return read_response(left.entries[0])
    try:
        request = _request.decode(record.request or b"")
    except msgspec.DecodeError as error:
        raise LogError("The record of how the turn began cannot be read.") from error
    return read_response(bytes(request.response))
