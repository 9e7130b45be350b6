"""A person with a project, and a model that plays its answers: for ``vivace edit``."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect

from tests.support.commands import run_command
from tests.support.hub import CleanHome
from tests.support.server import RunningGateway
from tests.support.waiting import PATIENCE_S
from vivace.engines.scripted import Reply, Say, Stall

SHOP = '''\
"""A shop."""

import json


class Cart:
    def __init__(self):
        self.items = []

    def add(self, item):
        # keep the order
        self.items.append(item)

    def total(self):
        result = 0
        for item in self.items:
            result += item["price"]
        return result


def load(path):
    file = open(path)
    return json.load(file)
'''
TYPED = SHOP.replace("total(self):", "total(self) -> int:")
LOADED = SHOP.replace(
    "    file = open(path)\n    return json.load(file)\n",
    "    with open(path) as file:\n        return json.load(file)\n",
)
BOTH = LOADED.replace("total(self):", "total(self) -> int:")
BROKEN = SHOP.replace("def load(path):", "def load(path:")
EVERYWHERE = "change the whole file"
"""An instruction for which the model is shown all of it."""


def code(text: str) -> str:
    return f"```python\n{text}```\n"


def answers(text: str, *, when: str = "") -> Reply:
    """A model that answers with this code."""
    return Reply(when=when, then=(Say(code(text)),))


def slowly(text: str, *, when: str = "") -> Reply:
    """A model that stops in the middle of its answer and does not go on."""
    said = code(text)
    half = said.index("def load")
    return Reply(when=when, then=(Say(said[:half]), Stall(3600), Say(said[half:])))


class Project:
    """A git work tree with one file, and ``vivace edit`` run in it."""

    def __init__(self, folder: Path, gateway: RunningGateway) -> None:
        self.home = CleanHome(folder, "http://127.0.0.1:9")
        # As for an installed program: the project's copy.py is not Python's.
        self.home.environment["PYTHONSAFEPATH"] = "1"
        self.gateway = gateway
        self.root = folder / "project"
        self.root.mkdir()
        self.shop = self.root / "shop.py"
        self.shop.write_text(SHOP)
        self.git("init", "--quiet")

    def git(self, *arguments: str, stdin: str = "") -> str:
        return subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            env=self.home.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def play(self, *replies: Reply) -> None:
        self.gateway.engine.play(replies)

    def command(self, *arguments: str) -> list[str]:
        return self.home.command("edit", "--url", self.gateway.url, *arguments)

    def edit(
        self, *arguments: str, piped: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run it in a pipe, in this process; ``process`` runs it in one of its own."""
        return self.edit_in(self.root, *arguments, piped=piped, **environment)

    def edit_in(
        self, folder: Path, *arguments: str, piped: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        _, _, _, *rest = self.command(*arguments)  # without python -m vivace.cli
        variables = self.home.environment | environment
        ran = run_command(*rest, folder=folder, environment=variables, piped=piped)
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran

    def process(
        self, *arguments: str, piped: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run it in a pipe, in a process of its own."""
        ran = subprocess.run(
            self.command(*arguments),
            cwd=self.root,
            env=self.home.environment | environment,
            input=piped,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran

    def json(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.edit("--json", *arguments).stdout)
        return found

    def undo(self) -> None:
        ran = run_command("undo", folder=self.root, environment=self.home.environment)
        assert ran.returncode == 0, ran.stderr

    @contextmanager
    def terminal(self, *arguments: str) -> Iterator[pexpect.spawn[str]]:
        program, *rest = self.command(*arguments)
        environment: Any = self.home.environment | {"TERM": "xterm-256color"}
        child = pexpect.spawn(
            program,
            rest,
            cwd=str(self.root),
            env=environment,
            encoding="utf-8",
            timeout=PATIENCE_S,
            dimensions=(50, 100),
        )
        try:
            yield child
        finally:
            child.close(force=True)

    def files(self) -> dict[str, bytes]:
        """Everything there is in the person's folders but what Vivace keeps for itself."""
        found = {}
        for folder, _, names in os.walk(self.home.folder):
            for name in names:
                path = Path(folder, name)
                if ".local/state" not in str(path):
                    found[str(path.relative_to(self.home.folder))] = path.read_bytes()
        return found


def ended(child: pexpect.spawn[str]) -> int:
    """The exit status, when all was said."""
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus is not None
    return child.exitstatus
