"""An editor without a screen: the language server behind a pipe, and a buffer that is typed into.

The server runs in a thread of the test's own process, with the loop, the pipes and the threads that
it has in a process of its own. A test that says ``process=True`` starts the program instead.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, Union
from unittest import mock

import pytest_lsp.client
from cattrs import Converter
from lsprotocol import types as lsp
from pygls.io_ import run_async
from pygls.protocol import default_converter
from pytest_lsp import LanguageClient, make_test_lsp_client

from tests.lsp import scripted as scripted_server
from tests.lsp import verbose as verbose_server
from tests.lsp.in_process import server_pygls
from tests.lsp.scripted import Line
from tests.support.waiting import eventually_async
from vivace.lsp.address import Address
from vivace.lsp.documents import Document
from vivace.lsp.extensions import EDIT_PROGRESS, STATUS
from vivace.lsp.positions import Encoding
from vivace.lsp.server import Server, serve

KNOWN = {"vivace": {"edit": True, "status": True, "instruction": True}}


class Buffer:
    """A text as an editor has it: what is typed into it is sent at once."""

    def __init__(self, client: LanguageClient, document: Document) -> None:
        self._client = client
        self.document = document

    @property
    def uri(self) -> str:
        return self.document.uri

    @property
    def text(self) -> str:
        return self.document.text

    def type(self, text: str, behind: str | None = None) -> None:
        """Behind this, or at the end."""
        at = len(self.text) if behind is None else self.text.index(behind) + len(behind)
        self.replace(at, at, text)

    def replace(self, start: int, end: int, text: str) -> None:
        place = self.document.range(start, end)
        change = lsp.TextDocumentContentChangePartial(range=place, text=text)
        self.document.change(self.document.version + 1, [change])
        self._client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(
                text_document=lsp.VersionedTextDocumentIdentifier(
                    version=self.document.version, uri=self.uri
                ),
                content_changes=[change],
            )
        )

    async def complete(
        self, behind: str | None = None, selected: lsp.SelectedCompletionInfo | None = None
    ) -> lsp.InlineCompletionItem | None:
        at = len(self.text) if behind is None else self.text.index(behind) + len(behind)
        found = await self._client.text_document_inline_completion_async(
            lsp.InlineCompletionParams(
                context=lsp.InlineCompletionContext(
                    trigger_kind=lsp.InlineCompletionTriggerKind.Automatic,
                    selected_completion_info=selected,
                ),
                position=self.document.position(at),
                text_document=lsp.TextDocumentIdentifier(uri=self.uri),
            )
        )
        assert not isinstance(found, lsp.InlineCompletionList)
        return found[0] if found else None

    async def items(self, behind: str | None = None) -> list[lsp.CompletionItem]:
        """Of the list, when the person asks for it."""
        at = len(self.text) if behind is None else self.text.index(behind) + len(behind)
        found = await self._client.text_document_completion_async(
            lsp.CompletionParams(
                position=self.document.position(at),
                text_document=lsp.TextDocumentIdentifier(uri=self.uri),
                context=lsp.CompletionContext(trigger_kind=lsp.CompletionTriggerKind.Invoked),
            )
        )
        assert isinstance(found, list)
        return found

    def apply(self, edits: Sequence[object]) -> None:
        """From the end, so that what stands before is where it was."""
        found = [each for each in edits if isinstance(each, lsp.TextEdit)]
        for each in sorted(found, key=lambda each: self.document.span(each.range), reverse=True):
            self.replace(*self.document.span(each.range), each.new_text)

    def accepted(self, item: lsp.InlineCompletionItem) -> str:
        """The text after a suggestion was taken."""
        assert item.range is not None
        assert isinstance(item.insert_text, str)
        start, end = self.document.span(item.range)
        return self.text[:start] + item.insert_text + self.text[end:]

    def close(self) -> None:
        self._client.text_document_did_close(
            lsp.DidCloseTextDocumentParams(text_document=lsp.TextDocumentIdentifier(uri=self.uri))
        )


class Editor:
    def __init__(self, client: LanguageClient, encoding: Encoding) -> None:
        self.client = client
        self.statuses: list[dict[str, Any]] = []
        self.shown: list[dict[str, Any]] = []
        """What came of edits while they were made."""
        self.asked: list[tuple[str, list[str]]] = []
        self.answers: list[str | None] = []
        """What the person says to the next questions; nothing, when there are none left."""
        self.applied: list[str | None] = []
        """The names of the edits that were made."""
        self.before_apply: Callable[[], object] = lambda: None
        """What happens just before an edit arrives."""
        self.pretends = False
        """Whether it says that it made an edit which came too late, as Neovim does."""
        self.mute = False
        """Whether it says nothing of an edit that it made."""
        self._buffers: dict[str, Buffer] = {}
        self._encoding: Encoding = encoding
        client.feature(STATUS)(lambda params: self.statuses.append(_plain(params)))
        client.feature(EDIT_PROGRESS)(lambda params: self.shown.append(_plain(params)))
        client.feature(lsp.WORKSPACE_APPLY_EDIT)(partial(self._apply))
        client.feature(lsp.WINDOW_SHOW_MESSAGE_REQUEST)(partial(self._ask))

    def open(self, path: Path | str, text: str, language: str = "python") -> Buffer:
        uri = path.as_uri() if isinstance(path, Path) else path
        document = Document(uri, str(path), 1, text, self._encoding)
        self.client.text_document_did_open(
            lsp.DidOpenTextDocumentParams(
                text_document=lsp.TextDocumentItem(
                    uri=uri, language_id=language, version=1, text=text
                )
            )
        )
        self._buffers[uri] = Buffer(self.client, document)
        return self._buffers[uri]

    def _ask(self, params: lsp.ShowMessageRequestParams) -> lsp.MessageActionItem | None:
        titles = [each.title for each in params.actions or []]
        self.asked.append((params.message, titles))
        answer = self.answers.pop(0) if self.answers else None
        assert answer is None or answer in titles, titles
        return lsp.MessageActionItem(title=answer) if answer is not None else None

    def _apply(self, params: lsp.ApplyWorkspaceEditParams) -> lsp.ApplyWorkspaceEditResult | None:
        self.before_apply()
        changes = params.edit.document_changes or []
        edits = [each for each in changes if isinstance(each, lsp.TextDocumentEdit)]
        for each in edits:
            buffer = self._buffers[each.text_document.uri]
            if each.text_document.version != buffer.document.version:
                return lsp.ApplyWorkspaceEditResult(applied=self.pretends)
        for each in edits:
            self._buffers[each.text_document.uri].apply(each.edits)
        self.applied.append(params.label)
        if self.mute:
            return None
        return lsp.ApplyWorkspaceEditResult(applied=True)

    async def edit(
        self, buffer: Buffer, instruction: str, place: str | None = None, *, cursor: bool = False
    ) -> dict[str, Any]:
        """``place`` is what is selected, or with ``cursor`` where it begins."""
        asked: dict[str, Any] = {"uri": buffer.uri, "instruction": instruction}
        if place is not None:
            start = buffer.text.index(place)
            asked["range"] = buffer.document.range(start, start + len(place) * (not cursor))
        found: dict[str, Any] = _plain(await self.command("vivace.edit", asked))
        return found

    async def offered(
        self, buffer: Buffer, message: str, at: str = "", only: list[Any] | None = None
    ) -> list[Any]:
        """What can be done where another server has this to say."""
        start = buffer.text.index(at)
        place = buffer.document.range(start, start + 4)
        complaint = lsp.Diagnostic(range=place, message=message, source="another server")
        found = await self.client.text_document_code_action_async(
            lsp.CodeActionParams(
                text_document=lsp.TextDocumentIdentifier(uri=buffer.uri),
                range=place,
                context=lsp.CodeActionContext(diagnostics=[complaint], only=only),
            )
        )
        return list(found or ())

    async def command(self, name: str, argument: dict[str, Any]) -> Any:
        return await self.client.workspace_execute_command_async(
            lsp.ExecuteCommandParams(command=name, arguments=[argument])
        )

    async def until(self, happens: Callable[[], object]) -> None:
        await eventually_async(lambda: bool(happens()))

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Send the messages of the block in one piece, so that the server has all at once."""
        protocol, messages = self.client.protocol, bytearray()
        writer: Any = protocol.writer
        protocol.writer = SimpleNamespace(write=messages.extend)
        try:
            yield
        finally:
            protocol.writer = writer
            writer.write(bytes(messages))

    async def barrier(self) -> None:
        """Wait until the server has begun to handle all that was sent before."""
        nowhere = lsp.TextDocumentIdentifier(uri="file:///nowhere")
        await self.client.text_document_inline_completion_async(
            lsp.InlineCompletionParams(
                context=lsp.InlineCompletionContext(lsp.InlineCompletionTriggerKind.Automatic),
                position=lsp.Position(0, 0),
                text_document=nowhere,
            )
        )

    async def said(self, why: str) -> None:
        """Wait until the status says so."""
        await self.until(lambda: any(why in each["why"] for each in self.statuses))


