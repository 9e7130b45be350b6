"""Notebooks: a cell goes on from the cells before it, in their order and of its language."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from lsprotocol import types as lsp

from tests.lsp.editor import Editor, scripted
from tests.lsp.scripted import Line

BETWEEN = "\n\n"


class Notebook:
    """As VS Code has one: its cells are documents of their own."""

    def __init__(self, editor: Editor, path: Path, cells: list[tuple[str, str]]) -> None:
        self._client = editor.client
        self._editor = editor
        self._path = path
        self.uri = path.as_uri()
        self.items = [self.item(number, *cell) for number, cell in enumerate(cells)]
        self._client.notebook_document_did_open(
            lsp.DidOpenNotebookDocumentParams(
                lsp.NotebookDocument(
                    uri=self.uri,
                    notebook_type="jupyter-notebook",
                    version=1,
                    cells=[cell(item) for item in self.items],
                ),
                self.items,
            )
        )

    def item(self, number: int, language: str, text: str) -> lsp.TextDocumentItem:
        uri = f"vscode-notebook-cell:{self._path}#cell{number}"
        return lsp.TextDocumentItem(uri, language, 1, text)

    async def complete(self, item: lsp.TextDocumentItem, text: str) -> str | None:
        """What is suggested at the end of a cell that has this text."""
        lines = text.split("\n")
        found = await self._client.text_document_inline_completion_async(
            lsp.InlineCompletionParams(
                context=lsp.InlineCompletionContext(lsp.InlineCompletionTriggerKind.Automatic),
                position=lsp.Position(len(lines) - 1, len(lines[-1])),
                text_document=lsp.TextDocumentIdentifier(item.uri),
            )
        )
        assert not isinstance(found, lsp.InlineCompletionList)
        return str(found[0].insert_text) if found else None

    def change(self, cells: lsp.NotebookDocumentCellChanges) -> None:
        self._client.notebook_document_did_change(
            lsp.DidChangeNotebookDocumentParams(
                lsp.VersionedNotebookDocumentIdentifier(2, self.uri),
                lsp.NotebookDocumentChangeEvent(cells=cells),
            )
        )

    def close(self) -> None:
        self._client.notebook_document_did_close(
            lsp.DidCloseNotebookDocumentParams(
                lsp.NotebookDocumentIdentifier(self.uri),
                [lsp.TextDocumentIdentifier(each.uri) for each in self.items],
            )
        )


def cell(item: lsp.TextDocumentItem) -> lsp.NotebookCell:
    is_text = item.language_id == "markdown"
    kind = lsp.NotebookCellKind.Markup if is_text else lsp.NotebookCellKind.Code
    return lsp.NotebookCell(kind=kind, document=item.uri)


def play(folder: Path, script: list[Line], work: Callable[[Editor], Awaitable[None]]) -> None:
    async def session() -> None:
        async with scripted(folder, script) as (editor, told):
            assert told.capabilities.notebook_document_sync is not None
            await work(editor)

    asyncio.run(session())


def test_a_cell_goes_on_from_those_before_it_in_its_language(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        book = Notebook(
            editor,
            tmp_path / "a.ipynb",
            [("python", "x = 1\n"), ("markdown", "# Title"), ("python", "y = "), ("python", "z")],
        )
        await book.complete(book.items[0], "x = 1\n")  # all that were opened before are known then
        await book.complete(book.items[3], "z")
        assert await book.complete(book.items[2], "y = ") == "y = x"
        assert await book.complete(book.items[0], "x = 1\n") is None

    play(tmp_path, [Line(f"x = 1{BETWEEN}y = ", "x"), Line("y = ", "WRONG")], work)


def test_cells_that_come_go_and_change_are_followed(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        book = Notebook(editor, tmp_path / "a.ipynb", [("python", "old"), ("python", "y = ")])
        first, last = book.items
        new = book.item(7, "python", "x")
        identifier = lsp.TextDocumentIdentifier(first.uri)
        array = lsp.NotebookCellArrayChange(0, 1, [cell(new)])
        book.change(
            lsp.NotebookDocumentCellChanges(
                structure=lsp.NotebookDocumentCellChangeStructure(array, [new], [identifier])
            )
        )
        typed = lsp.TextDocumentContentChangePartial(
            range=lsp.Range(lsp.Position(0, 1), lsp.Position(0, 1)), text=" = 2"
        )
        changed = lsp.VersionedTextDocumentIdentifier(2, new.uri)
        book.change(
            lsp.NotebookDocumentCellChanges(
                text_content=[lsp.NotebookDocumentCellContentChanges(changed, [typed])]
            )
        )
        await book.complete(new, "x = 2")
        assert await book.complete(last, "y = ") == "y = x"
        assert await book.complete(first, "old") is None
        book.close()
        assert await book.complete(last, "y = ") is None

    play(tmp_path, [Line(f"x = 2{BETWEEN}y = ", "x"), Line("", "WRONG")], work)


def test_a_cell_with_a_key_is_shown_to_nobody(tmp_path: Path) -> None:
    key = "token = 'ghp_" + "a" * 36 + "'"

    async def work(editor: Editor) -> None:
        book = Notebook(editor, tmp_path / "a.ipynb", [("python", key), ("python", "y = ")])
        assert await book.complete(book.items[0], key) is None
        assert await book.complete(book.items[1], "y = ") == "y = 1"

    play(tmp_path, [Line("ghp", "LEAK"), Line(f"{BETWEEN}y = ", "LEAK"), Line("y = ", "1")], work)


def test_a_name_that_other_cells_have_is_not_renamed_in_one_alone(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        book = Notebook(editor, tmp_path / "a.ipynb", [("python", "x = 1"), ("python", "y = x")])
        asked = {"uri": book.items[0].uri, "position": lsp.Position(0, 0), "newName": "z"}
        ended = await editor.command("vivace.rename", asked)
        assert ended["status"] == "refused"
        assert editor.applied == []

    play(tmp_path, [], work)
