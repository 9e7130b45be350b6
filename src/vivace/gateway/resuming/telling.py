"""Where the events of a turn are to be had again: from memory while that lasts, else from the
store; of one that another gateway holds, from the node of its engine until it has ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import islice

from vivace.conversation.replay import log_of
from vivace.conversation.response import as_created, read_response
from vivace.errors import LogError, NotFound
from vivace.gateway.archive import Archive
from vivace.gateway.elsewhere.record import AwaitedRecord, check_goes_on
from vivace.gateway.elsewhere.runs import DistantTurn
from vivace.gateway.ports import Readable, Record, RunDirectory
from vivace.gateway.reads import Slot
from vivace.gateway.resuming.records import LogRecord
from vivace.protocol.events import ResponseEvent
from vivace.scheduling.memory import Held, Memory
from vivace.store.base import StoredResponse, TurnStat

__all__ = ["Telling", "not_kept"]

_ENTRY_BYTES = 160
"""Memory of one entry of a log; the stored delta boundaries take a byte or two of it."""
_BATCH = 64
"""Entries that are made at once: a millisecond (measured)."""


class Telling:
    def __init__(
        self, archive: Archive, memory: Memory, runs: RunDirectory, *, shared: bool
    ) -> None:
        """``shared``: another gateway may have deleted what this one remembers."""
        self._archive = archive
        self._memory = memory
        self._runs = runs
        self._shared = shared

    async def record(self, response_id: str, owner: str) -> Readable:
        """Raises ``NotFound`` where there are no events, and says what there is instead."""
        record = await self._here(response_id, owner)
        if record is not None:
            return _Followed(self, record, response_id, owner) if self._shared else record
        if self._shared:
            turn = await self._runs.find(response_id, owner)
            if isinstance(turn, DistantTurn):
                return AwaitedRecord(turn, self._ended)
            record = await self._here(response_id, owner)  # it was taken just now
            if record is not None:
                return _Followed(self, record, response_id, owner)
        return await self._stored(response_id, owner)

    async def _here(self, response_id: str, owner: str) -> Record | None:
        """What memory has, unless another gateway has deleted it."""
        record = await self._archive.events.find(response_id, owner)
        if record is None or not self._shared or not record.settled:
            return record
        if await self._archive.stat(response_id, owner) is None:
            await self._archive.events.delete(response_id, owner)
            return None
        return record

    async def _ended(self, response_id: str, owner: str) -> Readable | None:
        """None while another gateway holds it."""
        if isinstance(await self._runs.find(response_id, owner), DistantTurn):
            return None
        record = await self._here(response_id, owner)
        if record is not None:  # from where it may move again
            return _Followed(self, record, response_id, owner)
        return await self._stored(response_id, owner)

    async def _stored(self, response_id: str, owner: str) -> LogRecord:
        async with self._archive.reads.slot(owner) as slot:
            stat = await self._archive.stat(response_id, owner)
            size = _log_bytes(response_id, stat)
            held = slot.take("answers", size)
            found = await self._archive.stored_response(response_id, owner)
            if found is None:
                raise not_kept(response_id)
            try:
                return await _read(found, held, slot)
            except LogError as error:
                raise NotFound(str(error), code="response_not_found") from error


class _Followed:
    """What is told here of a turn, and if another gateway takes that meanwhile, what follows
    there."""

    def __init__(self, telling: Telling, record: Record, response_id: str, owner: str) -> None:
        self._telling = telling
        self._here = record
        self._response_id = response_id
        self._owner = owner
        self._record: Readable = record

    @property
    def steered(self) -> bool:
        return self._record.steered

    @property
    def weight(self) -> int:
        return self._record.weight

    async def after(
        self, number: int, lane: str | None = None
    ) -> AsyncGenerator[list[ResponseEvent], None]:
        async with aclosing(self._here.after(number, lane)) as told:
            async for events in told:
                number = events[-1].sequence_number
                yield events
        if self._here.lost:
            self._record = await self._telling.record(self._response_id, self._owner)
            async with aclosing(self._record.after(number, lane)) as told:
                async for events in told:
                    check_goes_on(self._response_id, number, events)
                    yield events


def _log_bytes(response_id: str, stat: TurnStat | None) -> int:
    """How much memory the log of an ended turn takes; refuses a turn that has none on record."""
    if stat is None:
        raise not_kept(response_id)
    if stat.status is None or stat.cuts_bytes is None:
        raise NotFound(
            f"The events of response '{response_id}' are not on record: an older version of this "
            "server stored it, or it was stored without them. Retrieve it without stream.",
            code="response_not_found",
        )
    return stat.response_bytes + _ENTRY_BYTES * stat.cuts_bytes


async def _read(found: StoredResponse, held: Held, slot: Slot) -> LogRecord:
    final = read_response(found.response)
    created = as_created(final)
    record = LogRecord.whole(created, final, held)
    entries = log_of(created, final, found.cuts or b"")
    while some := [*islice(entries, _BATCH)]:
        record.extend(some)
        await slot.rest()
    return record


def not_kept(response_id: str) -> NotFound:
    return NotFound(
        f"Response '{response_id}' is not kept here. It may have been deleted or be too old, or "
        "it was created with store=false.",
        code="response_not_found",
    )
