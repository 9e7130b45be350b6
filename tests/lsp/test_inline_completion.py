"""What is shown behind the cursor, and when nothing is."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcRequestCancelled

from tests.lsp.editor import Editor, scripted
from tests.lsp.scripted import Line
from vivace.desk.completing import Suggestion
from vivace.lsp.documents import Document
from vivace.lsp.inline_completion import item_for
from vivace.lsp.positions import Encoding

Work = Callable[[Editor], Awaitable[None]]


def play(folder: Path, script: list[Line], work: Work, **how: Any) -> None:
    async def session() -> None:
        async with scripted(folder, script, **how) as (editor, _):
            await work(editor)

    asyncio.run(session())


def offered(text: str, suggestion: str, covers: int = 0) -> tuple[str, str] | None:
    """What takes the place of what, with the cursor at the bar."""
    cursor = text.index("|")
    document = Document("file:///a.py", "a.py", 1, text.replace("|", ""), "utf-16")
    item = item_for(document, cursor, Suggestion(suggestion, cursor, cursor + covers))
    if item is None:
        return None
    assert item.range is not None
    assert item.range.start.line == item.range.end.line
    start, end = document.span(item.range)
    assert isinstance(item.insert_text, str)
    return document.text[start:end], item.insert_text


@pytest.mark.parametrize(
    ("text", "covers", "replaced"),
    [
        ("x = f|\n", 0, "x = f"),
        ("    x = f|\n", 0, "x = f"),
        ("\tx = f(|)\n", 1, "x = f()"),
        ("    |\n", 0, ""),
        ("a\r\n  b|\r\n", 0, "b"),
    ],
)
def test_the_range_begins_with_the_line_and_repeats_what_is_typed(
    text: str, covers: int, replaced: str
) -> None:
    typed = text[text.rindex("\n", 0, text.index("|")) + 1 if "\r" in text else 0 :]
    before = typed[: typed.index("|")].lstrip()
    assert offered(text, "NEW", covers) == (replaced, f"{before}NEW")


def test_what_would_cover_more_than_the_line_is_not_shown() -> None:
    assert offered("f(|)\n", "x)", 1) is not None
    assert offered("f(|)\n", "x)", 2) is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_a_suggestion_comes_in_the_clients_own_columns(tmp_path: Path, encoding: Encoding) -> None:
    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "a.py", "\f\r\n\u2028😀 = é(𝄞)\r\n")
        item = await buffer.complete("(𝄞")
        assert item is not None
        assert buffer.accepted(item) == "\f\r\n\u2028😀 = é(𝄞, b)\r\n"

    encodings, process = [encoding, "utf-16"], encoding == "utf-8"
    play(tmp_path, [Line("é(𝄞", ", b)", covers=1)], work, encodings=encodings, process=process)


def test_what_is_typed_is_known_at_the_next_question(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "a.py", "")
        buffer.type("ret")
        buffer.type("urn ")
        item = await buffer.complete()
        assert item is not None
        assert buffer.accepted(item) == "return 1"
        assert await editor.open("untitled:Untitled-1", "return ").complete() is not None

    play(tmp_path, [Line("return ", "1")], work)


def test_where_it_is_switched_off_nothing_comes(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        assert await editor.open(tmp_path / "a.py", "return ").complete() is None

    off = {"completion": {"enabled": False}}
    play(tmp_path, [Line("return ", "1")], work, options=off)


def test_an_older_question_is_answered_with_nothing(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "a.py", "slow")
        older = asyncio.create_task(buffer.complete())
        await editor.until((tmp_path / "slow.begun").exists)
        buffer.type("fast")
        newer = await buffer.complete()
        assert await older is None
        assert newer is not None

    play(tmp_path, [Line("slow", "1", gate=f"{tmp_path}/slow"), Line("fast", "2")], work)


def test_of_two_questions_at_once_the_newer_one_is_answered(tmp_path: Path) -> None:
    """Though both wait until it is known whether the file may be read."""

    async def work(editor: Editor) -> None:
        for number in range(30):
            buffer = editor.open(tmp_path / f"{number}.py", "return ")
            with editor.at_once():
                older, newer = (asyncio.create_task(buffer.complete()) for _ in range(2))
                await asyncio.sleep(0)
            await older
            assert await newer is not None

    play(tmp_path, [Line("return ", "1", turns=50)], work)


def test_what_was_typed_over_is_not_shown(tmp_path: Path) -> None:
    """An editor may ask again only later."""

    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "a.py", "slow")
        asked = asyncio.create_task(buffer.complete())
        await editor.until((tmp_path / "slow.begun").exists)
        buffer.type("er")
        await editor.barrier()
        (tmp_path / "slow.open").touch()
        assert await asked is None

    play(tmp_path, [Line("slow", "1", gate=f"{tmp_path}/slow")], work)


def test_a_question_can_be_cancelled(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "a.py", "slow")
        asked = asyncio.create_task(buffer.complete())
        await editor.until((tmp_path / "slow.begun").exists)
        [number] = editor.client.protocol._request_futures
        editor.client.cancel_request(lsp.CancelParams(id=number))
        with pytest.raises(JsonRpcRequestCancelled):
            await asked
        buffer.type("fast")
        assert await buffer.complete() is not None

    play(tmp_path, [Line("slow", "1", gate=f"{tmp_path}/slow"), Line("fast", "2")], work)


def test_what_is_selected_in_the_list_is_extended_in_its_range(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "a.py", "  os.pa\n")
        place = buffer.document.range(5, 7)
        selected = lsp.SelectedCompletionInfo(range=place, text="path")
        item = await buffer.complete("os.pa", selected)
        assert item is not None
        assert (item.insert_text, item.range) == ("path.join(a)", place)
        other = lsp.SelectedCompletionInfo(range=place, text="pardir")
        assert await buffer.complete("os.pa", other) is None

    play(tmp_path, [Line("os.path", ".join(a)"), Line("os.pa", "WRONG")], work)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (".env", "KEY=1\nx", "secrets"),
        ("out.log", "x", "git ignores it"),
        ("id_rsa", "x", "a key"),
        ("code.py", "token = 'ghp_" + "a" * 36 + "'\n" + "\n" * 2000 + "x", "a GitHub token"),
    ],
)
def test_what_no_model_may_read_gets_nothing_and_is_told_why(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("*.log\n")

    async def work(editor: Editor) -> None:
        assert await editor.open(tmp_path / name, text).complete() is None
        await editor.said(why)
        assert await editor.open(tmp_path / "other.py", "x").complete() is not None

    play(tmp_path, [Line("x", "NEW")], work)


def test_why_nothing_comes_is_told_once(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "a.py", "x")
        for _ in range(3):
            assert await buffer.complete() is None
        await editor.said("No server answers")
        assert [each["why"] for each in editor.statuses].count("No server answers") == 1

    play(tmp_path, [Line("x", "", status="No server answers")], work)


def test_a_client_that_shows_no_status_is_sent_none(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        assert await editor.open(tmp_path / ".env", "x").complete() is None
        assert editor.statuses == []

    play(tmp_path, [Line("x", "NEW")], work, known={})


def test_a_document_that_is_closed_has_no_suggestions(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "a.py", "x")
        assert await buffer.complete() is not None
        buffer.close()
        assert await buffer.complete() is None

    play(tmp_path, [Line("x", "NEW")], work)
