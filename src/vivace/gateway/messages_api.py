"""Anthropic's Messages API, over HTTP."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from vivace.errors import EngineRefused, InvalidRequest, RequestError, Unavailable
from vivace.gateway.catalogue import Catalogue
from vivace.gateway.http import EventStream, json_response, read_body, run_turn, speaks_errors
from vivace.gateway.runner import Runner
from vivace.protocol.codec import framed
from vivace.protocol.events import ErrorFrame, ResponseProblem
from vivace.protocol.messages_api.errors import error_event
from vivace.protocol.messages_api.request import Asked, decode_messages
from vivace.protocol.messages_api.stream import PING, MessageEvents, message
from vivace.protocol.messages_api.types import TokenCount

__all__ = ["MessagesApi"]


class MessagesApi:
    def __init__(self, runner: Runner, catalogue: Catalogue, max_body: int) -> None:
        self._runner = runner
        self._catalogue = catalogue
        self._max_body = max_body

    def routes(self) -> list[Route]:
        return [
            Route("/v1/messages", speaks_errors(self.create), methods=["POST"]),
            Route("/v1/messages/count_tokens", speaks_errors(self.count), methods=["POST"]),
            Route("/", self.greet, methods=["HEAD"]),
        ]

    async def create(self, request: Request) -> HttpResponse:
        asked = await self._read(request)
        if asked.stream:
            return EventStream(
                self._runner,
                request,
                asked.create,
                MessageEvents(asked.estimate, omits_thoughts=asked.omits_thoughts),
                asked.explain,
                frame_error=_framed_error,
                end=b"",
                ping=PING,
            )
        try:
            response = await run_turn(self._runner, asked.create, request)
        except RequestError as error:
            raise asked.explain(error) from None
        if response.error is not None:
            raise _failure(response.error)
        return json_response(message(response, omits_thoughts=asked.omits_thoughts))

    async def count(self, request: Request) -> HttpResponse:
        asked = await self._read(request)
        tokens = await self._runner.planner.count(asked.create, request.state.owner)
        return json_response(TokenCount(tokens))

    async def greet(self, request: Request) -> HttpResponse:
        """Claude Code asks whether anybody is here before it asks anything else."""
        return HttpResponse()

    async def _read(self, request: Request) -> Asked:
        conversation = request.headers.get("x-claude-code-session-id")
        asked = await read_body(
            request,
            partial(decode_messages, conversation=conversation),
            limit=self._max_body,
            reader=self._runner.reader,
        )
        body = asked.create.body
        named = replace(body, model=self._catalogue.stand_in(body.model))
        return replace(asked, create=replace(asked.create, body=named))


def _failure(problem: ResponseProblem) -> RequestError:
    """This API has no failed answer, only an error; its clients repeat what they may repeat."""
    kind = InvalidRequest if problem.code == EngineRefused.code else Unavailable
    return kind(problem.message, code=problem.code)


def _framed_error(frame: ErrorFrame) -> bytes:
    return framed(error_event(frame))