Start = Callable[[LanguageClient], Any]
"""Connect a client to a server: a context manager, at whose end the server has ended too."""


@cache
def _client_converter() -> Converter:
    """Return one converter for all clients, as making one takes as long as a short test.

    lsprotocol takes every answer that has a command for a ``Command``; this one looks closer.
    """
    made: Converter = default_converter()  # type: ignore[no-untyped-call]
    either: Any = Union[lsp.Command, lsp.CodeAction]  # noqa: UP007 - as lsprotocol writes it

    def command_or_action(found: Any, _: Any) -> Any:
        kind = lsp.Command if isinstance(found.get("command"), str) else lsp.CodeAction
        return made.structure(found, kind)

    made.register_structure_hook(either, command_or_action)
    return made


@asynccontextmanager
async def _running(
    start: Start,
    folder: Path,
    *,
    encodings: Sequence[Encoding] = ("utf-16",),
    known: dict[str, Any] = KNOWN,
    shows_ghosts: bool = True,
    options: dict[str, Any] | None = None,
) -> AsyncIterator[tuple[Editor, lsp.InitializeResult]]:
    with mock.patch.object(pytest_lsp.client, "default_converter", _client_converter):
        client = make_test_lsp_client()
    editor = Editor(client, encodings[0])
    capabilities = lsp.ClientCapabilities(
        general=lsp.GeneralClientCapabilities(position_encodings=list(encodings)),
        workspace=lsp.WorkspaceClientCapabilities(
            apply_edit=True,
            workspace_edit=lsp.WorkspaceEditClientCapabilities(document_changes=True),
        ),
        window=lsp.WindowClientCapabilities(work_done_progress=True),
        text_document=lsp.TextDocumentClientCapabilities(
            inline_completion=lsp.InlineCompletionClientCapabilities() if shows_ghosts else None,
            code_action=lsp.CodeActionClientCapabilities(
                code_action_literal_support=lsp.ClientCodeActionLiteralOptions(
                    code_action_kind=lsp.ClientCodeActionKindOptions(
                        value_set=[lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.Refactor]
                    )
                )
            ),
        ),
        notebook_document=lsp.NotebookDocumentClientCapabilities(
            synchronization=lsp.NotebookDocumentSyncClientCapabilities()
        ),
        experimental=known,
    )
    async with start(client):
        result = await client.initialize_session(
            lsp.InitializeParams(
                capabilities=capabilities,
                root_uri=folder.as_uri(),
                initialization_options=options,
            )
        )
        yield editor, result
        await client.shutdown_session()


