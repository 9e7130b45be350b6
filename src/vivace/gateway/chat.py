"""``/v1/chat/completions`` and ``/v1/completions``: thin doors to the same turns."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from vivace.errors import RequestError, Unavailable
from vivace.gateway.http import EventStream, json_response, read_body, run_turn, speaks_errors
from vivace.gateway.runner import Runner
from vivace.protocol.chat import (
    ChatChunks,
    CompletionChunks,
    chat_completion,
    decode_chat,
    decode_completion,
    text_completion,
)
from vivace.protocol.events import Response
from vivace.protocol.requests import CreateResponse

__all__ = ["ChatApi"]


class ChatApi:
    def __init__(self, runner: Runner, max_body: int) -> None:
        self._runner = runner
        self._read = partial(read_body, limit=max_body, reader=runner.reader)

    def routes(self) -> list[Route]:
        return [
            Route("/v1/chat/completions", speaks_errors(self.chat), methods=["POST"]),
            Route("/v1/completions", speaks_errors(self.complete), methods=["POST"]),
        ]

    async def chat(self, request: Request) -> HttpResponse:
        asked, create = await self._read(request, decode_chat)
        if asked.stream:
            chunks = ChatChunks(usage=asked.wants_usage)
            return EventStream(self._runner, request, create, chunks, asked.explain)
        try:
            return json_response(chat_completion(await self._answer(create, request)))
        except RequestError as error:
            raise asked.explain(error) from None

    async def complete(self, request: Request) -> HttpResponse:
        asked, create = await self._read(request, decode_completion)
        if asked.stream:
            chunks = CompletionChunks(usage=asked.wants_usage)
            return EventStream(self._runner, request, create, chunks)
        return json_response(text_completion(await self._answer(create, request)))

    async def _answer(self, create: CreateResponse, request: Request) -> Response:
        """The older APIs have no failed answer, only an error."""
        response = await run_turn(self._runner, create, request)
        if response.error is not None:
            raise Unavailable(response.error.message, code=response.error.code)
        return response
