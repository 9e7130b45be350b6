"""What the gateway remembers of turns: those running, the recent ones, and the stored ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vivace.conversation.chain import Link, links_of, past_items
from vivace.conversation.prefixes import mark_of
from vivace.conversation.session import Resent, Ticket
from vivace.conversation.turn import Turn
from vivace.errors import InvalidRequest, RequestError, ServerFault
from vivace.gateway.large import LargeWork
from vivace.gateway.ports import EventLog
from vivace.gateway.recent import Recent
from vivace.protocol.bounds import footprint
from vivace.protocol.codec import encode
from vivace.protocol.events import IncompleteDetails, Response, ResponseProblem
from vivace.protocol.items import Item
from vivace.scheduling.memory import Memory
from vivace.store.base import Store, StoredTurn, TurnRecord

__all__ = ["Archive", "no_parent"]

T = TypeVar("T")

_UNPACKED = 2
"""Turns on their way from the store whose size is not known before they are here."""


class _Ended(Struct):
    output: list[Item] = []
    status: str = "completed"
    incomplete_details: IncompleteDetails | None = None


_items: msgspec.json.Decoder[list[Item]] = msgspec.json.Decoder(list[Item])
_ended: msgspec.json.Decoder[_Ended] = msgspec.json.Decoder(_Ended)


_fields: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, msgspec.Raw])

_LIVE = frozenset({"queued", "in_progress"})
_STOPPED = (
    "This server stopped while it was in progress, or could not store its end; send the request "
    "again."
)


def _size(data: bytes) -> int:
    return footprint(data.decode(errors="replace"))


def _read(decoder: msgspec.json.Decoder[T], data: bytes, response_id: str) -> T:
    """What was stored may be damaged, or of a version that knew more than this one."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ServerFault(
            f"The stored response '{response_id}' cannot be read: it is damaged, or another "
            "version of this server wrote it. Delete it, and send the conversation again.",
            code="response_unreadable",
        ) from error


def _size_of(turn: StoredTurn) -> int:
    """Return how much memory a stored turn takes as it is unpacked."""
    return _size(turn.input) + _size(turn.response)


def _unpacked(turn: StoredTurn) -> tuple[tuple[Item, ...], _Ended, int]:
    """Return what was said and how it ended, and how much memory that takes."""
    said = _read(_items, turn.input, turn.id)
    ended = _read(_ended, turn.response, turn.id)
    return tuple(said), ended, _size(turn.input) + _size(encode(ended.output))


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
        self.unpacking = asyncio.Semaphore(_UNPACKED)
        """For those who read what nobody has counted yet."""

    async def open(self) -> None:
        await self._store.open()

    # -- chains -----------------------------------------------------------------------------------

    async def link(self, response_id: str, owner: str) -> Link | None:
        """The stored turn as something to continue from."""
        known = self._links.get(owner, response_id)
        if known is not None:
            return known
        link = await self._load(response_id, owner)
        if link is not None:
            self._links.put(owner, link.id, link)
        return link

    async def _load(self, response_id: str, owner: str) -> Link | None:
        """Refused when there is no room for it: a conversation may be larger than any request."""
        rows = self._memory.take(owner, "links", await self._store.weight(response_id, owner))
        link: Link | None = None
        for turn in await self._store.chain(response_id, owner) or ():
            stored = len(turn.input) + len(turn.response)
            size = await self._large.run(owner, stored, _size_of, turn)
            held = self._memory.take(owner, "links", size)
            said, ended, size = await self._large.run(owner, size, _unpacked, turn)
            await asyncio.sleep(0)  # there may be thousands of turns: others are heard in between
            if ended.status in _LIVE:
                raise no_parent(f"Response '{turn.id}' has failed. {_STOPPED}")
            held.resize(size)
            whole = _is_whole(ended)
            output = tuple(ended.output)
            link = Link(turn.id, link, said, output, turn.tokens, whole, held, kept=True)
        del rows
        return link

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

    async def find(self, response_id: str, owner: str) -> TurnRecord | None:
        """All that is on record of one."""
        return await self._store.find(response_id, owner)

    async def turn(self, response_id: str, owner: str) -> StoredTurn | None:
        """One that does not run; refuses one that cannot be read."""
        turn = await self._store.load(response_id, owner)
        if turn is None:
            return None
        _read(_items, turn.input, turn.id)
        live = _read(_ended, turn.response, turn.id).status in _LIVE
        return _failed(turn) if live else turn

    async def delete(self, response_id: str, owner: str) -> bool:
        """Whether there was such a turn; what is remembered of another owner's stays."""
        stored = await self._store.delete(response_id, owner)
        recorded = await self.events.delete(response_id, owner)
        self.forget(owner)
        return stored or recorded

    def forget(self, owner: str) -> None:
        """Later turns of a chain hold a deleted one; they must not be continued from memory."""
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


def _failed(turn: StoredTurn) -> StoredTurn:
    """It was accepted, it does not run, and nobody stored an end: its process died meanwhile."""
    fields = _read(_fields, turn.response, turn.id)
    error = ResponseProblem("server_restarted", _STOPPED)
    return replace(turn, response=encode(fields | {"status": "failed", "error": error}))
