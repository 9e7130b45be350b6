"""The scripted engine behind a plain HTTP server: what most servers do, and nothing besides.

Starlette on uvicorn and uvloop, JSON by the standard library, one SSE event per token, and
conversations in a dictionary. usage: python -m bench._plain_server PORT RATE TOKENS
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from bench._server import words
from vivace.conversation.deltas import Finished, TextDelta
from vivace.engines.base import Card, Chat, Work
from vivace.engines.scripted import Capacity, Reply, Say, Script, ScriptedEngine
from vivace.protocol.items import Message

PORT, RATE, TOKENS = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
engine = ScriptedEngine(
    "plain",
    [Card("local-model", 131_072)],
    Script((Reply(then=(Say(words(TOKENS)),)),)),
    Capacity(rate=RATE),
)
kept: dict[str, list[dict[str, str]]] = {}


def _work(messages: list[dict[str, str]]) -> Work:
    items = [Message(role=m["role"], content=m["content"]) for m in messages]  # type: ignore[arg-type]
    return Work(id=secrets.token_hex(8), model="local-model", prompt=Chat(items=items))


def _event(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


async def responses(request: Request) -> Response:
    body = json.loads(await request.body())
    messages = [*kept.get(body.get("previous_response_id"), []), *body["input"]]
    response: dict[str, Any] = {"id": f"resp_{secrets.token_hex(8)}", "status": "in_progress"}

    async def events() -> AsyncIterator[str]:
        yield _event({"type": "response.created", "response": response})
        text, number = "", 0
        async for delta in engine.generate(_work(messages)):
            if isinstance(delta, TextDelta):
                text += delta.text
                number += 1
                yield _event(
                    {
                        "type": "response.output_text.delta",
                        "sequence_number": number,
                        "item_id": "msg",
                        "output_index": 0,
                        "content_index": 0,
                        "delta": delta.text,
                    }
                )
            elif isinstance(delta, Finished):
                usage = {"output_tokens": delta.tokens.output}
        kept[response["id"]] = [*messages, {"role": "assistant", "content": text}]
        done = {**response, "status": "completed", "output": [{"text": text}], "usage": usage}
        yield _event({"type": "response.completed", "response": done})
        yield "data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


async def chat(request: Request) -> Response:
    body = json.loads(await request.body())

    def chunk(delta: dict[str, str], **more: Any) -> str:
        choices = [{"index": 0, "delta": delta, "finish_reason": more.pop("reason", None)}]
        shared = {"id": "chatcmpl", "object": "chat.completion.chunk", "created": 0}
        value = {**shared, "model": "local-model", "choices": choices, **more}
        return f"data: {json.dumps(value)}\n\n"

    async def chunks() -> AsyncIterator[str]:
        async for delta in engine.generate(_work(body["messages"])):
            if isinstance(delta, TextDelta):
                yield chunk({"content": delta.text})
            elif isinstance(delta, Finished):
                count = delta.tokens.output
                usage = {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count}
                yield chunk({}, reason="stop", usage=usage)
        yield "data: [DONE]\n\n"

    return StreamingResponse(chunks(), media_type="text/event-stream")


async def ready(request: Request) -> Response:
    return PlainTextResponse("ready")


app = Starlette(
    routes=[
        Route("/v1/responses", responses, methods=["POST"]),
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/readyz", ready),
    ]
)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=PORT, access_log=False, log_level="warning")
