"""What the gateway remembers of turns: those running, the recent ones, and the stored ones."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TypeVar

import msgspec
from msgspec import Struct

from vivace.conversation.chain import Link
from vivace.errors import ServerFault
from vivace.protocol.codec import encode
from vivace.protocol.events import IncompleteDetails, Response
from vivace.protocol.items import Item
from vivace.store.base import Store, StoredTurn

__all__ = ["Archive", "Record", "is_whole"]

T = TypeVar("T")


class _Ended(Struct):
    output: list[Item] = []
    status: str = "completed"
    incomplete_details: IncompleteDetails | None = None


_items: msgspec.json.Decoder[list[Item]] = msgspec.json.Decoder(list[Item])
_ended: msgspec.json.Decoder[_Ended] = msgspec.json.Decoder(_Ended)


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


def is_whole(response: Response | _Ended) -> bool:
    """Whether it came to its own end, or was sent another way by its user."""
    details = response.incomplete_details
    steered = details is not None and details.reason in ("steered", "interrupted")
    return response.status == "completed" or steered


class Record:
    """The events of a response that runs in the background, for whoever comes to read them."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.response: Response | None = None
        self.ended = False
        self._events: list[bytes] = []
        self._changed = asyncio.Event()

    def add(self, encoded: bytes) -> None:
        self._events.append(encoded)
        self._changed.set()

    def end(self) -> None:
        self.ended = True
        self._changed.set()

    async def after(self, number: int) -> list[bytes]:
        """Events later than ``number``; waits for some, and returns none when there are no more."""
        while True:
            # Numbers start at 0 and have no gaps, so a number is a position.
            later = self._events[number + 1 :]
            if later or self.ended:
                return later
            self._changed.clear()
            await self._changed.wait()


class Archive:
    def __init__(self, store: Store, recent: int = 10_000) -> None:
        self._store = store
        self._links: OrderedDict[tuple[str, str], Link] = OrderedDict()
        self._recent = recent
        self._records: OrderedDict[str, Record] = OrderedDict()

    # -- chains -----------------------------------------------------------------------------------

    async def link(self, response_id: str, owner: str) -> Link | None:
        """The stored turn as something to continue from."""
        known = self._links.get((owner, response_id))
        if known is not None:
            self._links.move_to_end((owner, response_id))
            return known
        turns = await self._store.chain(response_id, owner)
        link: Link | None = None
        for turn in turns or ():
            said = _read(_items, turn.input, turn.id)
            ended = _read(_ended, turn.response, turn.id)
            link = Link(
                turn.id,
                link,
                tuple(said),
                tuple(ended.output),
                turn.tokens,
                is_whole(ended),
            )
        if link is not None:
            self._remember(link, owner)
        return link

    async def save(self, link: Link, response: Response, owner: str) -> None:
        await self._store.save(
            StoredTurn(
                id=link.id,
                owner=owner,
                previous_id=link.parent.id if link.parent else None,
                created_at=response.created_at,
                tokens=link.tokens,
                input=encode(link.input),
                response=encode(response),
            )
        )
        self._remember(link, owner)

    def _remember(self, link: Link, owner: str) -> None:
        self._links[owner, link.id] = link
        while len(self._links) > self._recent:
            self._links.popitem(last=False)

    # -- single turns -----------------------------------------------------------------------------

    async def turn(self, response_id: str, owner: str) -> StoredTurn | None:
        """One that can be read; refuses one that cannot."""
        turn = await self._store.load(response_id, owner)
        if turn is not None:
            _read(_items, turn.input, turn.id)
            _read(_ended, turn.response, turn.id)
        return turn

    async def delete(self, response_id: str, owner: str) -> bool:
        """Whether there was such a turn; what is remembered of another owner's stays."""
        recorded = self.record(response_id, owner) is not None
        stored = await self._store.delete(response_id, owner)
        if recorded:
            self._records.pop(response_id, None)
        # Later turns of the chain hold the deleted one; they must not be continued from memory.
        for key in [key for key in self._links if key[0] == owner]:
            del self._links[key]
        return stored or recorded

    async def prune(self, now: int) -> int:
        return await self._store.prune(now)

    async def close(self) -> None:
        await self._store.close()

    # -- background -------------------------------------------------------------------------------

    def record(self, response_id: str, owner: str) -> Record | None:
        record = self._records.get(response_id)
        return record if record is not None and record.owner == owner else None

    def keep_record(self, response_id: str, record: Record) -> None:
        self._records[response_id] = record
        while len(self._records) > self._recent:
            self._records.popitem(last=False)
