"""OpenAI's own SDK in a loop: a conversation by ``previous_response_id``, with a tool, and a key
for every request as docs/how/durability.md tells clients to send it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import httpx2
import openai
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from openai.types.responses import Response
from tests.support.http import key

from chaos.loops.client import Ended, Gate
from chaos.loops.script import SDK, STEP, TURNS, came_out, question, wrong
from chaos.sessions import MODEL
from vivace.engines.scripted import Recite

__all__ = ["SdkLoop"]

_TOOL: Any = {
    "type": "function",
    "name": STEP,
    "description": "Takes a step.",
    "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}},
    "strict": None,
}
_TRIES = 5
"""Of a stream that breaks off: the SDK sends nothing again once it has begun."""


class WrongAnswer(Exception):
    """An answer that is not the right one."""


class SdkLoop:
    """One, from its first question to its last answer."""

    def __init__(
        self, folder: Path, url: str, owner: str, name: str, *, stream: bool, keys: bool
    ) -> None:
        """Without ``stream`` it waits for whole answers. Without ``keys`` it sends none."""
        self.gate = Gate(folder / "gate")
        self._url = url
        self._owner = owner
        self._name = name
        self._stream = stream
        self._keys = keys
        self._turn = 0
        self._requests = 0
        self._shown: list[tuple[str, str]] = []
        """What the conversation has, as engines tell of it."""

    async def run(self) -> Ended:
        http = DefaultAsyncHttpxClient(event_hooks={"request": [self._sent]})
        given: dict[str, Any] = {"api_key": key(self._owner), "http_client": http}
        why = ""
        async with AsyncOpenAI(base_url=f"{self._url}/v1", **given) as client:
            try:
                await self._turns(client)
            except (openai.APIError, httpx2.HTTPError, WrongAnswer) as error:
                why = f"turn {self._turn}: {type(error).__name__}: {error}"
        return Ended(self._requests - self._turn, why)

    async def _sent(self, _: object) -> None:
        self._requests += 1

    async def _turns(self, client: AsyncOpenAI) -> None:
        text = question(SDK, self._name)
        self._shown.append(("user", text))
        given: dict[str, Any] = {"input": text}
        for self._turn in range(1, TURNS + 1):
            answer = await self._ask(client, given)
            self._check(answer)
            if self._turn < TURNS:
                given = {"previous_response_id": answer.id, "input": await self._step(answer)}

    async def _ask(self, client: AsyncOpenAI, given: dict[str, Any]) -> Response:
        headers = {"Idempotency-Key": f"{self._name}-{self._turn}"} if self._keys else {}
        asked = {"model": MODEL, "tools": [_TOOL], "extra_headers": headers, **given}
        if not self._stream:
            made: Response = await client.responses.create(**asked)
            return made
        for _ in range(_TRIES):
            with contextlib.suppress(openai.APIConnectionError, httpx2.HTTPError):
                if (ended := await _read(client, asked)) is not None:
                    return ended
        raise WrongAnswer(f"the stream broke off {_TRIES} times")

    def _check(self, answer: Response) -> None:
        """Whether it is the right one; the last tells whether the engine was shown all that came
        before, once."""
        text, last = answer.output_text, self._turn == TURNS
        why = wrong(text, last=last)
        if answer.status != "completed":
            why = f"it is {answer.status}: {answer.error or answer.incomplete_details}"
        elif last and Recite.text(self._shown) not in text:
            why = "the engine was not shown what came before"
        if why is not None:
            raise WrongAnswer(why)
        self._shown.append(("assistant", text))

    async def _step(self, answer: Response) -> list[Any]:
        """What the tool says that it calls."""
        calls = [item for item in answer.output if item.type == "function_call"]
        if [call.arguments for call in calls] != [f'{{"number":{self._turn}}}']:
            raise WrongAnswer(f"it calls {[call.arguments for call in calls]}")
        await self.gate.passed()
        output = came_out(SDK, self._turn)
        self._shown += [("function_call", calls[0].arguments), ("function_call_output", output)]
        given = {"type": "function_call_output", "call_id": calls[0].call_id, "output": output}
        return [given]


async def _read(client: AsyncOpenAI, asked: dict[str, Any]) -> Response | None:
    """The response that a stream ends with; None if it has no end."""
    async with await client.responses.create(**asked, stream=True) as stream:
        async for event in stream:
            if event.type in ("response.completed", "response.failed", "response.incomplete"):
                ended: Response = event.response
                return ended
    return None
