"""What the gateway remembers of turns: those running, the recent ones, and the stored ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vivace.conversation.chain import Link, links_of, past_items
from vivace.conversation.prefixes import mark_of
from vivace.conversation.session import Resent, Ticket
from vivace.conversation.turn import Turn
from vivace.errors import InvalidRequest, RequestError, ServerFault
from vivace.gateway.input_pages import PageReader
from vivace.gateway.large import LargeWork
from vivace.gateway.ports import EventLog
from vivace.gateway.reads import Reads, Slot
from vivace.gateway.recent import Recent
from vivace.protocol.bounds import footprint
from vivace.protocol.codec import encode
from vivace.protocol.events import IncompleteDetails, Response, ResponseProblem
from vivace.protocol.items import Item
from vivace.protocol.json_arrays import PART_BYTES, decode_array
from vivace.scheduling.memory import Held, Memory
from vivace.store.base import RECORDED, Store, StoredResponse, StoredTurn, TurnStat

__all__ = ["Archive", "no_parent"]

_ARRAY_BYTES = 1_000
"""Cost of decoding the smallest array of items, in bytes that take as long."""


class _Ended(Struct):
    output: msgspec.Raw = msgspec.Raw(b"[]")
    status: str = "completed"
    incomplete_details: IncompleteDetails | None = None


_items: msgspec.json.Decoder[list[Item]] = msgspec.json.Decoder(list[Item])
_raw_items: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
_ended: msgspec.json.Decoder[_Ended] = msgspec.json.Decoder(_Ended)
_fields: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, msgspec.Raw])

_LIVE = frozenset({"queued", "in_progress"})
_STOPPED = (
    "This server stopped while it was in progress, or could not store its end; send the request "
    "again."
)


def _size(data: bytes) -> int:
    return footprint(data.decode(errors="replace"))


@contextmanager
def _readable(response_id: str) -> Iterator[None]:
    """Say of a stored turn that cannot be decoded that it is damaged, or of another version."""
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ServerFault(
            f"The stored response '{response_id}' cannot be read: it is damaged, or another "
            "version of this server wrote it. Delete it, and send the conversation again.",
            code="response_unreadable",
        ) from error


def _weighed(
    parent: Link | None, said: tuple[Item, ...], output: tuple[Item, ...], *, marked: bool
) -> tuple[int, bytes]:
    """Return how much memory a turn takes that can be continued, and its mark if it has one."""
    mark = mark_of(parent, (*said, *output)) if marked else b""
    return _size(encode(said)) + _size(encode(output)), mark


def _is_whole(response: Response | _Ended) -> bool:
    """Whether it came to its own end, or was sent another way by its user."""
    details = response.incomplete_details
    steered = details is not None and details.reason in ("steered", "interrupted")
    return response.status == "completed" or steered


def no_parent(why: str) -> RequestError:
    """A response that is known but cannot be continued; clients know this code, and start anew."""
    return InvalidRequest(why, code="previous_response_not_found", param="previous_response_id")


class Archive:
    """The stored turns, the newest of them at hand, and the events of those in the background."""

    def __init__(
        self,
        store: Store,
        events: EventLog,
        memory: Memory,
        large: LargeWork,
        *,
        shared: bool = False,
    ) -> None:
        """``shared``: other gateways may delete what this one remembers."""
        self.events = events
        self._shared = shared
        self._store = store
        self._memory = memory
        self._large = large
        self._links: Recent[Link] = Recent(memory, "links")
        self._unstored: Recent[Link] = Recent(memory, "links")
        """By their marks: turns that only a client can continue that says everything again."""
        self.reads = Reads(memory)
        self._forgotten = 0
        """How often memory was emptied of an owner's turns."""

    async def open(self) -> None:
        await self._store.open()

    # -- chains -----------------------------------------------------------------------------------

    async def link(self, response_id: str, owner: str) -> Link | None:
        """The stored turn as something to continue from."""
        known = self._links.get(owner, response_id)
        if known is not None:
            return known
        async with self.reads.slot(owner) as slot:
            known = self._links.get(owner, response_id)  # it was read while this waited
            if known is not None:
                return known
            forgotten = self._forgotten
            # Refused when there is no room: a conversation may be larger than any request.
            rows = slot.take("links", await self._store.weight(response_id, owner))
            link: Link | None = None
            for turn in await self._store.chain(response_id, owner) or ():
                link = await self._read(turn, link, slot)
            del rows
        if link is not None and forgotten == self._forgotten:  # else it may be deleted by now
            self._links.put(owner, link.id, link)
        return link

    async def _read(self, turn: StoredTurn, parent: Link | None, slot: Slot) -> Link:
        held = self._memory.take(turn.owner, "links", 0)
        with _readable(turn.id):
            ended = _ended.decode(turn.response)
            if ended.status in _LIVE:
                raise no_parent(f"Response '{turn.id}' has failed. {_STOPPED}")
            said = await _decoded(turn.input, held, slot)
            output = await _decoded(bytes(ended.output), held, slot)
        return Link(turn.id, parent, said, output, turn.tokens, _is_whole(ended), held, kept=True)

    async def check_past(self, ticket: Ticket, owner: str) -> None:
        """What memory has may have been deleted on another gateway; refuses to go on from that. A
        turn that is kept behind another finds out by its own record."""
        before, stored = ticket.parent, ticket.request.stored
        if not self._shared or (before is not None and before.kept and stored):
            return
        while before is not None and not before.kept:
            before = before.parent
        if before is not None and not await self._store.may_be_continued(before.id, owner):
            self.forget(owner)
            raise no_parent(
                f"Response '{before.id}' cannot be continued: it is not kept any more, or one "
                "before it was deleted. Send the conversation again."
            )

    def resent(self, ends: Sequence[tuple[int, bytes]], owner: str) -> Resent | None:
        """The newest turn that a conversation goes on from which is sent whole, by the marks of
        where one may have ended."""
        for items, mark in ends:
            link = self._unstored.get(owner, mark.hex())
            if link is not None:
                return Resent(link, items)
        return None

    def remember(self, link: Link, owner: str) -> None:
        """One that is not stored, while memory lasts: its client may say it again."""
        if link.mark and link.output:
            self._unstored.put(owner, link.mark.hex(), link)

    async def made(self, ticket: Ticket, turn: Turn, length: int, owner: str) -> Link:
        """Return a turn that has ended as something to continue from; ``length`` in tokens."""
        output, parent = tuple(turn.response.output), ticket.parent
        marked = not ticket.request.stored
        size = ticket.request.size
        if marked and parent is not None and not parent.mark:
            size += sum(each.size for each in links_of(parent))
        weigh = partial(_weighed, marked=marked)
        weight, mark = await self._large.run(owner, size, weigh, parent, ticket.input, output)
        return Link(
            turn.id,
            parent,
            ticket.input,
            output,
            length if turn.response.usage is not None else 0,
            _is_whole(turn.response),
            self._memory.note(owner, "links", weight),
            mark,
        )

    async def save(self, link: Link, response: Response, owner: str) -> Link:
        """Put a turn on record whose beginning is not."""
        kept = link.parent is None or link.parent.kept
        said = link.input if kept else (*past_items(link.parent), *link.input)
        parent = link.parent if kept else None
        await self._store.save(_stored(response, parent, said, link.tokens, owner))
        return self.ended(link, owner)

    def ended(self, link: Link, owner: str) -> Link:
        """Its end is on record, and it can be continued from there."""
        link = replace(link, kept=True)
        self._links.put(owner, link.id, link)
        return link

    # -- single turns -----------------------------------------------------------------------------

    async def stat(self, response_id: str, owner: str) -> TurnStat | None:
        """Return what is on record of a turn, open or ended, without reading it."""
        return await self._store.stat(response_id, owner)

    async def response(self, response_id: str, owner: str) -> tuple[bytes, Held] | None:
        """Return the response of a turn that has ended, for its client, and what counts its memory;
        None if no such turn has ended."""
        async with self.reads.slot(owner) as slot:
            stat = await self._store.stat(response_id, owner)
            if stat is None or stat.status is None:
                return None
            held = slot.take("answers", stat.response_bytes)
            found = await self._store.response(response_id, owner)
            if found is None:
                return None
            body = _shown(found, response_id)
            held.resize(len(body))
            return body, held

    async def stored_response(self, response_id: str, owner: str) -> StoredResponse | None:
        """Return what is on record of how a turn ended; its memory is counted by the caller."""
        return await self._store.response(response_id, owner)

    async def input_page(
        self, response_id: str, owner: str, page: PageReader
    ) -> tuple[bytes, Held] | None:
        """Return one page of the input of a turn that has ended, and what counts its memory; None
        if no such turn has ended."""
        async with self.reads.slot(owner) as slot:
            stat = await self._store.stat(response_id, owner)
            if stat is None or stat.status is None:
                return None
            held = slot.take("answers", stat.input_bytes + stat.response_bytes)
            turn = await self._store.load(response_id, owner)
            if turn is None:
                return None
            with _readable(response_id):
                for items in decode_array(_raw_items.decode, turn.input):
                    page.take(items)
                    if page.is_full:
                        break
                    await slot.rest()
            body = encode(page.result())
            held.resize(len(body))
            return body, held

    async def delete(self, response_id: str, owner: str) -> bool:
        """Whether there was such a turn; what is remembered of another owner's stays."""
        stored = await self._store.delete(response_id, owner)
        recorded = await self.events.delete(response_id, owner)
        self.forget(owner)
        return stored or recorded

    def forget(self, owner: str) -> None:
        """Later turns of a chain hold a deleted one; they must not be continued from memory."""
        self._forgotten += 1
        self._links.clear(owner)
        self._unstored.clear(owner)

    @property
    def trouble(self) -> str | None:
        """Why turns cannot be kept just now; None if they can."""
        return self._store.trouble

    async def prune(self, now: int) -> int:
        return await self._store.prune(now)

    async def close(self) -> None:
        await self._store.close()


