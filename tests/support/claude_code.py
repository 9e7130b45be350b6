"""The real Claude Code CLI, in a home of its own that knows one server: the gateway under test."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.support.files import ROOT

_PACKAGES = ROOT / "tests/clients/node_modules/@anthropic-ai"

# Everything that would reach for the network is off.
_QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}


def program() -> Path:
    """The package's own program, which its wrapper would start by way of Node.js."""
    found = sorted(_PACKAGES.glob("claude-code-*/claude"))
    if not found:
        pytest.skip("needs the Claude Code CLI: run scripts/install agents")
    return found[0]


def environment(home: Path) -> dict[str, str]:
    """Built from nothing, so that no proxy, key or setting of this machine plays a part."""
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(home), **_QUIET}


class Transcript(Struct, frozen=True):
    """What ``claude --output-format stream-json`` told of a run."""

    events: list[dict[str, Any]]

    @property
    def result(self) -> dict[str, Any]:
        [result] = [event for event in self.events if event["type"] == "result"]
        return result

    def blocks(self, kind: str) -> list[dict[str, Any]]:
        """Of the messages that went to and fro, as ``tool_use`` or ``tool_result``."""
        return [
            block
            for event in self.events
            if event["type"] in ("assistant", "user")
            for block in event["message"]["content"]
            if isinstance(block, dict) and block["type"] == kind
        ]

    def said(self, subtype: str) -> list[dict[str, Any]]:
        """What Claude Code told of itself, as ``compact_boundary``."""
        return [event for event in self.events if event.get("subtype") == subtype]


class ClaudeCode:
    """One user of Claude Code: a home, a workspace, and a gateway to talk to."""

    def __init__(self, folder: Path, url: str, model: str = "haiku", **variables: str) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self._model = model
        self._environment = {
            **environment(folder),
            "ANTHROPIC_BASE_URL": url.removesuffix("/v1"),
            "ANTHROPIC_API_KEY": "secret",
            **variables,
        }

    def run(self, prompt: str, *options: str) -> Transcript:
        form = ("--output-format", "stream-json", "--verbose")
        done = subprocess.run(
            [program(), "-p", prompt, "--model", self._model, *form, *options],
            cwd=self.workspace,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return Transcript([json.loads(line) for line in done.stdout.splitlines()])
