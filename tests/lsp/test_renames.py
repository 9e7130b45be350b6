"""Renames at the cursor: with all uses and nothing else, in one step, or not at all. There is no
server anywhere, so no model can have been asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import KNOWN, Buffer, Editor, vivace

ASKS: dict[str, Any] = {"vivace": {**KNOWN["vivace"], "rename": True}}
CODE = """\
def prices(rows):
    total = 0
    for row in rows:
        total += row
    return total


def costs(rows):
    total = sum(rows)  # 😀
    if total: print("the total:", total)
    return total
"""


@pytest.fixture(autouse=True)
def no_language_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def play(folder: Path, work: Callable[[Editor], Awaitable[None]], **how: Any) -> None:
    async def session() -> None:
        async with vivace(folder, "http://127.0.0.1:9/v1", **how) as (editor, told):
            assert told.capabilities.rename_provider is None, "the language's own server has F2"
            await work(editor)

    asyncio.run(session())


async def rename(editor: Editor, buffer: Buffer, behind: str, new: str) -> str:
    """What became of it."""
    at = buffer.document.position(buffer.text.index(behind) + len(behind))
    asked = {"uri": buffer.uri, "position": at, "newName": new}
    ended = await editor.command("vivace.rename", asked)
    return str(ended["status"])


@pytest.mark.parametrize(
    "behind", ["def costs(rows):\n    tot", 'print("the total:", ', "# 😀\n    if "]
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_what_is_meant_is_renamed_with_its_uses_wherever_one_points(
    tmp_path: Path, behind: str, line_end: str
) -> None:
    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "shop.py", CODE.replace("\n", line_end))
        assert await rename(editor, buffer, behind.replace("\n", line_end), "amount") == "applied"
        others, costs = CODE[: CODE.index("def costs")], CODE[CODE.index("def costs") :]
        renamed = costs.replace("total", "amount").replace("the amount", "the total")
        assert buffer.text == (others + renamed).replace("\n", line_end)
        assert editor.applied == ["rename `total` to `amount`"]

    play(tmp_path, work)


@pytest.mark.parametrize(
    ("behind", "new", "why"),
    [
        ("def cos", "prices", "prices"),
        ("def cos", "two words", "no name"),
        ("    retu", "x", "no name here"),
        ('print("the tot', "x", "no name here"),
        ("row in rows:\n        total += ro", "total", "total"),
    ],
)
def test_what_is_not_certain_is_left_with_the_reason(
    tmp_path: Path, behind: str, new: str, why: str
) -> None:
    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "shop.py", CODE)
        assert await rename(editor, buffer, behind, new) in ("refused", "failed")
        assert buffer.text == CODE
        assert why in editor.client.messages[-1].message

    play(tmp_path, work)


@pytest.mark.parametrize("saved", [True, False])
def test_a_name_that_another_file_has_is_not_renamed_here_alone(
    tmp_path: Path, saved: bool
) -> None:
    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "shop.py", CODE)
        user = "from shop import costs\n"
        if saved:
            (tmp_path / "user.py").write_text(user)
        else:
            editor.open(tmp_path / "user.py", user)
        assert await rename(editor, buffer, "def cos", "spent") == "refused"
        assert buffer.text == CODE

    play(tmp_path, work)


async def titles(editor: Editor, buffer: Buffer, behind: str) -> list[str]:
    at = buffer.document.position(buffer.text.index(behind) + len(behind))
    found = await editor.client.text_document_code_action_async(
        lsp.CodeActionParams(
            text_document=lsp.TextDocumentIdentifier(uri=buffer.uri),
            range=lsp.Range(at, at),
            context=lsp.CodeActionContext(diagnostics=[]),
        )
    )
    return [each.title for each in found or ()]


def test_it_is_offered_at_names_alone_and_to_editors_that_ask_for_the_new_one(
    tmp_path: Path,
) -> None:
    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "shop.py", CODE)
        await buffer.complete()  # it is known by then whether it may be read
        assert await titles(editor, buffer, "def cos") == ["Rename costs with its uses…", "Edit…"]
        for elsewhere in ("    retu", 'print("the tot', "    total = 0\n  "):
            assert await titles(editor, buffer, elsewhere) == ["Edit…"], elsewhere

    async def without(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "shop.py", CODE)
        await buffer.complete()
        assert await titles(editor, buffer, "def cos") == ["Edit…"]

    play(tmp_path, work, known=ASKS)
    play(tmp_path, without, known=KNOWN)
