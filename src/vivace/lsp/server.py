"""``vivace lsp``: the parts put together, and the table of what is answered by whom."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO

from lsprotocol.types import (
    INITIALIZE,
    INITIALIZED,
    NOTEBOOK_DOCUMENT_DID_CHANGE,
    NOTEBOOK_DOCUMENT_DID_CLOSE,
    NOTEBOOK_DOCUMENT_DID_OPEN,
    SHUTDOWN,
    TEXT_DOCUMENT_CODE_ACTION,
    TEXT_DOCUMENT_COMPLETION,
    TEXT_DOCUMENT_DID_CHANGE,
    TEXT_DOCUMENT_DID_CLOSE,
    TEXT_DOCUMENT_DID_OPEN,
    TEXT_DOCUMENT_DID_SAVE,
    TEXT_DOCUMENT_INLINE_COMPLETION,
    WINDOW_WORK_DONE_PROGRESS_CANCEL,
    WORKSPACE_DID_CHANGE_CONFIGURATION,
    WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS,
    CodeActionOptions,
    CompletionOptions,
    DidChangeConfigurationParams,
    DidChangeWorkspaceFoldersParams,
    InitializedParams,
    InitializeParams,
    InlineCompletionOptions,
    SaveOptions,
)
from pygls.io_ import StdoutWriter, run_async
from pygls.lsp.server import LanguageServer

from vivace import __version__
from vivace.desk.usage import Usage, UsageFile
from vivace.errors import ConfigError
from vivace.logs import on_loop_error
from vivace.lsp.address import Address
from vivace.lsp.capabilities import read_capabilities
from vivace.lsp.code_actions import KINDS, CodeActions
from vivace.lsp.completers import Completers
from vivace.lsp.completion import Completion
from vivace.lsp.diagnostics import Diagnostics
from vivace.lsp.documents import Document
from vivace.lsp.editor import Editor
from vivace.lsp.execute_command import ExecuteCommand
from vivace.lsp.extensions import ACCEPTED, CURSOR, EDIT, PAUSE, REDIRECT, RENAME, REVIEW, STOP
from vivace.lsp.files import Files, folders_on_disk
from vivace.lsp.garbage import Garbage
from vivace.lsp.inline_completion import InlineCompletion
from vivace.lsp.notebooks import SYNCHRONIZED, Notebooks
from vivace.lsp.offers import Offers
from vivace.lsp.protocol import Protocol
from vivace.lsp.quick_fixes import QuickFixes
from vivace.lsp.rules import LoadRules, Rules
from vivace.lsp.session import Session
from vivace.lsp.settings import read_settings
from vivace.lsp.suggestions import MakeCompleter, Suggestions
from vivace.lsp.synchronization import Synchronization

__all__ = ["Server", "serve"]

_MAX_HEADER_BYTES = 1_000
_MAX_MESSAGE_BYTES = 256_000_000
"""More than any document that an editor sends; a client that announces more would fill memory."""
_SWITCH_S = 0.001
"""After which a thread that looks at a file gives way to whoever types; Python's own is 5 ms."""


class _Pygls(LanguageServer):
    """Tells nobody of errors: their words may be code, and the log has their place."""

    def report_server_error(self, error: Exception, source: Any) -> None:
        pass


