from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S
from vivace.workspace.language_server import Server, ServerFailed, running, server_for

# A server that answers every request with what it was asked, after asking something itself.
_ECHO = """
import json, sys
def message():
    length = 0
    while (line := sys.stdin.buffer.readline().strip()):
        length = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(length))
def send(said):
    body = json.dumps({"jsonrpc": "2.0", **said}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
    sys.stdout.buffer.flush()
asked = {"id": "q", "method": "workspace/configuration", "params": {"items": [{}, {}]}}
while True:
    got = message()
    if got.get("method") == "test/echo":
        send(asked)
        reply = message()
        send({"id": got["id"], "result": [got["params"], reply["result"]]})
    elif got.get("method") == "test/fail":
        send({"id": got["id"], "error": {"code": 1, "message": "cannot be renamed"}})
    elif got.get("method") == "test/end":
        sys.exit()
    elif "id" in got and got.get("method") == "initialize":
        send({"id": got["id"], "result": {}})
"""


def server(tmp_path: Path, code: str = _ECHO) -> Server:
    path = tmp_path / "server.py"
    path.write_text(code)
    return Server((sys.executable, str(path)))


async def asked(given: Server, root: Path, method: str, params: object, seconds: float) -> object:
    async with running(given, root) as there:
        return await there.ask(method, params, seconds)


def test_it_answers_and_its_own_questions_are_answered(tmp_path: Path) -> None:
    said = asyncio.run(asked(server(tmp_path), tmp_path, "test/echo", {"ä": 1}, PATIENCE_S))
    assert said == [{"ä": 1}, [None, None]]


@pytest.mark.parametrize(
    ("method", "seconds", "why"),
    [
        ("test/fail", PATIENCE_S, "cannot be renamed"),
        ("test/end", PATIENCE_S, "ended without an answer"),
        ("test/silence", 0.1, "did not answer within"),
    ],
)
def test_what_goes_wrong_is_said_and_nothing_waits_for_ever(
    tmp_path: Path, method: str, seconds: float, why: str
) -> None:
    with pytest.raises(ServerFailed, match=why):
        asyncio.run(asked(server(tmp_path), tmp_path, method, {}, seconds))


def test_a_server_that_ends_at_once_is_no_server(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="ended"):
        asyncio.run(asked(server(tmp_path, ""), tmp_path, "test/echo", {}, PATIENCE_S))


def test_a_server_does_not_outlive_its_question(tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(__import__('os').getpid()))\n{_ECHO}"
    asyncio.run(asked(server(tmp_path, code), tmp_path, "test/echo", {}, PATIENCE_S))
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_only_what_is_on_the_path_is_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert all(
        server_for(language) is None
        for language in ("python", "typescript", "c", "go", "rust", "java")
    )
    (tmp_path / "pyright-langserver").write_text("#!/bin/sh\n")
    (tmp_path / "pyright-langserver").chmod(0o755)
    found = server_for("python")
    assert found is not None
    assert found.name == "pyright"
