"""What a model remarks on changes is marked in open files, as hints beside what rules find."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import Editor, _plain, scripted
from tests.lsp.marked import RULES
from tests.support.ports import free_port
from tests.support.server import RunningGateway
from vivace.engines.scripted import Reply, Say

OLD = "import os\n\n\ndef load(path):\n    return None\n"
NEW = "import os\n\n\ndef load(path):\n    file = open(path)\n    return eval(file.read())\n"
REMARK = "5 | open(path) | The file stays open.\n"
HINT = lsp.DiagnosticSeverity.Hint


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "load.py").write_text(OLD)
    (root / ".gitignore").write_text(".state\n")
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(["git", *who, *command], cwd=root, check=True, capture_output=True)
    (root / "load.py").write_text(NEW)
    return root


def play(
    tree: Path,
    url: str,
    work: Callable[[Editor], Awaitable[None]],
    **how: Any,
) -> None:
    async def session() -> None:
        async with scripted(tree, rules=RULES, url=url, **how) as (editor, _):
            await work(editor)

    asyncio.run(session())


def marks(editor: Editor, uri: str) -> list[tuple[Any, Any, int]]:
    found = editor.client.diagnostics.get(uri, [])
    return [(each.code, each.severity, each.range.start.line) for each in found]


async def asked(editor: Editor, **argument: Any) -> dict[str, Any]:
    found: dict[str, Any] = _plain(await editor.command("vivace.review", argument))
    return found


def test_remarks_are_hints_beside_what_rules_find(gateway: RunningGateway, tree: Path) -> None:
    gateway.engine.play([Reply(when="load.py", then=(Say(REMARK + "5 | invented() | No.\n"),))])

    async def work(editor: Editor) -> None:
        buffer = editor.open(tree / "load.py", NEW)
        await editor.until(lambda: marks(editor, buffer.uri))
        ended = await asked(editor, uri=buffer.uri)
        assert (ended["status"], ended["remarks"], ended["dropped"]) == ("done", 1, 1)
        await editor.until(lambda: len(marks(editor, buffer.uri)) == 2)
        assert ("remark", HINT, 4) in marks(editor, buffer.uri)
        assert {each[0] for each in marks(editor, buffer.uri)} == {"remark", "code-injection"}

        # It goes along with its line, and away when that is typed in.
        buffer.replace(0, 0, "# a comment\n\n\n")
        await editor.until(lambda: ("remark", HINT, 7) in marks(editor, buffer.uri))
        buffer.type("x", behind="open(")
        await editor.until(lambda: "remark" not in {each[0] for each in marks(editor, buffer.uri)})

    play(tree, gateway.url, work, process=True)


def test_a_new_review_takes_the_place_of_the_old_one(gateway: RunningGateway, tree: Path) -> None:
    gateway.engine.play([Reply(then=(Say(REMARK),))])

    async def work(editor: Editor) -> None:
        buffer = editor.open(tree / "load.py", NEW)
        await editor.until(lambda: marks(editor, buffer.uri))
        for _ in range(2):
            assert (await asked(editor))["remarks"] == 1
        await editor.until(lambda: len(marks(editor, buffer.uri)) == 2)

    play(tree, gateway.url, work)


def test_remarks_on_files_that_are_not_open_are_told(gateway: RunningGateway, tree: Path) -> None:
    gateway.engine.play([Reply(then=(Say(REMARK),))])

    async def work(editor: Editor) -> None:
        ended = await asked(editor)
        assert "load.py:5 (The file stays open.)" in ended["message"]
        assert [each.message for each in editor.client.messages] == [ended["message"]]

    play(tree, gateway.url, work)


def test_what_cannot_be_reviewed_is_said(tree: Path) -> None:
    async def work(editor: Editor) -> None:
        ended = await asked(editor)
        assert ended["status"] == "failed"
        assert "vivace up" in ended["message"]
        assert "no commit nowhere" in (await asked(editor, revision="nowhere"))["message"]

    play(tree, f"http://127.0.0.1:{free_port()}/v1", work)
