from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S
from vivace.workspace import language_server as module
from vivace.workspace.language_server import ServerFailed, running
from vivace.workspace.language_servers import Server

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
sections = [{"section": "python"}, {}]
asked = {"id": "q", "method": "workspace/configuration", "params": {"items": sections}}
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
    return Server((sys.executable, str(path)), settings={"python": {"pythonPath": "/p"}})


async def asked(given: Server, root: Path, method: str, params: object, seconds: float) -> object:
    async with running(given, root) as there:
        return await there.ask(method, params, seconds)


def test_it_answers_and_its_own_questions_are_answered(tmp_path: Path) -> None:
    said = asyncio.run(asked(server(tmp_path), tmp_path, "test/echo", {"ä": 1}, PATIENCE_S))
    assert said == [{"ä": 1}, [{"pythonPath": "/p"}, None]]


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


_ODD = {
    "garbage": "import sys\nsys.stdout.buffer.write(b'x' * 1_000_000)\nsys.stdin.buffer.read()",
    "a negative length": "print('Content-Length: -5\\r\\n\\r\\n', flush=True)\ninput()",
    "a huge length": "print('Content-Length: 99999999999\\r\\n\\r\\n', flush=True)\ninput()",
    "no length": "print('Content-Length: x\\r\\n\\r\\n', flush=True)\ninput()",
    "a list": "send(b'[1]')",
    "no JSON": "send(b'{nope')",
    "too deep": "send(b'{\"a\":' * 100_000)",
    "an odd error": 'send(b\'{"id": 1, "error": 5}\')',
    "an odd question": 'send(b\'{"id": 1, "method": "workspace/configuration", "params": 5}\')',
    "an odd notification": 'send(b\'{"method": "textDocument/publishDiagnostics"}\')',
    "questions without end": 'while True: send(b\'{"id": 1, "method": "x"}\')',
    "silence": "import time\ntime.sleep(3600)",
}
_SEND = """
import sys
def send(body):
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
    sys.stdout.buffer.flush()
"""


@pytest.mark.parametrize("code", _ODD.values(), ids=_ODD)
def test_a_server_that_breaks_the_protocol_fails_and_is_gone(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_START_S", 1.0)
    odd = f"{_SEND}open({str(tmp_path / 'pid')!r}, 'w').write(str(__import__('os').getpid()))\n"
    with pytest.raises(ServerFailed):
        asyncio.run(asked(server(tmp_path, f"{odd}{code}\n"), tmp_path, "x", {}, 1.0))
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_server_that_reads_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ANSWER_S", 0.5)
    answers_once = (
        _ECHO.replace("while True:", "for _ in range(2):") + "import time; time.sleep(3600)"
    )

    async def opened() -> None:
        async with running(server(tmp_path, answers_once), tmp_path) as there:
            await there.open(tmp_path / "a.py", "python", "x" * 5_000_000)

    with pytest.raises(ServerFailed, match="reads nothing"):
        asyncio.run(opened())


def test_programs_that_a_server_starts_run_nothing_of_the_project(
    root: Path, tmp_path: Path
) -> None:
    """Neither by settings of git nor by modules that lie in the folder."""
    ran = tmp_path / "ran"
    (root / "json.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    subprocess.run(["git", "init", "--quiet", root], check=True)
    with (root / ".git/config").open("a") as settings:
        settings.write(f"[core]\nfsmonitor = touch '{ran}'\n")
    starts = "import subprocess, sys\nsubprocess.run(['git', 'status'], capture_output=True)\n"
    starts += "subprocess.run([sys.executable, '-c', 'import json'], capture_output=True)\n"
    code = starts + _ECHO
    assert asyncio.run(asked(server(tmp_path, code), root, "test/echo", {}, PATIENCE_S))
    assert not ran.exists()
