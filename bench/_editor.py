"""An editor without a screen: a ``vivace lsp`` of its own, spoken to over its standard streams.

Messages are made and read by hand, and made before the clock starts: what a client takes for them
is no time of the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from bisect import bisect_left
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

from lsprotocol.types import Position, TextDocumentContentChangePartial
from msgspec import Struct

from bench._hiccups import Span
from vivace.desk.completing import Suggestion
from vivace.lsp.documents import Document

_AUTOMATIC = 2
_CAPABILITIES = {
    "general": {"positionEncodings": ["utf-16"]},
    "textDocument": {"inlineCompletion": {}},
}


class Answer(Struct, frozen=True):
    """To one key; both times are ``time.perf_counter``'s."""

    suggestion: Suggestion | None
    sent: float
    came: float
    late: float
    """Seconds since the text was changed, if it was: no editor shows the suggestion then."""

    @property
    def seconds(self) -> float:
        return self.came - self.sent

    @property
    def span(self) -> Span:
        return self.sent, self.came


class Marks(Struct, frozen=True):
    """What is marked in a document's text of this version; ``came`` is ``time.perf_counter``'s."""

    version: int | None
    diagnostics: list[dict[str, Any]]
    came: float

    def on_line(self, number: int) -> bool:
        return any(each["range"]["start"]["line"] == number for each in self.diagnostics)


