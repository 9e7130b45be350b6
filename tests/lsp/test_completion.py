"""Suggestions in the list of completions: for whom, when, and in place of what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import Editor, scripted
from tests.lsp.in_process import InProcess
from tests.lsp.scripted import Line
from vivace.desk.completing import Suggestion
from vivace.lsp.completion import completion_item
from vivace.lsp.documents import Document


def play(folder: Path, script: list[Line], work: Callable[[Editor], Awaitable[None]]) -> None:
    async def session() -> None:
        async with scripted(folder, script, shows_ghosts=False) as (editor, _):
            await work(editor)

    asyncio.run(session())


def item(text: str, suggestion: str, covers: int = 0) -> lsp.CompletionItem | None:
    """With the cursor at the bar."""
    cursor = text.index("|")
    document = Document("file:///a.py", "a.py", 1, text.replace("|", ""), "utf-16")
    return completion_item(document, cursor, Suggestion(suggestion, cursor, cursor + covers))


@pytest.mark.parametrize("shows_ghosts", [True, False])
def test_only_an_editor_without_ghost_text_is_offered_items(
    tmp_path: Path, shows_ghosts: bool
) -> None:
    async def session() -> None:
        async with scripted(tmp_path, shows_ghosts=shows_ghosts) as (_, told):
            assert (told.capabilities.completion_provider is None) == shows_ghosts

    asyncio.run(session())


@pytest.mark.parametrize(
    ("text", "covers", "becomes"),
    [
        ("x = |\n", 0, "x = NEW\nLINE\n"),
        ("    retu|\n", 0, "    retuNEW\nLINE\n"),
        ("f(a.b|)\n", 1, "f(a.bNEW\nLINE\n"),
        ("é𝄞 = naïve|\r\n", 0, "é𝄞 = naïveNEW\nLINE\r\n"),
    ],
)
def test_an_item_fits_the_document(text: str, covers: int, becomes: str) -> None:
    found = item(text, "NEW\nLINE", covers)
    assert found is not None
    assert isinstance(found.text_edit, lsp.TextEdit)
    document = Document("file:///a.py", "a.py", 1, text.replace("|", ""), "utf-16")
    start, end = document.span(found.text_edit.range)
    assert start <= text.index("|") <= end
    assert document.text[:start] + found.text_edit.new_text + document.text[end:] == becomes


def test_an_item_begins_with_the_word_by_which_editors_filter() -> None:
    found = item("    retu|\n", "rn 1\n    # and more\n")
    assert found is not None
    assert (found.label, found.filter_text) == ("return 1…", "return 1")
    assert found.documentation == "return 1\n    # and more\n"


def test_what_would_cover_more_than_the_line_is_no_item() -> None:
    assert item("f(|)\n", "x)", 1) is not None
    assert item("f(|)\n", "x)", 2) is None


def test_who_asks_has_the_suggestion_and_it_counts_as_one(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "a.py", "x = 1\nreturn ")
        [found] = await buffer.items()
        assert isinstance(found.text_edit, lsp.TextEdit)
        buffer.apply([found.text_edit])
        assert buffer.text == "x = 1\nreturn x"
        assert found.command is not None
        assert found.command.command == "vivace.accepted"
        assert await buffer.items("x = ") == []

    play(tmp_path, [Line("return ", "x")], work)


def test_items_right_behind_a_word_come_only_when_typing_has_paused(tmp_path: Path) -> None:
    desk, numbers = InProcess(tmp_path), count(1)
    uri = (tmp_path / "a.py").as_uri()

    def type_text(column: int, text: str) -> None:
        at = {"line": 0, "character": column}
        change = {"range": {"start": at, "end": at}, "text": text}
        document = {"uri": uri, "version": next(numbers)}
        desk.send("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})

    def items(column: int, written: str) -> list[str]:
        number = f"question {next(numbers)}"
        place = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": column}}
        desk.send("textDocument/completion", place, number)
        desk.loop.let_pass(0.1)
        for answer in list(desk.engine.answers):
            answer.say({"content": written, "stop": False}, {"content": "", "stop": True})
            answer.end()
        desk.loop.let_pass(0.1)
        [answered] = [each for each in desk.sent if each.get("id") == number]
        return [each["label"] for each in answered["result"]]

    desk.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, 0)
    desk.send("initialized", {})
    opened = {"uri": uri, "languageId": "python", "version": 0, "text": ""}
    desk.send("textDocument/didOpen", {"textDocument": opened})
    type_text(0, "retu")
    assert items(4, "return 1") == [], "editors ask by themselves within words"
    desk.loop.let_pass(0.5)
    assert items(4, "return 1") == ["return 1"]
    type_text(4, "rn ")
    assert items(7, " 1") == ["1"]
    desk.send("textDocument/didClose", {"textDocument": {"uri": uri}})
    desk.close()
    assert desk.errors == []


def test_a_file_that_no_model_may_read_has_no_items(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        assert await editor.open(tmp_path / ".env", "KEY=").items() == []

    play(tmp_path, [Line("=", "SECRET")], work)
