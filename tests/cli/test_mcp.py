"""``vivace mcp`` as agents start it: a process, and the official client or the real Codex CLI."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mcp import Client
from tests.mcp.agent import Answer, environment, started
from tests.support.codex import Codex, Dialect
from tests.support.editing import EVERYWHERE, LOADED, SHOP, TYPED, Project, answers, slowly
from tests.support.server import RunningGateway
from tests.support.waiting import eventually
from vivace.engines.scripted import Call, Reply, Say

LOAD = "def load(path):\n    with open(path) as file:\n        return json.load(file)\n"


@pytest.fixture
def project(gateway: RunningGateway, tmp_path: Path) -> Project:
    return Project(tmp_path, gateway)


def run(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_it_brings_no_gateway_along() -> None:
    loaded = run("import vivace.cli.mcp, vivace.mcp.server, sys; print('\\n'.join(sys.modules))")
    names = set(loaded.split())
    assert "mcp.server.stdio" in names
    heavy = ("vivace.gateway", "vivace.engines", "vivace.lsp", "vivace.config")
    assert [name for name in names if name.startswith(heavy)] == []


def test_who_has_not_installed_it_is_told_how() -> None:
    said = run(
        "import sys\n"
        "sys.modules['mcp'] = None\n"
        "from click.testing import CliRunner\n"
        "from vivace.cli.mcp import mcp\n"
        "print(CliRunner().invoke(mcp).output)"
    )
    assert "pip install 'mcp" in said


def test_it_is_not_started_on_the_whole_home(project: Project) -> None:
    ran = subprocess.run(
        project.home.command("mcp", str(project.home.folder)),
        env=environment(project),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 2
    assert "is no project" in ran.stderr


def test_the_official_client_makes_an_edit(project: Project) -> None:
    project.play(answers(TYPED))

    async def story() -> tuple[list[str], Answer]:
        async with Client(started(project)) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            asked = {"path": "shop.py", "instruction": EVERYWHERE}
            return tools, Answer(await client.call_tool("edit_file", asked))

    tools, answer = asyncio.run(story())
    assert tools == ["edit_file", "apply_sketch"]
    assert not answer.failed, answer.text
    assert project.shop.read_text() == TYPED
    project.undo()
    assert project.shop.read_text() == SHOP


class Raw:
    """A client that speaks the protocol by hand, and may die in the middle of it."""

    def __init__(self, project: Project) -> None:
        command = project.home.command("mcp", "--url", project.gateway.url)
        self.process = subprocess.Popen(
            command,
            cwd=project.root,
            env=environment(project),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        client = {"name": "tests", "version": "0"}
        asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        self.send(method="initialize", id=1, params=asked)
        assert self.process.stdout is not None
        assert "edit_file" in self.process.stdout.readline()
        self.send(method="notifications/initialized")

    def send(self, **message: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        self.process.stdin.flush()

    def call(self, name: str, **arguments: object) -> None:
        self.send(method="tools/call", id=2, params={"name": name, "arguments": arguments})


@pytest.mark.parametrize("cancelled", [False, True], ids=["dies", "cancels and dies"])
def test_a_client_that_goes_in_mid_call_leaves_nothing_behind(
    project: Project, cancelled: bool
) -> None:
    project.play(slowly(TYPED))
    raw = Raw(project)
    raw.call("edit_file", path="shop.py", instruction=EVERYWHERE)
    eventually(lambda: project.gateway.engine.running() > 0, 20)
    if cancelled:
        raw.send(method="notifications/cancelled", params={"requestId": 2})
        eventually(lambda: project.gateway.engine.running() == 0, 5)
    process = psutil.Process(raw.process.pid)
    out, errors = raw.process.communicate()  # closes all that the client held
    eventually(lambda: project.gateway.engine.running() == 0, 5)
    assert raw.process.returncode == 0, errors
    assert not process.is_running()
    assert errors == ""
    assert '"result"' not in out
    assert project.shop.read_text() == SHOP
    assert sorted(each.name for each in project.root.iterdir()) == [".git", "shop.py"]


def test_what_it_cannot_read_is_passed_over_and_no_code_is_logged(project: Project) -> None:
    raw = Raw(project)
    assert raw.process.stdin is not None
    raw.process.stdin.write('{"jsonrpc": "2.0", "secret_code": \n\x00\x01\n[]\n')
    raw.call("apply_sketch", path="shop.py", sketch=LOAD)
    assert raw.process.stdout is not None
    answered = json.loads(raw.process.stdout.readline())
    assert answered["result"].get("isError") is not True
    _, errors = raw.process.communicate()
    assert raw.process.returncode == 0
    assert "secret_code" not in errors
    assert "json.load" not in errors
    assert project.shop.read_text() == LOADED


def test_the_real_codex_makes_an_edit(gateway: RunningGateway, tmp_path: Path) -> None:
    codex = Codex(tmp_path, gateway.url, Dialect(websocket=True))
    shop = codex.workspace / "shop.py"
    shop.write_text(SHOP)
    codex.add_mcp_server(
        "vivace", [sys.executable, "-m", "vivace.cli", "mcp", "--url", gateway.url]
    )
    asked = json.dumps({"path": "shop.py", "instruction": EVERYWHERE})
    gateway.engine.play(
        [
            Reply(when="^Type it$", then=(Call("edit_file", asked, namespace="mcp__vivace"),)),
            Reply(after="tool", when="Written: shop.py", then=(Say("It is typed now."),)),
            answers(TYPED, when="change the whole file"),
        ]
    )
    transcript = codex.run("Type it")
    assert shop.read_text() == TYPED, transcript.events
    assert transcript.answers == ["It is typed now."]