class Editor:
    def __init__(self, process: Process) -> None:
        self.pid = process.pid
        self.introduced_in = 0.0
        """Seconds from its start to the answer to ``initialize``."""
        self.statuses: list[str] = []
        """Why nothing came, as it was told."""
        self.marks: dict[str, Marks] = {}
        """What is marked in each document, as it was last told."""
        self.marked = asyncio.Event()
        """Set whenever something is told of that."""
        self._process = process
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, folder: Path, url: str, **settings: Any) -> AsyncIterator[Editor]:
        """Once it has answered ``initialize``; ``settings`` are the person's."""
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "vivace.cli", "lsp"),
            env={**os.environ, "VIVACE_URL": url, "XDG_STATE_HOME": str(folder / ".state")},
            cwd=folder,
            stdin=PIPE,
            stdout=PIPE,
        )
        editor = cls(process)
        try:
            introduced = {
                "processId": os.getpid(),
                "rootUri": folder.as_uri(),
                "capabilities": _CAPABILITIES | {"experimental": {"vivace": {"status": True}}},
                "initializationOptions": settings,
            }
            await editor.ask("initialize", introduced)
            editor.introduced_in = time.perf_counter() - began
            editor.tell("initialized", {})
            yield editor
            await editor.ask("shutdown", None)
            editor.tell("exit", None)
        finally:
            await editor._end()

    async def _end(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 10)
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._reading.cancel()
        await asyncio.wait([self._reading])

    def open(self, path: Path, text: str, language: str = "python") -> Buffer:
        document = Document(path.as_uri(), str(path), 1, text, "utf-16")
        opened = {"uri": document.uri, "languageId": language, "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": opened})
        return Buffer(self, document)

    # -- messages ---------------------------------------------------------------------------------

    def tell(self, method: str, params: Any) -> None:
        self.send(_framed({"method": method, "params": params}))

    async def ask(self, method: str, params: Any) -> Any:
        message, answer = self.asking(method, params)
        self.send(message)
        return await answer

    def asking(self, method: str, params: Any) -> tuple[bytes, asyncio.Future[Any]]:
        """A request that is not sent yet, and its answer."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        return _framed({"id": number, "method": method, "params": params}), answer

    def send(self, messages: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(messages)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        reader = self._process.stdout
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                self._hear(json.loads(await reader.readexactly(length)))
        except asyncio.IncompleteReadError:
            self._hang_up()

    def _hear(self, message: dict[str, Any]) -> None:
        if message.get("method") == "vivace/status":
            self.statuses.append(message["params"]["why"])
        elif message.get("method") == "textDocument/publishDiagnostics":
            told, came = message["params"], time.perf_counter()
            self.marks[told["uri"]] = Marks(told.get("version"), told["diagnostics"], came)
            self.marked.set()
        elif "method" not in message and not (answer := self._waiting.pop(message["id"])).done():
            if "error" in message:
                answer.set_exception(RuntimeError(str(message["error"])))
            else:
                answer.set_result(message["result"])

    def _hang_up(self) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(RuntimeError("The language server has ended."))


class Buffer:
    """A text as an editor has it."""

    def __init__(self, editor: Editor, document: Document) -> None:
        self.document = document
        self.changed_at = 0.0
        self._editor = editor

    @property
    def text(self) -> str:
        return self.document.text

    def press(self, start: int, end: int, new: str) -> Pressed:
        """Put this in place of that, and ask what to show behind it."""
        change = self._change(start, end, new)
        return self._ask(start + len(new), change)

    def become(self, text: str, offset: int) -> Pressed:
        """The same for a text that is another one in one place, and a cursor anywhere."""
        before = self.text
        same = _shared(before, text)
        tail = _shared(before[same:][::-1], text[same:][::-1])
        new = text[same : len(text) - tail]
        return self._ask(offset, self._change(same, len(before) - tail, new))

    def replace(self, start: int, end: int, new: str) -> None:
        """Without asking anything."""
        self._editor.send(self._change(start, end, new))

    def arrive(self, offset: int) -> None:
        """The cursor was put here: editors ask then what can be done about the place."""
        place = {"start": self._place(offset), "end": self._place(offset)}
        asked = {**self._named, "range": place, "context": {"diagnostics": []}}
        message, _ = self._editor.asking("textDocument/codeAction", asked)
        self._editor.send(message)

    def close(self) -> None:
        self._editor.tell("textDocument/didClose", self._named)

    @property
    def _named(self) -> dict[str, Any]:
        return {"textDocument": {"uri": self.document.uri}}

    def _place(self, offset: int) -> dict[str, int]:
        found = self.document.position(offset)
        return {"line": found.line, "character": found.character}

    def _change(self, start: int, end: int, new: str) -> bytes:
        where = {"start": self._place(start), "end": self._place(end)}
        change = TextDocumentContentChangePartial(range=self.document.range(start, end), text=new)
        self.document.change(self.document.version + 1, [change])
        self.changed_at = time.perf_counter()
        versioned = {"uri": self.document.uri, "version": self.document.version}
        params = {"textDocument": versioned, "contentChanges": [{"range": where, "text": new}]}
        return _framed({"method": "textDocument/didChange", "params": params})

    def _ask(self, offset: int, change: bytes) -> Pressed:
        context = {"triggerKind": _AUTOMATIC}
        asked = {**self._named, "position": self._place(offset), "context": context}
        message, items = self._editor.asking("textDocument/inlineCompletion", asked)
        sent = time.perf_counter()
        self._editor.send(change + message)
        return Pressed(self, items, sent)


class Pressed:
    """A key, whose answer is on its way."""

    def __init__(self, buffer: Buffer, items: asyncio.Future[Any], sent: float) -> None:
        self.sent = sent
        self._buffer = buffer
        self._version = buffer.document.version
        self._items = items

    async def answer(self) -> Answer:
        items = await self._items
        came, buffer = time.perf_counter(), self._buffer
        is_current = buffer.document.version == self._version
        return Answer(
            suggestion=self._suggestion(items[0]) if items else None,
            sent=self.sent,
            came=came,
            late=0.0 if is_current else came - buffer.changed_at,
        )

    def _suggestion(self, item: dict[str, Any]) -> Suggestion:
        start, end = (Position(**item["range"][each]) for each in ("start", "end"))
        offset = self._buffer.document.offset
        return Suggestion(item["insertText"], offset(start), offset(end))


def _framed(message: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def _shared(one: str, other: str) -> int:
    """How far two beginnings are the same; by halves, as texts are long and keys many."""
    lengths = range(1, min(len(one), len(other)) + 1)
    return bisect_left(lengths, True, key=lambda length: one[:length] != other[:length])
