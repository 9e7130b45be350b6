"""Clients that break the protocol: what no editor sends ends the session or is refused in words."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import scripted


@pytest.mark.parametrize(
    "sent",
    [
        b"Content-Length: 99999999999999999999\r\n\r\n{}",
        b"Content-Length: 256000001\r\n\r\n{}",
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"X-Header: " + b"x" * 200_000,
    ],
    ids=["more than any length", "too long", "a number too long to read", "an endless line"],
)
def test_session_ends_at_a_message_that_is_too_long(tmp_path: Path, sent: bytes) -> None:
    """The server ends though the pipe stays open, and may end before it was sent everything."""
    environment = {**os.environ, "SCRIPT": "[]", "STATE": str(tmp_path)}
    command = [sys.executable, "-m", "tests.lsp.scripted"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, bufsize=0, **pipes) as server:  # type: ignore[call-overload]
        with contextlib.suppress(BrokenPipeError):
            server.stdin.write(sent)
        assert server.wait() == 0
        assert b"Traceback" not in server.stderr.read()


@pytest.mark.parametrize("revision", ["HEAD\0", "\ud800", "--output=pwned", "no such"])
def test_a_revision_that_is_none_is_told_in_words(tmp_path: Path, revision: str) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)

    async def session() -> None:
        async with scripted(tmp_path) as (editor, _):
            asked = {"uri": (tmp_path / "a.py").as_uri(), "revision": revision}
            answer = await editor.client.workspace_execute_command_async(
                lsp.ExecuteCommandParams(command="vivace.review", arguments=[asked])
            )
            assert answer is not None
            assert answer["status"] == "failed"
            assert "There is no commit" in answer["message"]

    asyncio.run(session())
    assert not (tmp_path / "pwned").exists()
