"""The Responses API over plain HTTP, spoken to as if it were a WebSocket.

For endpoints that have no WebSocket. What the server would do there is done here: the newest
conversation is remembered, a steer breaks the answer off and asks again with what was said so far.
Where there is no Responses API either, the same is asked as a chat.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from msgspec.structs import replace

from vivace.client.chat import ChatReader, chat_body
from vivace.client.endpoint import Endpoint
from vivace.client.errors import ClientError
from vivace.client.events import Failure, Response, ServerEvent, Steered, decode_event

__all__ = ["HttpWire"]

_WAITING = 256
"""So many events may wait to be read; then the server waits."""

Event = dict[str, Any]


class HttpWire:
    """Events in and out, one response at a time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._events: asyncio.Queue[ServerEvent | ClientError] = asyncio.Queue()
        self._room = asyncio.Event()
        """Set while few events wait: a server does not fill the memory of who reads slowly."""
        self._reading: asyncio.Task[None] | None = None
        self._body: Event = {}
        self._items: list[Any] = []
        """The conversation up to what is being answered."""
        self._said: list[str] = []
        self._response: Response | None = None
        self._steered: list[Steered] = []
        """What was said and no answer to it has begun."""
        self._chats = False
        """Whether the server is known to have nothing but chats."""

    async def send(self, event: Event) -> None:
        match event["type"]:
            case "response.create":
                self._create({name: each for name, each in event.items() if name != "type"})
            case "response.steer":
                await self._steer(event)
            case "response.interrupt":
                await self._interrupt()

    async def next(self) -> ServerEvent:
        event = await self._events.get()
        if self._events.qsize() < _WAITING:
            self._room.set()
        if isinstance(event, ClientError):
            raise event
        return event

    async def close(self) -> None:
        await self._stop()
        await self._endpoint.close()

    @property
    def _running(self) -> bool:
        return self._reading is not None and not self._reading.done()

    def _create(self, body: Event) -> None:
        given = body.get("input") or []
        items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        body.pop("idempotency_key", None)  # nothing is sent again here
        previous = body.pop("previous_response_id", None)
        if previous is not None and self._response and previous == self._response.id:
            items = [*self._conversation(), *items]
        elif previous is not None:
            body["previous_response_id"] = previous
        self._body = body
        self._begin(items)

    def _conversation(self) -> list[Any]:
        said = "".join(self._said)
        answer = [{"role": "assistant", "content": said}] if said else []
        return [*self._items, *answer]

    def _begin(self, items: list[Any]) -> None:
        self._items, self._said, self._response = items, [], None
        self._reading = asyncio.create_task(self._read(self._body | {"input": items}))

    async def _steer(self, event: Event) -> None:
        steer = Steered(input=event.get("input"), when=event.get("when"))
        if steer.ends_thinking:
            cannot = Failure("This needs a WebSocket to Vivace.", "steering_not_supported")
            failed = ServerEvent(type="response.steer.failed", steer=steer, error=cannot)
            self._events.put_nowait(failed)
            return
        if not self._running:
            over = Failure("The answer is over.", "response_already_completed")
            failed = ServerEvent(type="response.steer.failed", steer=steer, error=over)
            self._events.put_nowait(failed)
            return
        await self._break_off()
        self._events.put_nowait(ServerEvent(type="response.steer.accepted", steer=steer))
        self._begin([*self._conversation(), {"role": "user", "content": event["input"]}])
        self._steered.append(replace(steer, id=f"steer-{len(self._steered)}"))

    async def _interrupt(self) -> None:
        await self._break_off()
        over = Failure("The answer was stopped.", "response_not_active")
        for steer in self._steered:
            failed = ServerEvent(type="response.steer.failed", steer=steer, error=over)
            self._events.put_nowait(failed)
        self._steered.clear()
        self._events.put_nowait(ServerEvent(type="response.interrupt.accepted"))

    async def _break_off(self) -> None:
        if self._running:
            await self._stop()
            stopped = self._response and replace(self._response, status="incomplete")
            self._events.put_nowait(ServerEvent(type="response.incomplete", response=stopped))

    async def _stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    async def _read(self, body: Event) -> None:
        ended = False
        try:
            async with contextlib.aclosing(self._answer(body)) as answer:
                async for event in answer:
                    self._note(event)
                    await self._pass_on(event)
                    ended = ended or event.ends or event.type == "error"
            if not ended:
                raise self._endpoint.broke_off()
        except ClientError as error:
            self._events.put_nowait(error)

    async def _answer(self, body: Event) -> AsyncGenerator[ServerEvent, None]:
        refused: ClientError | None = None
        if not self._chats:
            try:
                async with contextlib.aclosing(self._as_response(body)) as answer:
                    async for event in answer:
                        yield event
                return
            except ClientError as error:
                if not _unknown(error):
                    raise
                refused = error
        try:
            async with contextlib.aclosing(self._as_chat(body)) as answer:
                async for event in answer:
                    self._chats = True
                    yield event
        except ClientError as error:
            raise refused if refused is not None and _unknown(error) else error from None

    async def _as_response(self, body: Event) -> AsyncGenerator[ServerEvent, None]:
        answer = self._endpoint.post("/responses", body | {"stream": True})
        async with contextlib.aclosing(answer):
            async for data in answer:
                if (event := decode_event(data)) is not None:  # [DONE]
                    yield event

    async def _as_chat(self, body: Event) -> AsyncGenerator[ServerEvent, None]:
        reader = ChatReader()
        answer = self._endpoint.post("/chat/completions", chat_body(body) | {"stream": True})
        async with contextlib.aclosing(answer):
            async for data in answer:
                for event in reader.read(data):
                    yield event

    def _note(self, event: ServerEvent) -> None:
        self._response = event.response or self._response
        if event.type == "response.created":
            self._steered.clear()
        if event.text:
            self._said.append(event.text)

    async def _pass_on(self, event: ServerEvent) -> None:
        self._events.put_nowait(event)
        if self._events.qsize() >= _WAITING:
            self._room.clear()
            await self._room.wait()


def _unknown(refused: ClientError) -> bool:
    """Whether there is no such API, rather than no such model."""
    return refused.status in (404, 405) and refused.param != "model"
