"""What is done before a key asks for it: where the cursor goes, and behind a suggestion."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import Buffer, Editor, vivace
from tests.support.plain_endpoint import PlainEndpoint, sse
from vivace.completion.session import Session

TEXT = "def add(a, b):\n    \n\n\ndef sub(a, b):\n    \n\n\nend\n"


def answer(body: dict[str, Any]) -> list[bytes]:
    response = {"id": "resp_1", "fill": True}
    follows = " a\n    c = a\n\n" if "typed" in body["fill"] else "    return a\n\n"
    written = [{"type": "response.output_text.delta", "delta": follows}]
    return sse(
        {"type": "response.created", "response": response},
        *(written if body["generate"] else []),
        {"type": "response.completed", "response": response | {"status": "completed"}},
    )


def play(folder: Path, work: Callable[[Editor, PlainEndpoint], Awaitable[None]]) -> list[str]:
    """What was read ahead: the end of each prefix."""

    async def session() -> None:
        async with vivace(folder, endpoint.url) as (editor, _):
            await work(editor, endpoint)

    with PlainEndpoint({"/v1/responses": answer}) as endpoint:
        asyncio.run(session())
    bodies = [body for path, body in endpoint.asked if path == "/v1/responses"]
    return [body["fill"]["prefix"][-8:] for body in bodies if not body["generate"]]


async def go(editor: Editor, buffer: Buffer, behind: str, **how: Any) -> None:
    """The cursor goes there, and the editor asks for code actions."""
    at = buffer.text.index(behind) + len(behind)
    place = buffer.document.range(at, at + how.pop("selected", 0))
    await editor.client.text_document_code_action_async(
        lsp.CodeActionParams(
            text_document=lsp.TextDocumentIdentifier(uri=buffer.uri),
            range=place,
            context=lsp.CodeActionContext(diagnostics=[], **how),
        )
    )


async def typed_in(editor: Editor, folder: Path, name: str = "a.py") -> Buffer:
    buffer = editor.open(folder / name, TEXT)
    assert await buffer.complete("def add(a, b):\n    ") is not None
    return buffer


def test_where_the_cursor_goes_is_read_once(tmp_path: Path) -> None:
    async def work(editor: Editor, endpoint: PlainEndpoint) -> None:
        buffer = await typed_in(editor, tmp_path)
        for behind in ("def add(a, b):\n    ", "def sub(a, b):\n    ", "def sub(a, b):\n    "):
            await go(editor, buffer, behind)
        await editor.until(lambda: not endpoint.asked[-1][1]["generate"])
        assert await buffer.complete("def sub(a, b):\n    ") is not None
        prefixes = [body["fill"]["prefix"] for _, body in endpoint.asked[-2:]]
        assert prefixes[0] == prefixes[1], "what is asked was read ahead"

    assert play(tmp_path, work) == ["(a, b):\n"]


def test_where_an_editor_says_that_the_cursor_rests_is_read_before_the_first_key(
    tmp_path: Path,
) -> None:
    async def work(editor: Editor, endpoint: PlainEndpoint) -> None:
        buffer = editor.open(tmp_path / "a.py", TEXT)
        hidden = editor.open(tmp_path / ".env", TEXT)
        place = buffer.document.position(TEXT.index("end"))
        for each in (hidden, buffer, buffer):
            await editor.command("vivace.cursor", {"uri": each.uri, "position": place})
        await editor.until(lambda: endpoint.asked)
        assert await buffer.complete("def sub(a, b):\n    ") is not None

    assert play(tmp_path, work) == ["\n    \n\n\n"]


@pytest.mark.parametrize("why", ["selected", "invoked", "paused", "another", "secret"])
def test_nothing_is_read_ahead_where_nobody_may_be_going_to_type(tmp_path: Path, why: str) -> None:
    async def work(editor: Editor, endpoint: PlainEndpoint) -> None:
        buffer = await typed_in(editor, tmp_path)
        if why == "selected":
            await go(editor, buffer, "def sub", selected=3)
        if why == "invoked":
            await go(editor, buffer, "def sub", trigger_kind=lsp.CodeActionTriggerKind.Invoked)
        if why == "paused":
            await editor.command("vivace.pause", {"paused": True})
            await go(editor, buffer, "def sub")
            await editor.command("vivace.pause", {"paused": False})
        if why == "another":
            others = [editor.open(tmp_path / f"{n}.py", TEXT) for n in range(20)]
            for each in others:
                await go(editor, each, "def sub")
        if why == "secret":
            buffer.type("\nKEY = 'AKIA" + "ABCDEFGHIJKLMNOP'\n")
            await go(editor, buffer, "def sub")
        last = await typed_in(editor, tmp_path, "last.py")
        assert await last.complete("def sub(a, b):\n    ") is not None

    assert play(tmp_path, work) == []


def test_what_follows_a_suggestion_is_there_when_it_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, end = list[int](), Session.ended

    def end_and_note(session: Session, number: int, *, failed: bool = False) -> None:
        end(session, number, failed=failed)
        ended.append(number)

    monkeypatch.setattr(Session, "ended", end_and_note)

    async def work(editor: Editor, endpoint: PlainEndpoint) -> None:
        buffer = editor.open(tmp_path / "a.py", "def add(a, b):\n    ")
        assert await buffer.complete() is not None
        await editor.until(lambda: endpoint.asked[-1][1].get("service_tier") == "flex")
        await editor.until(lambda: len(ended) == 2)  # the suggestion, and what follows it
        buffer.type("return a")
        assert await buffer.complete() is None, "there is no more for this line"
        requests = len(endpoint.asked)
        buffer.type("\n    ")
        found = await buffer.complete()
        assert found is not None
        assert found.insert_text == "c = a"
        assert len(endpoint.asked) == requests

    assert play(tmp_path, work) == []
