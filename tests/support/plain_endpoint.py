"""Somebody else's Responses endpoint: HTTP alone, no WebSocket, no field it has not heard of."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

_KNOWN = {"model", "input", "store", "stream", "max_output_tokens", "previous_response_id"}


class PlainEndpoint:
    """``with PlainEndpoint(answer) as endpoint``; ``answer`` gives the deltas for a body."""

    def __init__(self, answer: Callable[[dict[str, Any]], list[str]]) -> None:
        self.answer = answer
        self.bodies: list[dict[str, Any]] = []
        """Of the requests that were not refused."""
        self.refused: list[str] = []
        self.go_on = threading.Event()
        """Set it, and the second half of an answer comes."""
        self.go_on.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.endpoint = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> PlainEndpoint:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def endpoint(self) -> PlainEndpoint:
        found: PlainEndpoint = self.server.endpoint  # type: ignore[attr-defined]
        return found

    def do_GET(self) -> None:
        self.send_error(405)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        unknown = sorted(set(body) - _KNOWN)
        if self.path != "/v1/responses":
            self.send_error(404)
        elif unknown:
            self._refuse(unknown[0])
        else:
            self.endpoint.bodies.append(body)
            self._stream(body)

    def _refuse(self, field: str) -> None:
        self.endpoint.refused.append(field)
        error = {
            "message": f"Unknown parameter: '{field}'.",
            "type": "invalid_request_error",
            "param": field,
            "code": "unknown_parameter",
        }
        said = json.dumps({"error": error}).encode()
        self.send_response(400)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def _stream(self, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        response = {"id": f"resp_{len(self.endpoint.bodies)}", "model": body.get("model", "other")}
        self._event({"type": "response.created", "response": response})
        deltas = self.endpoint.answer(body)
        for number, delta in enumerate(deltas):
            if number == len(deltas) // 2:
                self.endpoint.go_on.wait(30)
            self._event({"type": "response.output_text.delta", "delta": delta})
        response |= {"status": "completed", "usage": {"output_tokens": len(deltas)}}
        self._event({"type": "response.completed", "response": response})

    def _event(self, event: dict[str, Any]) -> None:
        try:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        except OSError:
            pass

    def log_message(self, *args: object) -> None:
        pass
