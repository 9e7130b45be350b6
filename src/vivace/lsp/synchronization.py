"""``textDocument/didOpen``, ``didChange``, ``didSave`` and ``didClose``: the documents as they are
typed."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence

from lsprotocol.types import (
    DidChangeTextDocumentParams,
    DidCloseTextDocumentParams,
    DidOpenTextDocumentParams,
    DidSaveTextDocumentParams,
    TextDocumentItem,
)

from vivace.lsp.diagnostics import Diagnostics
from vivace.lsp.documents import Document
from vivace.lsp.execute_command import ExecuteCommand
from vivace.lsp.extensions import Status
from vivace.lsp.files import name_for
from vivace.lsp.garbage import Garbage
from vivace.lsp.session import Session
from vivace.lsp.suggestions import Suggestions

__all__ = ["Synchronization"]


class Synchronization:
    def __init__(
        self,
        session: Session,
        suggestions: Suggestions,
        commands: ExecuteCommand,
        diagnostics: Diagnostics,
        garbage: Garbage,
    ) -> None:
        self._session = session
        self._suggestions = suggestions
        self._commands = commands
        self._diagnostics = diagnostics
        self._garbage = garbage

    async def did_open(self, params: DidOpenTextDocumentParams) -> None:
        await self.open_all([params.text_document])

    def open_all(self, items: Sequence[TextDocumentItem]) -> Coroutine[None, None, None]:
        """They are open at once; then it is found out whether they may be read, before anybody
        types."""
        return self._look_at([self._open(each) for each in items])

    def _open(self, given: TextDocumentItem) -> Document:
        path = name_for(given.uri, given.language_id)
        document = self._session.documents.open(given.uri, path, given.version, given.text)
        self._session.files.opened(document)
        return document

    async def _look_at(self, documents: Sequence[Document]) -> None:
        for document in documents:
            if (why := await self._session.files.why_not(document)) is not None:
                self._session.editor.show_status(Status(uri=document.uri, why=why))
        for document in documents:
            await self._diagnostics.opened(document)

    def did_change(self, params: DidChangeTextDocumentParams) -> None:
        self._garbage.typed()
        given, changes = params.text_document, params.content_changes
        document = self._session.documents.change(given.uri, given.version, changes)
        if document is not None:
            self._session.files.changed(document, changes)
            self._diagnostics.changed(document)

    def did_save(self, params: DidSaveTextDocumentParams) -> None:
        self._diagnostics.saved(params.text_document.uri)

    async def did_close(self, params: DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        self._session.documents.close(uri)
        self._session.files.closed(uri)
        self._session.editor.forget_status(uri)
        self._commands.closed(uri)
        self._diagnostics.closed(uri)
        await self._suggestions.close(uri)
