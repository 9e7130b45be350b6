"""The ways a client can reach an engine, each with its own conversation, told alike.

Every way does the same turn: send what its protocol needs, and note when the first and the last
token came. What differs is what has to be sent and who stands in between.
"""

from __future__ import annotations

import json
import random
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from bench._http import LeanHttp


@dataclass
class Timing:
    first: float
    wall: float
    tokens: int
    text: str


class Way(ABC):
    """One client with one conversation."""

    def __init__(self, name: str, port: int, model: str, max_tokens: int) -> None:
        self.name = name
        self.port = port
        self.model = model
        self.max_tokens = max_tokens
        self.history: list[dict[str, str]] = []
        self.previous: str | None = None

    async def turn(self, text: str) -> Timing:
        message = {"role": "user", "content": text}
        self.history.append(message)
        timing = await self.ask(message)
        self.history.append({"role": "assistant", "content": timing.text})
        return timing

    def forget(self) -> None:
        """Begin another conversation on the same connection."""
        self.history.clear()
        self.previous = None

    @abstractmethod
    async def ask(self, message: dict[str, str]) -> Timing: ...

    @abstractmethod
    async def close(self) -> None: ...


class _OverHttp(Way):
    path = "/v1/responses"
    delta = b"response.output_text.delta"

    def __init__(self, name: str, port: int, model: str, max_tokens: int) -> None:
        super().__init__(name, port, model, max_tokens)
        self._http = LeanHttp(port)

    def body(self, message: dict[str, str]) -> dict[str, Any]:
        raise NotImplementedError

    async def ask(self, message: dict[str, str]) -> Timing:
        started = time.perf_counter()
        first = 0.0
        pieces: list[bytes] = []
        last = b""
        async for data in self._http.post(self.path, json.dumps(self.body(message)).encode()):
            if self.delta in data:
                first = first or time.perf_counter() - started
                pieces.append(data)
            if data != b"[DONE]":
                last = data
        wall = time.perf_counter() - started
        return self.read(first, wall, pieces, last)

    def read(self, first: float, wall: float, pieces: list[bytes], last: bytes) -> Timing:
        response = msgspec.json.decode(last)["response"]
        self.previous = response["id"]
        usage = response["usage"]
        text = "".join(msgspec.json.decode(piece)["delta"] for piece in pieces)
        return Timing(first, wall, usage["output_tokens"], text)

    async def close(self) -> None:
        await self._http.close()

    def shared(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "stream": True,
            "temperature": 0,
            "max_output_tokens": self.max_tokens,
        }


class FullHistory(_OverHttp):
    """As most clients do: the whole conversation in every request."""

    def body(self, message: dict[str, str]) -> dict[str, Any]:
        return {**self.shared(), "input": self.history, "store": False}


class PreviousResponse(_OverHttp):
    """Only what is new, and the id of the response it continues."""

    def body(self, message: dict[str, str]) -> dict[str, Any]:
        more = {"previous_response_id": self.previous} if self.previous else {}
        return {**self.shared(), "input": [message], "store": True, **more}


class ChatHistory(_OverHttp):
    """Chat Completions with the whole conversation, which is what proxies know best."""

    path = "/v1/chat/completions"
    delta = b'"content":'

    def body(self, message: dict[str, str]) -> dict[str, Any]:
        return {
            "model": self.model,
            "stream": True,
            "temperature": 0,
            "max_tokens": self.max_tokens,
            "stream_options": {"include_usage": True},
            "messages": self.history,
        }

    def read(self, first: float, wall: float, pieces: list[bytes], last: bytes) -> Timing:
        chunks = [msgspec.json.decode(piece) for piece in pieces]
        usage = msgspec.json.decode(last).get("usage") or {"completion_tokens": len(chunks)}
        text = "".join(
            choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]
        )
        return Timing(first, wall, usage["completion_tokens"], text)


class OverWebSocket(Way):
    """One kept connection, only what is new."""

    _socket: ClientConnection | None = None

    def more(self) -> dict[str, Any]:
        """What else a turn says."""
        return {}

    async def ask(self, message: dict[str, str]) -> Timing:
        started = time.perf_counter()
        if self._socket is None:
            address = f"ws://127.0.0.1:{self.port}/v1/responses"
            self._socket = await connect(address, compression=None, max_size=None)
        create = {
            "type": "response.create",
            "model": self.model,
            "temperature": 0,
            "max_output_tokens": self.max_tokens,
            "input": [message],
            "store": False,
            **self.more(),
            **({"previous_response_id": self.previous} if self.previous else {}),
        }
        await self._socket.send(json.dumps(create))
        first = 0.0
        pieces: list[str] = []
        while True:
            data = str(await self._socket.recv())
            if data.startswith('{"type":"response.output_text.delta"'):
                first = first or time.perf_counter() - started
                pieces.append(data)
            elif data.startswith(('{"type":"response.completed"', '{"type":"response.incomplete"')):
                break
            elif data.startswith(('{"type":"error"', '{"type":"response.failed"')):
                raise RuntimeError(data[:500])
        wall = time.perf_counter() - started
        response = msgspec.json.decode(data)["response"]
        self.previous = response["id"]
        text = "".join(msgspec.json.decode(piece)["delta"] for piece in pieces)
        return Timing(first, wall, response["usage"]["output_tokens"], text)

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()
            self._socket = None


class OverWebSocketWithTools(OverWebSocket):
    """The same with a tool that the model may call, so that its words must be parsed."""

    def more(self) -> dict[str, Any]:
        tool = {
            "type": "function",
            "name": "read_file",
            "description": "Read a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        }
        return {"tools": [tool]}


class OverWebSocketForetold(OverWebSocket):
    """The same with what the answer will probably be."""

    prediction = ""

    def more(self) -> dict[str, Any]:
        return {"prediction": {"type": "content", "content": self.prediction}}


def tool_output(turn: int) -> str:
    """About a kilobyte that differs from turn to turn."""
    dice = random.Random(turn)
    lines = [f"src/module_{dice.randrange(99)}.py:{dice.randrange(999)}: note" for _ in range(28)]
    return f"Output of step {turn}:\n" + "\n".join(lines) + "\nWhat next? Answer in one sentence."
