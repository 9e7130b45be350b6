"""The real Codex CLI, in a home of its own that knows one provider: the gateway under test."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.support.files import ROOT
from tests.support.server import MODEL
from tests.support.waiting import eventually

_PROGRAM = ROOT / "tests/clients/node_modules/.bin/codex"

# Everything that would reach for the network is off, and nothing asks for permission.
_CONFIG = """\
model = "{model}"
model_provider = "vivace"
model_catalog_json = "{home}/catalog.json"
approval_policy = "never"
sandbox_mode = "danger-full-access"
web_search = "disabled"
check_for_update_on_startup = false
# What a program types looks pasted, and after a paste Enter only begins a new line.
disable_paste_burst = true

[model_providers.vivace]
name = "Vivace"
base_url = "{url}"
wire_api = "responses"
env_key = "VIVACE_KEY"
supports_websockets = {websocket}

[projects."{workspace}"]
trust_level = "trusted"

[analytics]
enabled = false

[feedback]
enabled = false

[otel]
exporter = "none"
metrics_exporter = "none"
trace_exporter = "none"

[tui]
animations = false
show_tooltips = false

[features]
apps = false
plugins = false
"""


class Dialect(Struct, frozen=True):
    """How Codex talks to its provider."""

    websocket: bool
    lite: bool = False
    """Tools are an item of the conversation, and a user's word interrupts the answer."""

    def __str__(self) -> str:
        return ("websocket" if self.websocket else "http") + ("-lite" if self.lite else "")


def _card(dialect: Dialect) -> dict[str, Any]:
    """The model in the form of Codex's own catalogue."""
    return {
        "slug": MODEL,
        "display_name": "Local model",
        "description": "A model on this machine.",
        "base_instructions": "You are a coding agent.",
        "shell_type": "unified_exec",
        "apply_patch_tool_type": "freeform",
        "experimental_supported_tools": [],
        "use_responses_lite": dialect.lite,
        "input_modalities": ["text"],
        "context_window": 100_000,
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "default_reasoning_level": "low",
        "supported_reasoning_levels": [{"effort": "low", "description": "Little thought"}],
        "support_verbosity": False,
        "default_verbosity": None,
        "visibility": "list",
        "supported_in_api": True,
        "priority": 1,
        "availability_nux": None,
        "upgrade": None,
    }


class Transcript(Struct, frozen=True):
    """What ``codex exec --json`` told of a run."""

    events: list[dict[str, Any]]

    def items(self, kind: str) -> list[dict[str, Any]]:
        """The finished items of a kind, as ``command_execution`` or ``file_change``."""
        done = [event["item"] for event in self.events if event["type"] == "item.completed"]
        return [item for item in done if item["type"] == kind]

    @property
    def answers(self) -> list[str]:
        return [item["text"] for item in self.items("agent_message")]