def _stored(
    response: Response, parent: Link | None, said: Sequence[Item], tokens: int, owner: str
) -> StoredTurn:
    return StoredTurn(
        id=response.id,
        owner=owner,
        previous_id=parent.id if parent else None,
        created_at=response.created_at,
        tokens=tokens,
        input=encode(said),
        response=encode(response),
    )


async def _decoded(data: bytes, held: Held, slot: Slot) -> tuple[Item, ...]:
    """The items of this array, each part of which is counted before it is decoded."""

    def decode(part: bytes) -> list[Item]:
        size = _size(part)
        held.extend(size)
        try:
            return _items.decode(part)
        except msgspec.DecodeError:
            held.resize(held.size - size)
            raise

    items: list[Item] = []
    for some in decode_array(decode, data):
        items += some
        await slot.rest(min(len(data), PART_BYTES) + _ARRAY_BYTES)
    return tuple(items)


def _shown(found: StoredResponse, response_id: str) -> bytes:
    """The response as its client is to see it.

    Older versions put a background turn on record before it had ended. One that was accepted then
    and has no end failed with its process.
    """
    if found.status != RECORDED:
        return found.response
    with _readable(response_id):
        if _ended.decode(found.response).status not in _LIVE:
            return found.response
        fields = _fields.decode(found.response)
    error = ResponseProblem("server_restarted", _STOPPED)
    return encode(fields | {"status": "failed", "error": error})