@asynccontextmanager
async def _process(
    command: Sequence[str], environment: dict[str, str], folder: Path, client: LanguageClient
) -> AsyncIterator[None]:
    await client.start_io(*command, env=environment, cwd=folder)
    yield
    await client.stop()  # type: ignore[no-untyped-call]


@asynccontextmanager
async def _thread(make: Callable[[], Server], client: LanguageClient) -> AsyncIterator[None]:
    """Run a server in a thread, connected to the client by two pipes as a process would be."""
    (stdin, to_server), (from_server, stdout) = os.pipe(), os.pipe()
    with _interpreter_as_before(), mock.patch("vivace.lsp.server._Pygls", server_pygls):
        server = make()
        errors: list[BaseException] = []
        arguments = server, os.fdopen(stdin, "rb"), os.fdopen(stdout, "wb"), errors
        thread = threading.Thread(target=_serve, args=arguments)
        thread.start()
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        incoming = os.fdopen(from_server, "rb")
        received, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), incoming
        )
        outgoing, _ = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin,
            os.fdopen(to_server, "wb", buffering=0),
        )
        client.protocol.set_writer(outgoing)
        reading = asyncio.create_task(_read(client, reader))
        try:
            yield
        finally:
            outgoing.close()
            await reading
            received.close()
            await asyncio.to_thread(thread.join)
    assert errors == []