class Codex:
    """One user of Codex: a home, a workspace, and a gateway to talk to."""

    def __init__(
        self,
        folder: Path,
        url: str,
        dialect: Dialect,
        *,
        fetches: bool = False,
        cards: Sequence[dict[str, Any]] = (),
        key: str = "secret",
    ) -> None:
        """``fetches``: it asks the server for its models, as it does if a command tells the key.
        ``cards``: its catalogue, of which it uses the first; without them, one of a model."""
        if not _PROGRAM.exists():
            pytest.skip("needs the Codex CLI: run scripts/install codex")
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        home = folder / "codex"
        home.mkdir()
        cards = cards or [_card(dialect)]
        (home / "catalog.json").write_text(json.dumps({"models": list(cards)}))
        config = _CONFIG.format(
            model=cards[0]["slug"],
            home=home,
            url=url,
            websocket=str(dialect.websocket).lower(),
            workspace=self.workspace,
        )
        if fetches:
            config = re.sub(r"(?m)^(model_catalog_json|env_key) = .*\n", "", config)
            config += '[model_providers.vivace.auth]\ncommand = "echo"\nargs = ["secret"]\n'
        (home / "config.toml").write_text(config)
        # Built from nothing, so that no proxy, key or setting of this machine plays a part.
        self.environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "CODEX_HOME": str(home),
            "VIVACE_KEY": key,
        }

    def add_mcp_server(self, name: str, command: Sequence[str]) -> None:
        """One that runs in the workspace and finds our modules where this process does."""
        program, *arguments = command
        with Path(self.environment["CODEX_HOME"], "config.toml").open("a") as config:
            config.write(
                f"\n[mcp_servers.{name}]\n"
                f"command = {json.dumps(program)}\n"
                f"args = {json.dumps(arguments)}\n"
                "startup_timeout_sec = 60\nrequired = true\n"
                f"cwd = {json.dumps(str(self.workspace))}\n"
                f"env = {{ PYTHONPATH = {json.dumps(os.environ.get('PYTHONPATH', ''))} }}\n"
            )

    def command(self, prompt: str) -> list[str]:
        """A run without a terminal, which tells what it does in JSON."""
        return [str(_PROGRAM), "exec", "--skip-git-repo-check", "--json", prompt]

    def run(self, prompt: str) -> Transcript:
        with self.running(prompt) as run:
            return run.finish()

    @contextmanager
    def running(self, prompt: str) -> Iterator[Run]:
        """A run without a terminal that the test can do something beside."""
        process = subprocess.Popen(
            self.command(prompt),
            cwd=self.workspace,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield Run(process)
        finally:
            process.terminate()  # not killed: what we started is a script that passes this on
            process.communicate()

    @contextmanager
    def app_server(self) -> Iterator[AppServer]:
        """What editors talk to: JSON-RPC over standard input and output."""
        process = subprocess.Popen(
            [str(_PROGRAM), "app-server"],
            cwd=self.workspace,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield AppServer(process)
        finally:
            process.terminate()
            process.communicate()

    @contextmanager
    def terminal(self, prompt: str) -> Iterator[Terminal]:
        """The interactive client in a terminal of 100 by 40, with its first prompt sent."""
        tmux = shutil.which("tmux")
        if tmux is None:
            pytest.skip("needs a terminal to run Codex in: install tmux")
        # A socket's path has to be short, which a test's own folder may not be.
        with tempfile.TemporaryDirectory(prefix="vivace-") as folder:
            terminal = Terminal([tmux, "-u", "-f", "/dev/null", "-S", f"{folder}/tmux"])
            size = ["-x", "100", "-y", "40"]
            # A daemon would copy all of Codex into the home and outlive the test.
            client = ["-c", str(self.workspace), str(_PROGRAM), "--no-daemon", prompt]
            terminal.tmux("new-session", "-d", *size, *client, environment=self.environment)
            try:
                yield terminal
            finally:
                terminal.tmux("kill-server")


class Run:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def finish(self) -> Transcript:
        output, errors = self._process.communicate()
        assert self._process.returncode == 0, f"{output}\n{errors}"
        return Transcript([json.loads(line) for line in output.splitlines()])


class AppServer:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to, self._from = process.stdin, process.stdout
        self._number = 0
        self._heard: list[dict[str, Any]] = []
        """Notifications that came while something else was waited for."""
        self.ask("initialize", clientInfo={"name": "vivace-tests", "version": "0"})
        self._write({"method": "initialized"})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self._write({"id": self._number, "method": method, "params": params})
        while (message := self._read()).get("id") != self._number:
            self._heard.append(message)
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    def until(self, method: str, text: str = "") -> dict[str, Any]:
        """The next notification of this name that contains this text."""
        while True:
            message = self._heard.pop(0) if self._heard else self._read()
            if message.get("method") == method and text in json.dumps(message):
                return message

    def _write(self, message: dict[str, Any]) -> None:
        self._to.write(json.dumps(message) + "\n")
        self._to.flush()

    def _read(self) -> dict[str, Any]:
        line = self._from.readline()
        assert line, "the app-server has ended"
        message: dict[str, Any] = json.loads(line)
        return message


class Terminal:
    def __init__(self, command: list[str]) -> None:
        self._command = command

    def tmux(self, *arguments: str, environment: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def shows(self, text: str) -> None:
        """Wait for a text to appear."""
        try:
            eventually(lambda: text in self.screen())
        except AssertionError:
            raise AssertionError(f"no {text!r} on the screen:\n{self.screen()}") from None

    def press(self, key: str) -> None:
        self.tmux("send-keys", key)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def enter(self, text: str) -> None:
        self.type(text)
        # Enter in the same breath could come before the client has drawn what was typed.
        self.shows(text)
        self.press("Enter")
