"""An editor without a screen: the language server as a process, and a buffer that is typed into."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pytest_lsp import LanguageClient, make_test_lsp_client

from tests.lsp import scripted as scripted_server
from tests.lsp.scripted import Line
from vivace.lsp.documents import Document
from vivace.lsp.extensions import STATUS
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
        self._encoding: Encoding = encoding

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
        return Buffer(self.client, document)

    async def said(self, why: str) -> None:
        """Wait until the status says so."""
        async with asyncio.timeout(20):
            while not any(why in each["why"] for each in self.statuses):
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running(
    command: Sequence[str],
    environment: dict[str, str],
    folder: Path,
    *,
    encodings: Sequence[Encoding] = ("utf-16",),
    known: dict[str, Any] = KNOWN,
    options: dict[str, Any] | None = None,
) -> AsyncIterator[tuple[Editor, lsp.InitializeResult]]:
    client = make_test_lsp_client()
    editor = Editor(client, encodings[0])

    client.feature(STATUS)(lambda params: editor.statuses.append(params._asdict()))
    await client.start_io(*command, env=environment, cwd=folder)
    capabilities = lsp.ClientCapabilities(
        general=lsp.GeneralClientCapabilities(position_encodings=list(encodings)),
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
async def scripted(
    folder: Path, script: Sequence[Line] = (), **how: Any
) -> AsyncIterator[tuple[Editor, lsp.InitializeResult]]:
    command = [sys.executable, scripted_server.__file__]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SCRIPT": json.dumps([asdict(each) for each in script]),
        "STATE": str(folder / ".state"),
    }
    async with running(command, environment, folder, **how) as found:
        yield found
