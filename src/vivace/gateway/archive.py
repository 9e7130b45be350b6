"""What the gateway remembers of turns: those running, the recent ones, and the stored ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vivace.conversation.chain import Link
from vivace.errors import InvalidRequest, RequestError, ServerFault
from vivace.gateway.records import Record
from vivace.protocol.codec import encode
from vivace.protocol.events import IncompleteDetails, Response, ResponseProblem
from vivace.protocol.items import Item
from vivace.store.base import Store, StoredTurn

__all__ = ["Archive", "is_whole", "no_parent"]

T = TypeVar("T")


class _Ended(Struct):
    output: list[Item] = []
    status: str = "completed"
    incomplete_details: IncompleteDetails | None = None


_items: msgspec.json.Decoder[list[Item]] = msgspec.json.Decoder(list[Item])
_ended: msgspec.json.Decoder[_Ended] = msgspec.json.Decoder(_Ended)


_fields: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, msgspec.Raw])

_LIVE = frozenset({"queued", "in_progress"})
_STOPPED = "This server stopped while it was in progress; send the request again."


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


def no_parent(why: str) -> RequestError:
    """A response that is known but cannot be continued; clients know this code, and start anew."""
    return InvalidRequest(why, code="previous_response_not_found", param="previous_response_id")


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
            if ended.status in _LIVE:
                raise no_parent(f"Response '{turn.id}' has failed. {_STOPPED}")
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

    async def accept(
        self, response: Response, parent: Link | None, said: Sequence[Item], owner: str
    ) -> None:
        """Keep a response that has just begun, so that it is never unknown to who waits for it."""
        await self._store.save(_stored(response, parent, said, 0, owner))

    async def save(self, link: Link, response: Response, owner: str) -> None:
        await self._store.save(_stored(response, link.parent, link.input, link.tokens, owner))
        self._remember(link, owner)

    def _remember(self, link: Link, owner: str) -> None:
        self._links[owner, link.id] = link
        while len(self._links) > self._recent:
            self._links.popitem(last=False)

    # -- single turns -----------------------------------------------------------------------------

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
        recorded = self.record(response_id, owner) is not None
        stored = await self._store.delete(response_id, owner)
        if recorded:
            self._records.pop(response_id, None)
        # Later turns of the chain hold the deleted one; they must not be continued from memory.
        for key in [key for key in self._links if key[0] == owner]:
            del self._links[key]
        return stored or recorded

    @property
    def trouble(self) -> str | None:
        """Why turns cannot be kept just now; None if they can."""
        return self._store.trouble

    async def prune(self, now: int) -> int:
        return await self._store.prune(now)

    async def close(self) -> None:
        await self._store.close()

    # -- background -------------------------------------------------------------------------------

    def record(self, response_id: str, owner: str) -> Record | None:
        record = self._records.get(response_id)
        return record if record is not None and record.owner == owner else None

    def open_record(self, response_id: str, owner: str) -> Record:
        record = self._records[response_id] = Record(owner)
        while len(self._records) > self._recent:
            self._records.popitem(last=False)
        return record


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
