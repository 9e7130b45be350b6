"""The language server without a process: its clock, its editor and its engine do what a test says.

All of the server's own parts are real, down to what posts a request; nothing happens by itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest import mock

from cattrs import Converter
from pygls.protocol import default_converter

from vivace.client.connection import Connection
from vivace.client.errors import ClientError
from vivace.client.fill_forms import Infill, post
from vivace.client.gap import Gap
from vivace.client.http import HttpWire
from vivace.completion.pace import Pace
from vivace.desk.completing import Completing
from vivace.findings.rule_set import RuleSet
from vivace.lsp.address import Address
from vivace.lsp.documents import Document
from vivace.lsp.server import Server, _Pygls

__all__ = ["Answer", "Engine", "InProcess", "Loop", "server_pygls"]

T = TypeVar("T")


@cache
def _converter() -> Converter:
    """One for all servers: it learns how each message is read when it first sees one."""
    made: Converter = default_converter()  # type: ignore[no-untyped-call]
    return made


server_pygls = partial(_Pygls, converter_factory=_converter)
"""In place of ``vivace.lsp.server._Pygls``."""


class Loop(asyncio.SelectorEventLoop):
    """Its clock stands still until somebody lets time pass."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__()

    def time(self) -> float:
        return self._now

    def settle(self) -> None:
        """Until nobody can do anything but wait."""
        self._turn()
        while self._ready or self._next_timer() <= self._now:  # type: ignore[attr-defined]
            self._turn()

    def let_pass(self, seconds: float) -> None:
        end = self._now + seconds
        while (at := self._next_timer()) <= end:
            self._now = max(self._now, at)
            self.settle()
        self._now = end
        self.settle()

    def _turn(self) -> None:
        self.call_soon(self.stop)
        self.run_forever()

    def _next_timer(self) -> float:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return min((each.when() for each in scheduled if not each.cancelled()), default=1e9)


class Answer:
    """What an engine was asked, and what it says to that when it is told to."""

    def __init__(self, path: str, body: Mapping[str, Any]) -> None:
        self.path = path
        self.body = body
        self.parts: list[str] | None = None
        """What is left to say, once somebody has thought of it."""
        self.said: asyncio.Queue[bytes | ClientError | None] = asyncio.Queue()

    def say(self, *events: object) -> None:
        for each in events:
            self.said.put_nowait(json.dumps(each).encode())

    def end(self, error: ClientError | None = None) -> None:
        self.said.put_nowait(error)


class Engine:
    """An endpoint, of which only the answers that somebody waits for are kept."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.has_tiers = True

    async def post(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        answer = Answer(path, body)
        self.answers.append(answer)
        try:
            while isinstance(data := await answer.said.get(), bytes):
                yield data
            if data is not None:
                raise data
        finally:
            self.answers.remove(answer)

    def broke_off(self, why: str = "") -> ClientError:
        return ClientError(f"It broke off. {why}")

    async def close(self) -> None:
        pass

    def fill(self, lane: str, gap: Gap) -> AsyncGenerator[str, None]:
        endpoint: Any = self
        return post(endpoint, Infill("/v1"), gap)


class InProcess:
    """Messages to the server arrive at once; those from it wait in ``sent``."""

    def __init__(self, folder: Path, rules: RuleSet | None = None) -> None:
        """What is typed is looked at by these rules, or by none."""
        self.loop = Loop()
        self.engine = Engine()
        self.sent: list[dict[str, Any]] = []
        self.errors: list[Mapping[str, Any]] = []
        self._patches = ExitStack()
        for name, by in self._doubles().items():
            self._patches.enter_context(mock.patch(name, by))
        address, own = Address("http://127.0.0.1:9/v1"), rules or RuleSet.of([])

        def load(_: Path | None, without: frozenset[str]) -> RuleSet:
            return own.without(without)

        self.server = Server(address, folder / "state", self._completer, load)
        self.server.pygls.protocol.set_writer(self, include_headers=False)
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context))

    def _doubles(self) -> dict[str, Any]:
        @asynccontextmanager
        async def connection(*_: object) -> AsyncIterator[Connection]:
            endpoint: Any = self.engine
            wire = HttpWire(endpoint)
            try:
                yield Connection(wire)
            finally:
                await wire.close()

        async def models(*_: object) -> list[str]:
            return ["any"]

        clock: Any = SimpleNamespace(monotonic=self.loop.time)

        async def at_once(work: Callable[..., T], *given: Any, **named: Any) -> T:
            return work(*given, **named)

        return {
            "asyncio.to_thread": at_once,
            "vivace.desk.opening.open_connection": connection,
            "vivace.desk.opening.served_models": models,
            "vivace.lsp.server._Pygls": server_pygls,
            "vivace.lsp.documents.time": clock,
            "vivace.lsp.completion.time": clock,
        }

    def _completer(self, document: Document) -> Completing:
        clock = self.loop.time
        return Completing(self.engine, "lane", document.path, clock=clock, pace=Pace("always"))

    def write(self, data: bytes) -> None:
        self.sent.append(json.loads(data))

    def send(self, method: str | None, content: Any, number: int | str | None = None) -> None:
        """A notification, a request with its number, or without a method the answer to one."""
        message: dict[str, Any] = {"jsonrpc": "2.0"}
        message |= {} if number is None else {"id": number}
        message |= {"result": content} if method is None else {"method": method, "params": content}
        self.loop.call_soon(self._arrive, json.dumps(message))
        self.loop.settle()

    def _arrive(self, message: str) -> None:
        protocol = self.server.pygls.protocol
        protocol.handle_message(json.loads(message, object_hook=protocol.structure_message))

    def close(self) -> None:
        for answer in list(self.engine.answers):
            answer.end(ClientError("It ends."))
        self.loop.let_pass(3600)
        self._patches.close()
        self.loop.close()
