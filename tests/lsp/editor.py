"""An editor without a screen: the language server as a process, and a buffer that is typed into."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Union

from lsprotocol import types as lsp
from pytest_lsp import LanguageClient, make_test_lsp_client

from tests.lsp import scripted as scripted_server
from tests.lsp import verbose as verbose_server
from tests.lsp.scripted import Line
from vivace.lsp.documents import Document
from vivace.lsp.extensions import EDIT_PROGRESS, STATUS
from vivace.lsp.positions import Encoding

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
        async with asyncio.timeout(20):
            while not happens():
                await asyncio.sleep(0.01)

    async def said(self, why: str) -> None:
        """Wait until the status says so."""
        await self.until(lambda: any(why in each["why"] for each in self.statuses))


@asynccontextmanager
async def running(
    command: Sequence[str],
    environment: dict[str, str],
    folder: Path,
    *,
    encodings: Sequence[Encoding] = ("utf-16",),
    known: dict[str, Any] = KNOWN,
    shows_ghosts: bool = True,
    options: dict[str, Any] | None = None,
) -> AsyncIterator[tuple[Editor, lsp.InitializeResult]]:
    client = make_test_lsp_client()
    converter = client.protocol._converter
    either: Any = Union[lsp.Command, lsp.CodeAction]  # noqa: UP007 - as lsprotocol writes it

    def told_apart(found: Any, _: Any) -> Any:  # lsprotocol takes all that have one for a command
        kind = lsp.Command if isinstance(found.get("command"), str) else lsp.CodeAction
        return converter.structure(found, kind)

    converter.register_structure_hook(either, told_apart)
    editor = Editor(client, encodings[0])

    await client.start_io(*command, env=environment, cwd=folder)
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
    told = await client.initialize_session(
        lsp.InitializeParams(
            capabilities=capabilities,
            root_uri=folder.as_uri(),
            initialization_options=options,
        )
    )
    yield editor, told
    await client.shutdown_session()
    await client.stop()  # type: ignore[no-untyped-call]


@asynccontextmanager
async def vivace(
    folder: Path, url: str, *, verbose: bool = False, **how: Any
) -> AsyncIterator[tuple[Editor, lsp.InitializeResult]]:
    """The real program, with a server at this address; ``verbose`` has it log all that it can."""
    environment = {
        **os.environ,
        "VIVACE_URL": url,
        "XDG_STATE_HOME": str(folder / ".state"),
        **({"PYTHONASYNCIODEBUG": "1", "PYTHONPATH": os.pathsep.join(sys.path)} if verbose else {}),
    }
    program = [verbose_server.__file__] if verbose else ["-m", "vivace.cli", "lsp"]
    command = [sys.executable, *program]
    async with running(command, environment, folder, **how) as found:
        yield found


@asynccontextmanager
async def scripted(
    folder: Path, script: Sequence[Line] = (), rules: str = "", url: str = "", **how: Any
) -> AsyncIterator[tuple[Editor, lsp.InitializeResult]]:
    """``rules`` in the form of a rule file; ``url`` is who is asked for edits."""
    command = [sys.executable, scripted_server.__file__]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SCRIPT": json.dumps([asdict(each) for each in script]),
        "RULES": rules,
        "STATE": str(folder / ".state"),
        **({"VIVACE_URL": url} if url else {}),
    }
    async with running(command, environment, folder, **how) as found:
        yield found


def _plain(value: Any) -> Any:
    """What pygls has made objects of."""
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
