"""A ``llama-server`` that plays an engine's script: a process that can be killed and frozen as the
real one can, and whose words tell whether another went on right where it stopped.

It speaks as much of llama.cpp's API as our engine asks for. What it says are marks
(``chaos.marks``): for a raw prompt that ends in some of them, those that follow.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import secrets
import sys
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from chaos.marks import MARK

__all__ = ["main"]

_ANSWER = "\n<|answer|>\n"
"""Behind the prompt as the chat template writes it."""
_LENGTHS = {"TEXT": 120, "LONG": 300, "CALL": 40, "THINK": 60}
_RATE = 60
_THOUGHT = " Hm, well."

_incarnation = f"n{secrets.token_hex(3)}"
_working = Path(os.environ["CHAOS_POINTS"]) / f"working-{os.getpid()}"
_answers = 0


def _newest(messages: list[dict[str, Any]]) -> str:
    spoken = [each["content"] for each in messages if each["role"] in ("user", "tool")]
    return str(spoken[-1]) if spoken else ""


def _deltas(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of a chat."""
    newest = _newest(messages)
    word = newest.partition(" ")[0]
    if word == "THINK":
        yield {"reasoning_content": _THOUGHT}
    for mark in _marks(newest, 0, 1):
        yield {"content": mark}
    if word == "CALL":
        call = {"name": "look", "arguments": "{}"}
        yield {"tool_calls": [{"index": 0, "id": f"call_{secrets.token_hex(4)}", "function": call}]}


def _marks(newest: str, begin: int, attempt: int) -> Iterator[str]:
    marker = f"{zlib.crc32(newest.encode()):08x}"
    for index in range(begin, _LENGTHS.get(newest.partition(" ")[0], 50)):
        yield f" m{marker}.{index}@{_incarnation}.a{attempt}"


def _rest(prompt: str) -> Iterator[str]:
    """What follows a raw prompt, thoughts that had not ended with their end."""
    chat, _, said = prompt.rpartition(_ANSWER)
    found = list(MARK.finditer(said))
    if said and not found:
        yield "\n</think>\n\n"
    attempt = int(found[-1]["attempt"]) + 1 if found else 1
    yield from _marks(_newest(json.loads(chat)), len(found), attempt)


async def _stream(chunks: Iterator[dict[str, Any]], most: int | None) -> AsyncIterator[bytes]:
    global _answers
    _answers += 1
    _working.touch()
    count = 0
    try:
        for chunk in itertools.islice(chunks, most):
            count += 1
            await asyncio.sleep(1 / _RATE)
            yield _event({"choices": [{"index": 0, **chunk}]})
        reason = "length" if most is not None and count >= most else "stop"
        last = {"index": 0, "delta": {}, "finish_reason": reason}
        usage = {"prompt_tokens": 10, "completion_tokens": count, "total_tokens": 10 + count}
        yield _event({"choices": [last], "usage": usage})
        yield b"data: [DONE]\n\n"
    finally:
        _answers -= 1
        if not _answers:
            _working.unlink(missing_ok=True)


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


async def _chat(request: Request) -> Response:
    body = await request.json()
    chunks = ({"delta": each} for each in _deltas(body["messages"]))
    return StreamingResponse(_stream(chunks, body.get("max_tokens")), media_type=_EVENTS)


async def _completion(request: Request) -> Response:
    body = await request.json()
    chunks = ({"text": each} for each in _rest(body["prompt"]))
    return StreamingResponse(_stream(chunks, body.get("max_tokens")), media_type=_EVENTS)


async def _template(request: Request) -> Response:
    body = await request.json()
    return JSONResponse({"prompt": json.dumps(body["messages"]) + _ANSWER})


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


_EVENTS = "text/event-stream"


def main() -> None:
    app = Starlette(
        routes=[
            Route("/health", _health),
            Route("/apply-template", _template, methods=["POST"]),
            Route("/v1/chat/completions", _chat, methods=["POST"]),
            Route("/v1/completions", _completion, methods=["POST"]),
        ]
    )
    socket = sys.argv[sys.argv.index("--host") + 1]
    uvicorn.run(app, uds=socket, log_level="error")
