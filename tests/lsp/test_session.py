"""A session from the first word to the last, and what it leaves in the log."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from tests.lsp.editor import Buffer, scripted
from tests.lsp.scripted import Line
from vivace.lsp.documents import Document
from vivace.lsp.positions import Encoding


@pytest.mark.parametrize(
    ("offers", "chosen"),
    [(["utf-8", "utf-16"], "utf-8"), (["utf-16"], "utf-16"), (["utf-32", "utf-8"], "utf-32")],
)
def test_the_server_says_what_it_can_and_counts_as_the_client_does(
    tmp_path: Path, offers: list[Encoding], chosen: Encoding
) -> None:
    async def session() -> None:
        process = chosen == "utf-8"
        async with scripted(tmp_path, encodings=offers, process=process) as (_, told):
            can = told.capabilities
            assert can.position_encoding == chosen
            assert can.inline_completion_provider is not None
            assert isinstance(can.text_document_sync, lsp.TextDocumentSyncOptions)
            assert can.text_document_sync.change == lsp.TextDocumentSyncKind.Incremental
            assert told.server_info is not None
            assert told.server_info.name == "vivace"

    asyncio.run(session())


def test_a_setting_that_cannot_be_used_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    async def session() -> None:
        wrong = {"completion": {"timing": "never"}}
        async with scripted(tmp_path, [Line("x", "1")], options=wrong) as (editor, _):
            assert await editor.open(tmp_path / "a.py", "x").complete() is not None
            [message] = editor.client.messages
            assert "never" in message.message
            assert "timing" in message.message

    asyncio.run(session())


def test_no_code_is_logged_at_any_level_nor_told_in_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def session() -> None:
        script = [Line("x", "SECRET"), Line("fail", "", fails=True)]
        async with scripted(tmp_path, script, process=True) as (editor, _):
            buffer = editor.open(tmp_path / "SECRET.py", "SECRET x")
            assert await buffer.complete() is not None
            buffer.type(" SECRET fail")
            with pytest.raises(JsonRpcException) as failed:
                await buffer.complete()
            assert "SECRET" not in f"{failed.value.message} {failed.value.data}"
            for method in ("textDocument/didChange", "vivace/unknown"):
                message = {"jsonrpc": "2.0", "method": method, "params": {"SECRET": "SECRET"}}
                editor.client.protocol._send_data(message)
            assert await editor.open(tmp_path / "b.py", "x").complete() is not None

    asyncio.run(session())
    log = capfd.readouterr().err
    assert "ValueError" in log
    assert "Sending data" in log
    assert "SECRET" not in log


def test_a_question_that_cannot_be_understood_is_answered(tmp_path: Path) -> None:
    questions: list[tuple[str, object]] = [
        ("textDocument/inlineCompletion", {}),
        ("textDocument/inlineCompletion", {"position": {"line": -1, "character": "x"}}),
        ("textDocument/codeAction", 5),
        ("workspace/executeCommand", None),
        ("workspace/executeCommand", {"command": "vivace.edit", "arguments": "x"}),
        ("vivace/unknown", {}),
    ]

    async def session() -> None:
        async with scripted(tmp_path, [Line("x", "1")]) as (editor, _):
            for number, (method, params) in enumerate(questions):
                answer: Future[Any] = Future()
                editor.client.protocol._request_futures[f"odd {number}"] = answer
                question = {"jsonrpc": "2.0", "id": f"odd {number}", "method": method}
                editor.client.protocol._send_data(question | {"params": params})
                with pytest.raises(JsonRpcException):
                    await asyncio.wrap_future(answer)
            assert await editor.open(tmp_path / "a.py", "x").complete() is not None

    asyncio.run(session())


def test_after_a_message_that_is_none_the_next_one_is_heard(tmp_path: Path) -> None:
    messages = [
        b"{nope",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"jsonrpc": "2.0", "method": "\xff"}',
        b'{"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {"x": 1}}',
        b'{"jsonrpc": "2.0", "id": null, "method": "textDocument/codeAction"}',
        b'{"jsonrpc": "2.0", "id": "nobody asked", "result": null}',
        b"",
    ]

    async def session() -> None:
        async with scripted(tmp_path, [Line("x", "1")]) as (editor, _):
            wire = editor.client.protocol.writer
            assert wire is not None
            for number, sent in enumerate(messages):
                wire.write(f"Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
                assert await editor.open(tmp_path / f"{number}.py", "x").complete(), sent[:80]

    asyncio.run(session())


def test_documents_that_come_and_go_in_no_order_are_what_was_sent_last(tmp_path: Path) -> None:
    async def session() -> None:
        async with scripted(tmp_path, [Line("x", "1")]) as (editor, _):
            uri = (tmp_path / "a.py").as_uri()
            unopened = Buffer(editor.client, Document(uri, "a.py", 9, "", "utf-16"))
            unopened.type("x")
            unopened.close()
            assert await unopened.complete() is None
            editor.open(tmp_path / "a.py", "y")
            again = editor.open(tmp_path / "a.py", "z")
            again.document.version = -7
            again.type("x")
            item = await again.complete()
            assert item is not None
            assert again.accepted(item) == "zx1"

    asyncio.run(session())


def test_a_document_is_known_by_whatever_address_the_editor_gives_it(tmp_path: Path) -> None:
    addresses = [
        "untitled:Untitled-1",
        "untitled:Ohne Titel.py",
        f"vscode-notebook-cell:{tmp_path}/n.ipynb#W0sZmlsZQ%3D%3D",
        f"file://{tmp_path}/with%20space%20%C3%A9%25.py",
        f"file://{tmp_path}/with space.py",
        f"file://{tmp_path}/%F0%9F%98%80.py",
    ]

    async def session() -> None:
        async with scripted(tmp_path, [Line("x", "1")]) as (editor, _):
            for each in addresses:
                buffer = editor.open(each, "")
                buffer.type("x")
                item = await buffer.complete()
                assert item is not None, each
                assert buffer.accepted(item) == "x1"

    asyncio.run(session())


def test_the_server_goes_when_the_editor_does(tmp_path: Path) -> None:
    environment = {**os.environ, "SCRIPT": "[]", "STATE": str(tmp_path)}
    command = [sys.executable, "-m", "tests.lsp.scripted"]
    half_a_message = b"Content-Length: 99\r\n\r\n{"
    ran = subprocess.run(command, env=environment, input=half_a_message, check=False)
    assert ran.returncode == 0


def test_completion_is_for_the_text_at_the_request_when_messages_arrive_together(
    tmp_path: Path,
) -> None:
    """The engine may answer before the change is read: then the range is that of the old text."""

    async def session() -> None:
        async with scripted(tmp_path, [Line("behind", " it")]) as (editor, _):
            buffer = editor.open(tmp_path / "a.py", "behind")
            whole = buffer.document.range(0, len("behind"))
            with editor.at_once():
                asked = asyncio.create_task(buffer.complete())
                await asyncio.sleep(0)
                buffer.replace(0, 0, "before ")
            found = await asked
            assert found is None or found.range == whole
            buffer.replace(0, len("before "), "")
            assert await buffer.complete() is not None

    asyncio.run(session())
