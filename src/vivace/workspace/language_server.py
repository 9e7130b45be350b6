"""A language's own server, asked over the Language Server Protocol for what only it knows.

A server is started for one question and ended after it. Every wait has an end.
``language_servers`` says which there are, and how each is kept from running what the project names.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from vivace.interpreter import SAFE_PATH
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.git import git_environment
from vivace.workspace.language_servers import Server
from vivace.workspace.processes import kill_session

__all__ = ["LanguageServer", "ServerFailed", "path_of", "running"]

_START_S = 20.0
_ANSWER_S = 30.0
_READ_S = 10.0
"""How long a server may take to read the files that are opened."""
_BROKEN = (
    *(AttributeError, LookupError, RecursionError, TypeError, ValueError),
    *(asyncio.LimitOverrunError, msgspec.MsgspecError),
)
"""Errors that reading a message raises when it is not as the protocol has it."""
_LONGEST = 64_000_000
"""Bytes of one message."""


class ServerFailed(WorkspaceError):
    """It ended, kept silent, or answered with an error."""


_IDS = {"tsx": "typescriptreact"}
_CAPABILITIES = {
    "general": {"positionEncodings": ["utf-16"]},
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "workspaceEdit": {"documentChanges": True},
    },
    "textDocument": {
        "rename": {"prepareSupport": True},
        "definition": {},
        "publishDiagnostics": {},
        "synchronization": {},
    },
}


def path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


@contextlib.asynccontextmanager
async def running(server: Server, root: Path) -> AsyncIterator[LanguageServer]:
    """The server, ready to be asked; ended with all it started when this ends."""
    try:
        process = await asyncio.create_subprocess_exec(
            *server.command,
            cwd=root,
            env={**git_environment(root), **SAFE_PATH, **server.environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise ServerFailed(f"{server.name} cannot be started: {error}.") from error
    asked = LanguageServer(server, process)
    reading = asyncio.create_task(asked.read())
    try:
        await asked.initialize(root)
        yield asked
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await kill_session(process)


class LanguageServer:
    def __init__(self, server: Server, process: asyncio.subprocess.Process) -> None:
        self.name = server.name
        self._server = server
        self._process = process
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._opened: dict[str, asyncio.Event] = {}
        self._versions: dict[str, int] = {}
        self._last = 0
        self._failed = ""
        """Why no answer can come any more."""

    async def initialize(self, root: Path) -> None:
        params = {
            "processId": os.getpid(),
            "rootUri": root.as_uri(),
            "workspaceFolders": [{"uri": root.as_uri(), "name": root.name}],
            "capabilities": _CAPABILITIES,
            "initializationOptions": dict(self._server.options),
        }
        await self.ask("initialize", params, _START_S)
        await self._send({"method": "initialized", "params": {}})

    async def open(self, path: Path, language: str, text: str) -> None:
        uri = path.as_uri()
        document = {"uri": uri, "languageId": _IDS.get(language, language), "version": 1}
        self._opened[uri], self._versions[uri] = asyncio.Event(), 1
        params = {"textDocument": document | {"text": text}}
        await self._send({"method": "textDocument/didOpen", "params": params})

    async def change(self, path: Path, text: str) -> None:
        uri = path.as_uri()
        self._versions[uri] += 1
        params = {
            "textDocument": {"uri": uri, "version": self._versions[uri]},
            "contentChanges": [{"text": text}],
        }
        await self._send({"method": "textDocument/didChange", "params": params})

    async def has_read(self) -> None:
        """Wait until it has said something of each opened file, or long enough."""
        if not self._server.reads_first:
            return
        waiting = [each.wait() for each in self._opened.values()]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*waiting), _READ_S)

    async def ask(self, method: str, params: object, seconds: float = _ANSWER_S) -> Any:
        if self._failed:
            raise ServerFailed(self._failed)
        self._last += 1
        number = self._last
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._send({"id": number, "method": method, "params": params})
                return await answer
        except TimeoutError as error:
            raise ServerFailed(f"{self.name} did not answer within {seconds:.0f} s.") from error
        finally:
            del self._waiting[number]

    # -- the wire ---------------------------------------------------------------------------------

    async def _send(self, message: Mapping[str, object]) -> None:
        body = msgspec.json.encode({"jsonrpc": "2.0", **message})
        assert self._process.stdin is not None
        try:
            async with asyncio.timeout(_ANSWER_S):
                self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
                await self._process.stdin.drain()
        except TimeoutError as error:
            raise ServerFailed(f"{self.name} reads nothing.") from error
        except (OSError, RuntimeError) as error:
            raise ServerFailed(f"{self.name} ended.") from error

    async def read(self) -> None:
        """Read until it ends or breaks the protocol; then all that wait for an answer fail."""
        try:
            while True:
                await self._heard(await self._message())
        except (OSError, EOFError, ServerFailed):
            pass
        except _BROKEN:
            self._failed = f"{self.name} broke the protocol."
        finally:
            self._failed = self._failed or f"{self.name} ended without an answer."
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(ServerFailed(self._failed))

    async def _message(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        head = await self._process.stdout.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-len")]
        length = int(lengths[0].partition(b":")[2]) if lengths else 0
        if not 0 < length <= _LONGEST:
            raise ValueError(length)
        body = await self._process.stdout.readexactly(length)
        return msgspec.json.decode(body, type=dict[str, Any])

    async def _heard(self, message: dict[str, Any]) -> None:
        number, method = message.get("id"), message.get("method")
        if method is None:
            self._answered(number, message)
        elif number is not None:
            await self._send({"id": number, "result": self._reply(method, message)})
        elif method == "textDocument/publishDiagnostics":
            opened = self._opened.get(message["params"]["uri"])
            if opened is not None:
                opened.set()

    def _answered(self, number: object, message: dict[str, Any]) -> None:
        answer = self._waiting.get(number) if isinstance(number, int) else None
        if answer is None or answer.done():
            return
        if error := message.get("error"):
            answer.set_exception(ServerFailed(f"{self.name}: {error.get('message', '')}"))
        else:
            answer.set_result(message.get("result"))

    def _reply(self, method: str, message: dict[str, Any]) -> object:
        """What servers ask of an editor; none may change files by itself."""
        if method == "workspace/configuration":
            items = message["params"].get("items", ())
            return [self._server.settings.get(item.get("section")) for item in items]
        return {"applied": False} if method == "workspace/applyEdit" else None