def _serve(server: Server, stdin: BinaryIO, stdout: BinaryIO, errors: list[BaseException]) -> None:
    try:
        asyncio.run(serve(server, stdin, stdout))
    except SystemExit:
        pass  # the editor said ``exit``
    except BaseException as error:  # noqa: BLE001 - the test reports it
        errors.append(error)
    finally:
        stdout.close()


async def _read(client: LanguageClient, reader: asyncio.StreamReader) -> None:
    """Handle what the server sends; when it ends, whatever still waits for an answer fails."""
    await run_async(
        stop_event=threading.Event(),
        reader=reader,
        protocol=client.protocol,
        error_handler=client.report_server_error,
    )
    for waiting in client.protocol._request_futures.values():
        if not waiting.done():
            waiting.set_exception(ConnectionError("The language server has ended."))


@contextmanager
def _interpreter_as_before() -> Iterator[None]:
    """Undo at the end what the server sets for its whole process."""
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)


@asynccontextmanager
async def vivace(
    folder: Path, url: str, *, process: bool = False, verbose: bool = False, **how: Any
) -> AsyncIterator[tuple[Editor, lsp.InitializeResult]]:
    """``vivace lsp``, with a server at this address.

    ``process`` starts the program; ``verbose`` does too, and has it log all that it can.
    """
    state = folder / ".state"
    environment = {
        **os.environ,
        "VIVACE_URL": url,
        "XDG_STATE_HOME": str(state),
        **({"PYTHONASYNCIODEBUG": "1", "PYTHONPATH": os.pathsep.join(sys.path)} if verbose else {}),
    }
    program = [verbose_server.__file__] if verbose else ["-m", "vivace.cli", "lsp"]
    command = [sys.executable, *program]
    start: Start = partial(_process, command, environment, folder)
    if not (process or verbose):
        start = partial(_thread, partial(Server, Address(url), state / "vivace"))
    async with _running(start, folder, **how) as found:
        yield found


@asynccontextmanager
async def scripted(
    folder: Path,
    script: Sequence[Line] = (),
    rules: str = "",
    url: str = scripted_server.NOWHERE,
    *,
    process: bool = False,
    **how: Any,
) -> AsyncIterator[tuple[Editor, lsp.InitializeResult]]:
    """Play ``script`` for completions; ``rules`` has the form of a rule file, ``url`` makes edits.

    ``process`` starts a program.
    """
    state = folder / ".state"
    command = [sys.executable, scripted_server.__file__]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SCRIPT": json.dumps([asdict(each) for each in script]),
        "RULES": rules,
        "STATE": str(state),
        "VIVACE_URL": url,
    }
    start: Start = partial(_process, command, environment, folder)
    if not process:
        make = partial(scripted_server.make_server, list(script), rules, Address(url), state)
        start = partial(_thread, make)
    async with _running(start, folder, **how) as found:
        yield found


def _plain(value: Any) -> Any:
    """What pygls has made objects of."""
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
