"""Somebody else's server: HTTP alone, no WebSocket, each path with an answer of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

__all__ = ["PlainEndpoint", "Refusal", "ResponsesEndpoint", "Routes", "sse"]


class Refusal(Struct, frozen=True):
    status: int
    body: object = None
    headers: Mapping[str, str] = {}


Answer = Iterable[bytes] | Refusal
"""Pieces of a stream, or a refusal."""
Routes = dict[str, Callable[[dict[str, Any]], Answer]]


def sse(*events: object) -> list[bytes]:
    """Each as JSON, or as it stands if it is text."""
    texts = (each if isinstance(each, str) else json.dumps(each) for each in events)
    return [f"data: {text}\n\n".encode() for text in texts]


class PlainEndpoint:
    """``with PlainEndpoint({"/infill": answer}) as endpoint``; other paths are not there (404)."""

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """Every POST, refused or not."""
        self.heard: list[bytes] = []
        """Every request to the last byte."""
        self.left = threading.Event()
        """Somebody went away in the middle of an answer."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.endpoint = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class ResponsesEndpoint(PlainEndpoint):
    """The Responses API, without any field that it has not heard of; ``answer`` gives the deltas
    for a body."""

    _KNOWN = frozenset(
        {"model", "input", "store", "stream", "max_output_tokens", "previous_response_id"}
    )

    def __init__(self, answer: Callable[[dict[str, Any]], list[str]]) -> None:
        super().__init__({"/v1/responses": self._answer})
        self.bodies: list[dict[str, Any]] = []
        """Of the requests that were not refused."""
        self.refused: list[str] = []
        self.go_on = threading.Event()
        """Set it, and the second half of an answer comes."""
        self.go_on.set()
        self._deltas = answer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.go_on.set()
        super().__exit__(kind, error, trace)

    def _answer(self, body: dict[str, Any]) -> Answer:
        unknown = sorted(set(body) - self._KNOWN)
        if not unknown:
            self.bodies.append(body)
            return self._streamed(body)
        self.refused.append(unknown[0])
        error = {
            "message": f"Unknown parameter: '{unknown[0]}'.",
            "type": "invalid_request_error",
            "param": unknown[0],
            "code": "unknown_parameter",
        }
        return Refusal(400, {"error": error})

    def _streamed(self, body: dict[str, Any]) -> Iterator[bytes]:
        response = {"id": f"resp_{len(self.bodies)}", "model": body.get("model", "other")}
        yield from sse({"type": "response.created", "response": response})
        deltas = self._deltas(body)
        for number, delta in enumerate(deltas):
            if number == len(deltas) // 2:
                self.go_on.wait(30)
            yield from sse({"type": "response.output_text.delta", "delta": delta})
        response |= {"status": "completed", "usage": {"output_tokens": len(deltas)}}
        yield from sse({"type": "response.completed", "response": response})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def endpoint(self) -> PlainEndpoint:
        found: PlainEndpoint = self.server.endpoint  # type: ignore[attr-defined]
        return found

    def do_GET(self) -> None:
        self._hear(b"")
        self._refuse(Refusal(404))

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["content-length"]))
        self._hear(sent)
        body = json.loads(sent)
        self.endpoint.asked.append((self.path, body))
        route = self.endpoint.routes.get(self.path)
        answer = Refusal(404) if route is None else route(body)
        if isinstance(answer, Refusal):
            self._refuse(answer)
        else:
            self._stream(answer)

    def _hear(self, body: bytes) -> None:
        self.endpoint.heard.append(f"{self.requestline}\n{self.headers}".encode() + body)

    def _refuse(self, refusal: Refusal) -> None:
        said = b"" if refusal.body is None else json.dumps(refusal.body).encode()
        self.send_response(refusal.status)
        for name, value in refusal.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def _stream(self, pieces: Iterable[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for piece in pieces:
                self.wfile.write(piece)
                self.wfile.flush()
        except OSError:
            self.endpoint.left.set()

    def log_message(self, *args: object) -> None:
        pass
