"""What is offered where somebody stands: a fix for each complaint, and an edit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import KNOWN, vivace
from tests.support.editing import LOADED, SHOP, answers
from tests.support.server import RunningGateway

MESSAGE = "The file is never closed"


def test_a_complaint_of_any_server_is_fixed_where_it_is(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    gateway.engine.play([answers(LOADED[LOADED.index("def load") :], when=MESSAGE)])

    async def session() -> None:
        async with vivace(tmp_path, gateway.url) as (editor, _):
            buffer = editor.open(tmp_path / "shop.py", SHOP)
            await buffer.complete()  # it is known by then whether it may be read
            fix, edit = await editor.offered(buffer, MESSAGE, "file = open")
            assert (fix.title, fix.kind) == (f"Fix: {MESSAGE}", lsp.CodeActionKind.QuickFix)
            assert [each.message for each in fix.diagnostics] == [MESSAGE]
            assert (edit.title, "instruction" in edit.command.arguments[0]) == ("Edit…", False)
            ended = await editor.command(fix.command.command, fix.command.arguments[0])
            assert ended["status"] == "applied"
            assert buffer.text == LOADED

    asyncio.run(session())


def test_a_complaint_without_end_is_cut(tmp_path: Path) -> None:
    async def session() -> None:
        async with vivace(tmp_path, "http://127.0.0.1:9/v1") as (editor, _):
            buffer = editor.open(tmp_path / "shop.py", SHOP)
            await buffer.complete()
            fix, *_ = await editor.offered(buffer, MESSAGE + "x" * 100_000)
            instruction = fix.command.arguments[0]["instruction"]
            assert instruction.startswith(f"Fix this: {MESSAGE}")
            assert len(instruction) < 3_000

    asyncio.run(session())


@pytest.mark.parametrize(
    ("only", "known", "titles"),
    [
        ([lsp.CodeActionKind.QuickFix], KNOWN, [f"Fix: {MESSAGE}"]),
        ([lsp.CodeActionKind.Refactor], KNOWN, ["Edit…"]),
        ([lsp.CodeActionKind.SourceOrganizeImports], KNOWN, []),
        (None, {}, [f"Fix: {MESSAGE}"]),
    ],
)
def test_only_what_the_client_wants_and_can_is_offered(
    tmp_path: Path, only: list[Any] | None, known: dict[str, Any], titles: list[str]
) -> None:
    async def session() -> None:
        async with vivace(tmp_path, "http://127.0.0.1:9/v1", known=known) as (editor, _):
            buffer = editor.open(tmp_path / "shop.py", SHOP)
            await buffer.complete()
            found = await editor.offered(buffer, MESSAGE, only=only)
            assert [each.title for each in found] == titles
            secret = editor.open(tmp_path / ".env", "KEY=1\n")
            await secret.complete()
            assert await editor.offered(secret, MESSAGE, only=only) == []

    asyncio.run(session())