class Server:
    def __init__(
        self,
        address: Address,
        state: Path,
        completer: MakeCompleter | None = None,
        rules: LoadRules | None = None,
    ) -> None:
        """``state`` is where the program keeps things, outside of any workspace. ``rules`` are
        those that we bring, if no others are given."""
        self.pygls = _Pygls(
            "vivace", __version__, protocol_cls=Protocol, notebook_document_sync=SYNCHRONIZED
        )
        editor = Editor(self.pygls)
        self.session = session = Session(editor, Files(state / "untitled"))
        self._usage = Usage(UsageFile(state))
        offers = Offers(session.documents, self._usage)
        self._completers = Completers(session, address, self._usage)
        self._suggestions = suggestions = Suggestions(session, completer or self._completers.make)
        inline = InlineCompletion(session, suggestions, offers)
        self._completion = Completion(session, suggestions, offers)
        wanted = Rules(session, rules)
        self._diagnostics = diagnostics = Diagnostics(session, wanted)
        commands = ExecuteCommand(session, suggestions, offers, diagnostics, wanted, address, state)
        self.garbage = Garbage()
        documents = Synchronization(session, suggestions, commands, diagnostics, self.garbage)
        self._answer(INITIALIZE, self._initialize)
        self._answer(INITIALIZED, self._initialized)
        self._answer(SHUTDOWN, self._shutdown)
        self._answer(WORKSPACE_DID_CHANGE_CONFIGURATION, self._configure)
        self._answer(WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS, self._move)
        self._answer(TEXT_DOCUMENT_DID_OPEN, documents.did_open)
        self._answer(TEXT_DOCUMENT_DID_CHANGE, documents.did_change)
        self._answer(TEXT_DOCUMENT_DID_SAVE, documents.did_save, SaveOptions())
        self._answer(TEXT_DOCUMENT_DID_CLOSE, documents.did_close)
        notebooks = Notebooks(session, documents)
        self._answer(NOTEBOOK_DOCUMENT_DID_OPEN, notebooks.did_open)
        self._answer(NOTEBOOK_DOCUMENT_DID_CHANGE, notebooks.did_change)
        self._answer(NOTEBOOK_DOCUMENT_DID_CLOSE, notebooks.did_close)
        self._answer(TEXT_DOCUMENT_INLINE_COMPLETION, inline.answer, InlineCompletionOptions())
        actions = CodeActions(session, QuickFixes(session, diagnostics, wanted), self._moved)
        offered = CodeActionOptions(code_action_kinds=list(KINDS))
        self._answer(TEXT_DOCUMENT_CODE_ACTION, actions.answer, offered)
        self._answer(WINDOW_WORK_DONE_PROGRESS_CANCEL, commands.cancel_progress)
        self._obey(EDIT, commands.edit)
        self._obey(RENAME, commands.rename)
        self._obey(REVIEW, commands.review)
        self._obey(REDIRECT, commands.redirect)
        self._obey(STOP, commands.stop)
        self._obey(PAUSE, commands.pause)
        self._obey(ACCEPTED, commands.accepted)
        self._obey(CURSOR, commands.cursor)

    def _answer(self, method: str, by: Callable[[Any], Any], options: Any = None) -> None:
        self.pygls.feature(method, options)(partial(by))  # it marks what it is given

    def _obey(self, command: str, by: Callable[[Sequence[Any]], Any]) -> None:
        self.pygls.command(command)(partial(by))

    def _moved(self, document: Document, cursor: int) -> None:
        self._suggestions.moved(document, cursor)
        self._diagnostics.moved(document, cursor)

    def _initialize(self, params: InitializeParams) -> None:
        session = self.session
        session.editor.client = read_capabilities(params.capabilities)
        session.documents.encoding = session.editor.client.encoding
        folders = [each.uri for each in params.workspace_folders or ()]
        if not folders and params.root_uri:
            folders = [params.root_uri]
        session.files.folders = folders_on_disk(folders)
        self._set(params.initialization_options)
        if not session.editor.client.inline_completion:
            self._answer(TEXT_DOCUMENT_COMPLETION, self._completion.answer, CompletionOptions())

    async def _initialized(self, _: InitializedParams) -> None:
        await self._completers.load()

    async def _configure(self, params: DidChangeConfigurationParams) -> None:
        if self._set(params.settings):
            await self._suggestions.close_all()
            await self._diagnostics.reconfigured()

    def _set(self, given: Any) -> bool:
        """Whether anything is other than before."""
        before = self.session.settings
        try:
            self.session.settings = read_settings(given)
        except ConfigError as error:
            self.session.editor.tell(str(error), "warning")
        return before != self.session.settings

    def _move(self, params: DidChangeWorkspaceFoldersParams) -> None:
        gone = folders_on_disk(each.uri for each in params.event.removed)
        come = folders_on_disk(each.uri for each in params.event.added)
        self.session.files.folders = [
            *(each for each in self.session.files.folders if each not in gone),
            *come,
        ]

    async def _shutdown(self, _: None) -> None:
        await self._suggestions.close_all()
        await self._completers.close()
        await self._usage.close()


class _InTurn:
    """Reads a message when the handler of the one before has begun, so that a handler first sees
    the text as it was when it was asked. After what is too long to be a message nothing is read."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def readline(self) -> bytes:
        await asyncio.sleep(0)
        try:
            line = await self._reader.readline()
        except ValueError:  # longer than what the reader keeps
            return b""
        return line if len(line) <= _MAX_HEADER_BYTES else b""

    async def readexactly(self, count: int) -> bytes:
        if count > _MAX_MESSAGE_BYTES:
            raise asyncio.IncompleteReadError(b"", count)
        return await self._reader.readexactly(count)


async def serve(server: Server, stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Answer until the editor goes. It reads as fast as the system delivers, without a thread."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(on_loop_error)
    sys.setswitchinterval(_SWITCH_S)
    server.garbage.wait_for_pauses()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stdin)
    server.pygls.protocol.set_writer(StdoutWriter(stdout))
    with contextlib.suppress(asyncio.IncompleteReadError, BrokenPipeError):  # it is gone already
        await run_async(
            stop_event=Event(),
            reader=_InTurn(reader),
            protocol=server.pygls.protocol,
            error_handler=server.pygls.report_server_error,
        )
