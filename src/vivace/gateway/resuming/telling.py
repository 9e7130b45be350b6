"""Where the events of a turn are to be had again: from memory while that lasts, else from the
store."""

from __future__ import annotations

import asyncio

from vivace.conversation.replay import log_of
from vivace.conversation.response import as_created, read_response
from vivace.errors import LogError, NotFound
from vivace.gateway.archive import Archive
from vivace.gateway.ports import Record
from vivace.gateway.resuming.records import LogRecord
from vivace.scheduling.memory import Held, Memory
from vivace.store.base import TurnRecord

__all__ = ["not_kept", "record_of"]


async def record_of(archive: Archive, memory: Memory, response_id: str, owner: str) -> Record:
    """Raises ``NotFound`` where there are no events, and says what there is instead."""
    record = await archive.events.find(response_id, owner)
    if record is not None:
        return record
    async with archive.unpacking:
        response, cuts = _ended(response_id, await archive.find(response_id, owner))
        # A log is some 160 bytes an entry, of which the cuts have a byte or two.
        held = memory.take(owner, "answers", len(response) + 160 * len(cuts))
    try:
        return await asyncio.to_thread(_read, response, cuts, held)
    except LogError as error:
        raise NotFound(str(error), code="response_not_found") from error


def _ended(response_id: str, kept: TurnRecord | None) -> tuple[bytes, bytes]:
    """The response, and where its text was cut."""
    if kept is None:
        raise not_kept(response_id)
    if kept.status is None or kept.cuts is None:
        raise NotFound(
            f"The events of response '{response_id}' are not on record: an older version of this "
            "server stored it, or it was stored without them. Retrieve it without stream.",
            code="response_not_found",
        )
    return kept.response, kept.cuts


def _read(response: bytes, cuts: bytes, held: Held) -> LogRecord:
    final = read_response(response)
    created = as_created(final)
    return LogRecord.whole(created, log_of(created, final, cuts), final, held)


def not_kept(response_id: str) -> NotFound:
    return NotFound(
        f"Response '{response_id}' is not kept here. It may have been deleted or be too old, or "
        "it was created with store=false.",
        code="response_not_found",
    )
