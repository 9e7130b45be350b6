"""An OpenAI-compatible endpoint that says what a test tells it to, and remembers what it was asked.

It is a real server on a real port, so that the engine's own HTTP client is what is tested.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send

from tests.support.threaded import ThreadedServer

Chunk = dict[str, Any]
Body = Callable[[], AsyncIterator[bytes]]
Headers = Sequence[tuple[bytes, bytes]]


def event(chunk: Chunk) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def delta(*, reason: str | None = None, **delta: Any) -> Chunk:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def call(name: str | None = None, arguments: str = "", *, index: int = 0, **more: Any) -> Chunk:
    """A piece of a tool call; the first has the name."""
    function = {"arguments": arguments} | ({"name": name} if name is not None else {})
    return delta(tool_calls=[{"index": index, "function": function, **more}])


def usage(prompt: int, completion: int, **details: Any) -> Chunk:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {"choices": [], "usage": counts | details}


def stream(*chunks: Chunk) -> bytes:
    return b"".join(map(event, chunks)) + b"data: [DONE]\n\n"


ANSWER = stream(delta(role="assistant"), delta(content="Yes."), delta(reason="stop"), usage(5, 2))


class Endpoint:
    """``with Endpoint() as endpoint``; ``answer`` is what comes next, ``asked`` what came."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.sent = 0
        self.disconnected = threading.Event()
        self._headers: Headers = ()
        self.answers(ANSWER)
        config = uvicorn.Config(
            self._app, port=0, log_level="critical", lifespan="off", interface="asgi3"
        )
        self._server = ThreadedServer(config)
        self._thread = threading.Thread(target=self._server.run)

    def answers(
        self,
        *pieces: bytes,
        status: int = 200,
        kind: str = "text/event-stream",
        cut: bool = False,
        headers: Headers = (),
    ) -> None:
        """Pieces are sent one by one; ``cut`` then breaks the connection off."""

        async def body() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece
                await asyncio.sleep(0)

        self.streams(body, status=status, kind=kind, cut=cut)
        self._headers = headers

    def streams(
        self, body: Body, *, status: int = 200, kind: str = "text/event-stream", cut: bool = False
    ) -> None:
        self._body, self._status, self._kind, self._cut = body, status, kind, cut
        self._headers = ()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}/v1"

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = b""
        while (message := await receive()).get("more_body", False):
            asked += message["body"]
        self.asked.append(json.loads(asked + message["body"]))
        self.paths.append(scope["path"])
        self.headers.append({k.decode(): v.decode() for k, v in scope["headers"]})
        headers = [(b"content-type", self._kind.encode()), *self._headers]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        leaving = asyncio.create_task(self._await_disconnect(receive))
        async for piece in self._body():
            if self.disconnected.is_set():
                return
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            self.sent += len(piece)
        leaving.cancel()
        if self._cut:
            raise ConnectionAbortedError  # uvicorn closes without the end of the body
        await send({"type": "http.response.body", "body": b""})

    async def _await_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.disconnected.set()

    def __enter__(self) -> Endpoint:
        self._thread.start()
        self._server.wait_until_it_listens(self._thread)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        self._thread.join(10)
