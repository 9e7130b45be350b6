"""``notebookDocument/didOpen``, ``didChange`` and ``didClose``: cells are documents in an order."""

from __future__ import annotations

from lsprotocol.types import (
    DidChangeNotebookDocumentParams,
    DidChangeTextDocumentParams,
    DidCloseNotebookDocumentParams,
    DidCloseTextDocumentParams,
    DidOpenNotebookDocumentParams,
    NotebookDocumentFilterWithNotebook,
    NotebookDocumentSyncOptions,
    TextDocumentIdentifier,
)

from vivace.lsp.session import Session
from vivace.lsp.synchronization import Synchronization

__all__ = ["SYNCHRONIZED", "Notebooks"]

SYNCHRONIZED = NotebookDocumentSyncOptions([NotebookDocumentFilterWithNotebook("*")])
"""All cells of all kinds of notebook."""


class Notebooks:
    def __init__(self, session: Session, documents: Synchronization) -> None:
        self._cells = session.notebooks
        self._documents = documents

    async def did_open(self, params: DidOpenNotebookDocumentParams) -> None:
        notebook = params.notebook_document
        self._cells[notebook.uri] = [cell.document for cell in notebook.cells]
        await self._documents.open_all(params.cell_text_documents)

    async def did_change(self, params: DidChangeNotebookDocumentParams) -> None:
        cells = params.change.cells
        if cells is None:
            return
        come, gone = [], []
        if cells.structure is not None:
            array = cells.structure.array
            known = self._cells.setdefault(params.notebook_document.uri, [])
            known[array.start : array.start + array.delete_count] = [
                each.document for each in array.cells or ()
            ]
            come, gone = list(cells.structure.did_open or ()), list(cells.structure.did_close or ())
        looking = self._documents.open_all(come)
        for each in cells.text_content or ():
            self._documents.did_change(DidChangeTextDocumentParams(each.document, each.changes))
        for cell in gone:
            await self._documents.did_close(DidCloseTextDocumentParams(cell))
        await looking

    async def did_close(self, params: DidCloseNotebookDocumentParams) -> None:
        self._cells.pop(params.notebook_document.uri, None)
        for each in params.cell_text_documents:
            cell = TextDocumentIdentifier(each.uri)
            await self._documents.did_close(DidCloseTextDocumentParams(cell))
