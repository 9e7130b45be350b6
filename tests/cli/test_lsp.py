"""``vivace lsp`` as editors start it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.lsp.editor import vivace
from tests.support.server import RunningGateway
from vivace.engines.scripted import Reply, Say


def run(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_it_brings_nothing_along_that_only_servers_and_edits_need() -> None:
    loaded = run("import vivace.cli.lsp, vivace.lsp.server, sys; print('\\n'.join(sys.modules))")
    names = set(loaded.split())
    assert "pygls.lsp.server" in names
    heavy = ("vivace.gateway", "vivace.engines", "vivace.desk.asking", "starlette", "uvicorn")
    assert [name for name in names if name.startswith(heavy)] == []


def test_who_has_not_installed_it_is_told_how() -> None:
    said = run(
        "import sys\n"
        "sys.modules['pygls'] = None\n"
        "from click.testing import CliRunner\n"
        "from vivace.cli.lsp import lsp\n"
        "print(CliRunner().invoke(lsp).output)"
    )
    assert "pip install lsprotocol" in said


def test_it_completes_over_the_servers_own_connection(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    gateway.engine.play([Reply(then=(Say(" a + b\n"),))])

    async def session() -> None:
        async with vivace(tmp_path, gateway.url) as (editor, _):
            buffer = editor.open(tmp_path / "a.py", "def add(a, b):\n    return ")
            item = await buffer.complete()
            assert item is not None
            assert buffer.accepted(item) == "def add(a, b):\n    return a + b"

    asyncio.run(session())


def test_it_says_so_where_no_server_answers(tmp_path: Path) -> None:
    async def session() -> None:
        async with vivace(tmp_path, "http://127.0.0.1:9/v1") as (editor, _):
            assert await editor.open(tmp_path / "a.py", "x = ").complete() is None
            await editor.said("vivace up")
            assert editor.statuses[-1]["state"] == "unreachable"

    asyncio.run(session())
