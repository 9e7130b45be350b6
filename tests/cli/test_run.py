"""``vivace run``: what an agent is started with, and what comes back, with stand-ins for agents."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn
from unittest import mock

import psutil
import pytest

from tests.support.commands import run_command
from tests.support.files import ROOT
from tests.support.http import key, keys
from tests.support.ports import free_port
from tests.support.process import alive
from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.waiting import eventually
from vivace.cli import run, served
from vivace.client.get import Answer
from vivace.errors import ConfigError

AGENTS = ("codex", "claude", "opencode")
every_agent = pytest.mark.parametrize("agent", AGENTS)

# Tells all that it was started with, and does what it is told by $THEN.
STAND_IN = """\
#!{python}
import json, os, signal, sys, time
ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
told = dict(arguments=sys.argv[1:], environment=dict(os.environ), pid=os.getpid(), ignored=ignored)
open({told!r}, "w").write(json.dumps(told))
exec(os.environ.get("THEN", ""))
"""


class Desk:
    def __init__(self, folder: Path, url: str, agents: Sequence[str] = AGENTS) -> None:
        self.told_file = folder / "told.json"
        self.url = url
        programs = folder / "bin"
        programs.mkdir()
        for name in agents:
            program = programs / name
            program.write_text(STAND_IN.format(python=sys.executable, told=str(self.told_file)))
            program.chmod(0o755)
        self.environment = {"PATH": str(programs), "HOME": str(folder), "LANG": "C.UTF-8"}
        self.environment["PYTHONPATH"] = str(ROOT / "src")

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "vivace.cli", "run", "--url", self.url, *arguments],
            env=self.environment | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """Run it in this process, the agent beside it; return the exit code and standard error."""
        command = ("run", "--url", self.url, *arguments)
        with mock.patch.object(run, "_become", _start_beside):
            ran = run_command(
                *command, folder=self.told_file.parent, environment=self.environment | variables
            )
        return ran.returncode, ran.stderr

    @property
    def arguments(self) -> list[str]:
        return list(json.loads(self.told_file.read_text())["arguments"])

    @property
    def variables(self) -> dict[str, str]:
        return dict(json.loads(self.told_file.read_text())["environment"])


def _start_beside(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    sys.exit(subprocess.run(command, env=environment, check=False).returncode)


@pytest.fixture
def desk(gateway: RunningGateway, tmp_path: Path) -> Desk:
    return Desk(tmp_path, gateway.url)


def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


@every_agent
def test_what_stands_behind_the_name_reaches_the_agent_as_it_is(desk: Desk, agent: str) -> None:
    given = ["--help", "--url", "x", "--up", "-c", "x='y'", "--", "-m", "", "a b", "--"]
    status, errors = desk.run(agent, *given)
    assert status == 0, errors
    assert desk.arguments[-len(given) :] == given
    assert errors == ""


def test_the_agent_takes_our_place_with_its_own_signals_and_exit_code(desk: Desk) -> None:
    process = desk.start("codex", THEN="time.sleep(3600)")
    eventually(lambda: desk.told_file.exists() and desk.told_file.stat().st_size > 0)
    told = json.loads(desk.told_file.read_text())
    assert told["pid"] == process.pid
    assert not told["ignored"]
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == -signal.SIGTERM
    assert desk.start("codex", THEN="sys.exit(42)").wait() == 42


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_closed_pipe_ends_the_agent_as_ever(desk: Desk) -> None:
    program = Path(desk.environment["PATH"]) / "codex"
    program.write_text("#!/bin/sh\n/bin/grep SigIgn /proc/self/status\n")
    output, _ = desk.start("codex").communicate()
    assert int(output.split()[1], 16) & (1 << (signal.SIGPIPE - 1)) == 0


@every_agent
def test_without_a_server_it_says_what_to_do(tmp_path: Path, agent: str) -> None:
    status, errors = Desk(tmp_path, nobody()).run(agent, "--version")
    assert status == 69
    assert "vivace up" in errors
    assert f"vivace run --up {agent}" in errors


@every_agent
def test_an_agent_that_is_not_installed_is_named_with_the_way_to_get_it(
    gateway: RunningGateway, tmp_path: Path, agent: str
) -> None:
    status, errors = Desk(tmp_path, gateway.url, agents=()).run(agent)
    assert status == 127
    assert "npm install -g" in errors


def test_a_key_reaches_the_agent_by_its_environment_and_no_command_line(tmp_path: Path) -> None:
    with RunningGateway(config=configuration(keys=keys("ada"))) as gateway:
        desk = Desk(tmp_path, gateway.url)
        assert "$VIVACE_KEY" in desk.run("codex")[1]
        assert "does not know this key" in desk.run("--key", "wrong", "codex")[1]
        for agent in AGENTS:
            assert desk.run(agent, VIVACE_KEY=key("ada"))[0] == 0
            assert desk.variables["VIVACE_KEY"] == key("ada")
            assert key("ada") not in " ".join(desk.arguments)


@every_agent
def test_a_context_too_narrow_for_the_agent_is_said_on_standard_error(
    tmp_path: Path, agent: str
) -> None:
    with RunningGateway(config=configuration(engine={"context": 8192})) as gateway:
        status, errors = Desk(tmp_path, gateway.url).run(agent)
    assert status == 0
    assert "context of 8192" in errors


def test_a_model_that_the_server_does_not_have_starts_nothing(desk: Desk) -> None:
    status, errors = desk.run("--model", "other", "codex")
    assert status == 1
    assert MODEL in errors
    assert not desk.told_file.exists()


def test_codex_is_told_by_overrides_that_name_a_catalogue_of_ours(desk: Desk) -> None:
    desk.run("codex")
    given = dict(word.split("=", 1) for word in desk.arguments[1::2])
    assert set(desk.arguments[::2]) == {"-c"}
    assert json.loads(given["model_providers.vivace.base_url"]) == desk.url
    catalogue = Path(json.loads(given["model_catalog_json"]))
    assert json.loads(catalogue.read_text())["models"][0]["slug"] == MODEL


def test_settings_that_a_person_gives_claude_code_are_not_doubled(desk: Desk) -> None:
    desk.run("claude", "--settings", "mine.json", ANTHROPIC_API_KEY="sk-theirs")
    assert desk.arguments == ["--settings", "mine.json"]
    assert desk.variables["ANTHROPIC_BASE_URL"] == desk.url.removesuffix("/v1")
    assert desk.variables["ANTHROPIC_API_KEY"] == ""


def test_words_behind_two_dashes_are_no_settings_of_claude_code(desk: Desk) -> None:
    desk.run("claude", "-p", "--", "--settings")
    assert desk.arguments[0] == "--settings"
    assert MODEL in desk.arguments[1]
    assert desk.arguments[2:] == ["-p", "--", "--settings"]


def test_what_a_person_tells_opencode_by_the_same_variable_stays(desk: Desk) -> None:
    desk.run("opencode", OPENCODE_CONFIG_CONTENT='{"theme": "mine", "model": "a/b"}')
    content = json.loads(desk.variables["OPENCODE_CONFIG_CONTENT"])
    assert content["theme"] == "mine"
    assert content["model"] == content["small_model"] == f"vivace/{MODEL}"
    for unreadable in ("// no", "[]", "null", "1" * 5000):
        status, errors = desk.run("opencode", OPENCODE_CONFIG_CONTENT=unreadable)
        assert status == 1
        assert errors.startswith("vivace: $OPENCODE_CONFIG_CONTENT")


@pytest.mark.parametrize(
    "name", ["{file:~/.ssh/id_rsa}", "{env:HOME}", 'a"\nb', "a\0b", "a\n", "a b", ""]
)
def test_a_server_that_calls_a_model_what_no_model_is_called_is_not_believed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answered(url: str, key: str | None) -> Answer:
        return Answer(200, json.dumps({"data": [{"id": name}]}).encode())

    monkeypatch.setattr(served, "get", answered)
    with pytest.raises(ConfigError, match="no list of models"):
        served.models_of("http://127.0.0.1:1/v1", None)


@pytest.mark.parametrize(
    "url",
    ["http://ada:secret@{}", "http://{}?x=1", "http://{}/v1#x", "http://[::1", "http://x:99999/v1"],
)
def test_an_address_that_cannot_be_used_or_would_show_a_password_is_refused(
    desk: Desk, url: str
) -> None:
    status, errors = desk.run("--url", url.format(desk.url.split("/")[2]), "codex")
    assert status == 2
    assert "Invalid value for '--url'" in errors
    assert not desk.told_file.exists()


def test_a_server_is_not_started_for_another_machine(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "http://192.0.2.1:1/v1")
    status, errors = desk.run("--up", "codex")
    assert status == 2
    assert "this machine" in errors


def test_a_server_that_cannot_start_is_said_and_starts_no_agent(tmp_path: Path) -> None:
    desk = Desk(tmp_path, nobody())
    status, errors = desk.run("--up", "--model", "/nowhere/model.gguf", "codex")
    assert status == 1
    assert "/nowhere/model.gguf" in errors
    assert "did not start" in errors
    assert not desk.told_file.exists()


_LOADS_FOR_EVER = """\
#!{python}
import os, sys, time
if "--help" in sys.argv:
    sys.exit()
open({told!r}, "w").write(str(os.getpid()))
time.sleep(3600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGHUP], ids=["killed", "hung up"])
def test_a_server_of_our_own_ends_with_us_while_it_loads(
    tmp_path: Path, how: signal.Signals
) -> None:
    desk = Desk(tmp_path, f"http://127.0.0.1:{free_port()}/v1")
    told, engine = tmp_path / "engine.pid", tmp_path / "bin" / "llama-server"
    engine.write_text(_LOADS_FOR_EVER.format(python=sys.executable, told=str(told)))
    engine.chmod(0o755)
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    ours = desk.start("--up", "--model", str(model), "codex")
    try:
        eventually(lambda: told.exists() and told.read_text() != "")
        engine_process = psutil.Process(int(told.read_text()))
        servers = [each for each in engine_process.parents() if "up" in each.cmdline()]
        assert servers
    finally:
        ours.send_signal(how)
        ours.communicate()
    eventually(lambda: not any(map(alive, [*servers, engine_process])))
