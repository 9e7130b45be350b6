"""The Responses API over HTTP: making turns, and what can be done with those that are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from vivace.conversation import compaction
from vivace.errors import InvalidRequest, NotFound, RequestError, StoreError
from vivace.gateway.client_connection import connect
from vivace.gateway.http import (
    WAITING,
    Begun,
    EventStream,
    Handler,
    Replay,
    json_response,
    raised,
    read_body,
    run_turn,
    speaks_errors,
    whole_number,
)
from vivace.gateway.ids import new_id, now
from vivace.gateway.input_pages import PageReader
from vivace.gateway.keeping.reviving import PASSING
from vivace.gateway.ports import Told
from vivace.gateway.resuming.again import steered_before
from vivace.gateway.resuming.telling import not_kept
from vivace.gateway.runner import Runner
from vivace.protocol.codec import decode_compact, decode_create, decode_steer, encode
from vivace.protocol.events import Compacted, ErrorFrame, Response, SteerFailed
from vivace.protocol.ids import NO_ID, is_id
from vivace.protocol.items import Message, text_of
from vivace.protocol.once import HEADER
from vivace.protocol.requests import CreateBody, CreateResponse, Interrupt, Steer
from vivace.scheduling.memory import Held

__all__ = ["ResponsesApi"]

T = TypeVar("T")

_OPEN = frozenset({"queued", "in_progress"})
_FORGOTTEN = 0.01
"""Seconds after which a turn that another gateway took is looked for again."""
_SWITCH = {"true": True, "1": True, "false": False, "0": False}


class ResponsesApi:
    def __init__(self, runner: Runner, max_body: int) -> None:
        self._runner = runner
        self._max_body = max_body

    def routes(self) -> list[Route]:
        def route(path: str, method: str, handler: Handler) -> Route:
            return Route(path, speaks_errors(handler), methods=[method])

        one = "/v1/responses/{id}"
        return [
            route("/v1/responses", "POST", self.create),
            route("/v1/responses/compact", "POST", self.compact),
            route(one, "GET", self.retrieve),
            route(one, "DELETE", self.delete),
            route(f"{one}/cancel", "POST", self.cancel),
            route(f"{one}/steer", "POST", self.steer),
            route(f"{one}/interrupt", "POST", self.interrupt),
            route(f"{one}/input_items", "GET", self.input_items),
        ]

    async def _read(self, request: Request, decode: Callable[[str, Held], T]) -> T:
        return await read_body(request, decode, limit=self._max_body, reader=self._runner.reader)

    async def create(self, request: Request) -> HttpResponse:
        codex: bool = request.state.codex
        try:
            decode = partial(decode_create, key=request.headers.get(HEADER))
            create = await self._read(request, decode)
        except RequestError as error:
            if not codex:  # which always asks for a stream
                raise
            return EventStream(self._runner, request, error, codex=True)
        if create.body.background:
            return await self._create_in_background(create, request)
        if create.body.stream:
            ping = WAITING if create.once is not None else b""  # its turn may run elsewhere
            return EventStream(self._runner, request, create, codex=codex, ping=ping)
        body = encode(await run_turn(self._runner, create, request))
        held = self._runner.memory.note(request.state.owner, "answers", len(body))
        return json_response(body, held)

    async def _create_in_background(self, create: CreateResponse, request: Request) -> HttpResponse:
        state = request.state
        begun = Begun()
        connection = connect(
            self._runner, begun, state.owner, state.request_id, traceparent=state.traceparent
        )
        await connection.receive(create)
        begins = asyncio.ensure_future(begun.known.wait())
        elsewhere = connection.again.awaited
        either: set[asyncio.Future[Any]] = {begins, elsewhere}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        begins.cancel()
        state.headers = connection.headers
        response_id = elsewhere.result() if elsewhere.done() else begun.result().id
        if create.body.stream:
            record = await self._runner.telling.record(response_id, state.owner)
            # It runs already, so its reader is not refused.
            held = self._runner.memory.note(state.owner, "answers", record.weight)
            return Replay(record, -1, held)
        if connection.again.told:
            await connection.close()
            return await self._as_it_stands(response_id, state.owner)
        return json_response(begun.result())

    async def compact(self, request: Request) -> HttpResponse:
        asked = await self._read(request, decode_compact)
        body = CreateBody(
            model=asked.body.model,
            previous_response_id=asked.body.previous_response_id,
            instructions=asked.body.instructions,
            prompt_cache_key=asked.body.prompt_cache_key,
            store=False,
        )
        items = (*asked.items, compaction.question())
        create = CreateResponse(body, items, held=asked.held, skipped=asked.skipped)
        done = await run_turn(self._runner, create, request)
        if done.status != "completed" or done.usage is None:
            raise InvalidRequest(
                "The conversation could not be summarised: the model did not finish. Try again, "
                "or compact a shorter part.",
                code="compaction_failed",
            )
        summary = "".join(
            text_of(item.content) for item in done.output if isinstance(item, Message)
        )
        return json_response(
            Compacted(
                id=new_id("cmpr"),
                created_at=now(),
                output=[compaction.pack(summary, new_id)],
                usage=done.usage,
            )
        )

    async def retrieve(self, request: Request) -> HttpResponse:
        response_id, owner = _id_in(request), request.state.owner
        stream = request.query_params.get("stream", "false")
        if stream not in _SWITCH:
            raise InvalidRequest("stream is true or false.", param="stream")
        if _SWITCH[stream]:
            return await self._replay(
                response_id, owner, request.query_params.get("starting_after")
            )
        return await self._as_it_stands(response_id, owner)

    async def _as_it_stands(self, response_id: str, owner: str) -> HttpResponse:
        await self._runner.keeper.presence.settled()
        while (running := await self._runner.runs.find(response_id, owner)) is not None:
            if (response := await running.response()) is not None:
                return await self._ended(response, owner) or await self._answer(response, owner)
            await asyncio.sleep(_FORGOTTEN)
        record = await self._runner.archive.events.find(response_id, owner)
        if record is not None and (unstored := await record.unstored()) is not None:
            return await self._answer(unstored, owner)
        stored = await self._runner.archive.response(response_id, owner)
        if stored is None:
            raise not_kept(response_id)
        return json_response(*stored)

    async def _ended(self, response: Response, owner: str) -> HttpResponse | None:
        """As the record has it: another gateway may have taken a turn and told its end before this
        one knows of either. What nobody can look up is as it is here."""
        if not self._runner.keeper.presence.shared or response.status not in _OPEN:
            return None
        with suppress(StoreError):
            stored = await self._runner.archive.response(response.id, owner)
            return json_response(*stored) if stored is not None else None
        return None

    async def _answer(self, response: Response, owner: str) -> HttpResponse:
        """Counts until it is taken, and is refused while too much waits to be."""
        async with self._runner.archive.reads.slot(owner) as slot:
            body = encode(response)
            return json_response(body, slot.take("answers", len(body)))

    async def _replay(self, response_id: str, owner: str, after: str | None) -> HttpResponse:
        await self._runner.keeper.presence.settled()
        with suppress(*PASSING):  # while somebody reads it, it is tried again
            await self._runner.reviving.wake(response_id, owner)
        start = -1 if after is None else whole_number(after, 0, 10**9)
        if start is None:
            raise InvalidRequest("starting_after is a sequence number.", param="starting_after")
        memory = self._runner.memory
        record = await self._runner.telling.record(response_id, owner)
        return Replay(record, start, memory.take(owner, "answers", record.weight))

    async def cancel(self, request: Request) -> HttpResponse:
        response_id, owner = _id_in(request), request.state.owner
        await self._runner.cancel(response_id, owner)
        return await self.retrieve(request)

    async def steer(self, request: Request) -> HttpResponse:
        """For clients without a socket; the events go to whoever reads the response."""
        response_id = _id_in(request)
        key = request.headers.get(HEADER)
        event = await self._read(request, partial(decode_steer, response_id=response_id, key=key))
        told = await self._tell(event, response_id, request.state.owner)
        return json_response(
            msgspec.to_builtins(told.receipt) | {"successor_id": told.successor_id}
        )

    async def interrupt(self, request: Request) -> HttpResponse:
        response_id = _id_in(request)
        event = Interrupt(response_id=response_id)
        told = await self._tell(event, response_id, request.state.owner)
        return json_response(told.receipt)

    async def _tell(self, event: Steer | Interrupt, response_id: str, owner: str) -> Told:
        told: Told | None = None
        await self._runner.keeper.presence.settled()
        if isinstance(event, Steer):
            store = self._runner.keeper.store
            asking = self._runner.asking
            told = await steered_before(store, event, owner, asking)
            if told is None and event.once is not None and asking is not None:
                told = await asking.tell_first(event, owner)
        running = await self._runner.runs.find_heir(response_id, owner)
        if told is None and running is not None:
            told = await running.tell(event)
        if told is not None:
            if isinstance(told.receipt, ErrorFrame):  # it has ended since it was found
                raise raised(told.receipt)
            if isinstance(told.receipt, SteerFailed):
                payload = told.receipt.error
                raise InvalidRequest(payload.message, code=payload.code)
            return told
        stat = await self._runner.archive.stat(response_id, owner)
        if stat is not None and stat.status is not None:
            raise InvalidRequest(
                f"Response '{response_id}' has ended; continue it with a new one.",
                code="response_already_completed",
            )
        raise NotFound(f"Response '{response_id}' does not run here.", code="response_not_found")

    async def delete(self, request: Request) -> HttpResponse:
        response_id, owner = _id_in(request), request.state.owner
        if not await self._runner.delete(response_id, owner):
            raise not_kept(response_id)
        return json_response({"id": response_id, "object": "response.deleted", "deleted": True})

    async def input_items(self, request: Request) -> HttpResponse:
        response_id, owner = _id_in(request), request.state.owner
        page = await self._runner.archive.input_page(response_id, owner, _page_of(request))
        if page is None:
            raise not_kept(response_id)
        return json_response(*page)


def _id_in(request: Request) -> str:
    """The id in the address; what cannot be one is the id of nothing."""
    response_id: str = request.path_params["id"]
    if not is_id(response_id):
        raise NotFound(NO_ID, code="response_not_found")
    return response_id


def _page_of(request: Request) -> PageReader:
    """Refuses a query that asks for no possible page."""
    query = request.query_params
    limit = whole_number(query.get("limit", "20"), 1, 100)
    if limit is None:
        raise InvalidRequest("limit is a number from 1 to 100.", param="limit")
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidRequest("order is asc or desc.", param="order")
    return PageReader(limit, newest_first=order == "desc", after=query.get("after"))
