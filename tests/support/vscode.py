"""VS Code in a real browser, with our extension: ``scripts/install-vscode`` makes it."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import pytest

from tests.support.files import ROOT
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, eventually

_UNSEEN_S = 5.0
"""How long after a change of its settings an editor is taken to have missed it."""
_TIMES = 12

_DRIVER = ROOT / "tests/editors/driver.mjs"

# All that moves or asks by itself is off, and the editor completes nothing on its own.
_SETTINGS = {
    "editor.accessibilitySupport": "off",
    "editor.quickSuggestions": {"comments": "off", "other": "off", "strings": "off"},
    "editor.wordBasedSuggestions": "off",
    "extensions.ignoreRecommendations": True,
    "telemetry.telemetryLevel": "off",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
}


@cache
def _installed() -> Path:
    if shutil.which("npm") is None:
        pytest.skip("needs npm: install Node.js 20")
    asked = [str(ROOT / "scripts/install-vscode"), "--path"]
    folder = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    if not (folder / ".ready").exists():
        pytest.skip("needs VS Code: run scripts/install-vscode")
    if shutil.which("chromium") is None:
        pytest.skip("needs a browser: install chromium")
    return folder


def extension(folder: Path) -> Path:
    """The extension as it is packaged, or a skip that says how to build it."""
    if not (ROOT / "editors/vscode/node_modules/.installed").exists():
        pytest.skip("needs what builds the extension: run scripts/extension")
    package = folder / "vivace.vsix"
    subprocess.run([ROOT / "scripts/extension", package], check=True, capture_output=True)
    return package


class VivaceProgram:
    """A ``vivace`` for the extension to find. Its ``lsp`` is the real one; what it is started with
    otherwise is only written down, and so is the key that it is given."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "vivace"
        self.state = folder / "state/vivace"
        """Where it keeps things."""
        self._calls = folder / "calls"
        self._calls.touch()
        lsp = shlex.join([sys.executable, "-m", "vivace.cli", "lsp"])
        environment = (
            f"PYTHONPATH={shlex.quote(str(ROOT / 'src'))} "
            f"XDG_STATE_HOME={shlex.quote(str(self.state.parent))}"
        )
        self.path.write_text(
            f'#!/bin/sh\necho "$1 $VIVACE_URL $VIVACE_KEY" >>{shlex.quote(str(self._calls))}\n'
            f'if [ "$1" = lsp ]; then {environment} exec {lsp}; fi\n'
        )
        self.path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """Command, address and key of each start."""
        return [line.rstrip() for line in self._calls.read_text().splitlines()]


class VSCode:
    """``with VSCode(folder, package, settings) as code``: files lie in ``code.files``."""

    def __init__(self, folder: Path, package: Path, machine: Mapping[str, object]) -> None:
        self.files = folder / "files"
        self.files.mkdir(parents=True)
        self._folder = folder
        self._installed = _installed()
        self._port = free_port()
        self._set("User", _SETTINGS)
        self.set_machine(machine)
        subprocess.run(
            [*self._command(), "--install-extension", str(package)],
            cwd=folder,
            check=True,
            capture_output=True,
        )

    def set_machine(self, settings: Mapping[str, object]) -> None:
        """Write the settings that only the machine may have.

        A running editor looks at them a moment later, and may miss a change that follows at once.
        """
        self._set("Machine", settings)

    def set_machine_until(self, settings: Mapping[str, object], holds: Callable[[], bool]) -> None:
        """Write them until it shows that the editor has seen them."""
        for _ in range(_TIMES):
            self.set_machine(settings)
            with suppress(AssertionError):
                eventually(holds, _UNSEEN_S)
                return
        assert holds()

    def _set(self, whose: str, settings: Mapping[str, object]) -> None:
        path = self._folder / "data" / whose / "settings.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))

    def _command(self) -> list[str]:
        program = self._installed / "node_modules/code-server/out/node/entry.js"
        folders = ["--user-data-dir", "data", "--extensions-dir", "extensions"]
        return ["node", str(program), "--config", "config.yaml", *folders]

    def __enter__(self) -> VSCode:
        self._server = subprocess.Popen(
            [
                *self._command(),
                *("--auth", "none", "--bind-addr", f"127.0.0.1:{self._port}"),
                *("--disable-telemetry", "--disable-update-check"),
            ],
            cwd=self._folder,
            stdout=(self._folder / "code-server.log").open("wb"),
            stderr=subprocess.STDOUT,
        )
        url = f"http://127.0.0.1:{self._port}"
        eventually(lambda: _answers(url))
        self._driver = subprocess.Popen(
            ["node", str(_DRIVER), str(self._installed), f"{url}/?folder={self.files}"],
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.do("load")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._driver.stdin is not None:
            self._driver.stdin.close()
        self._driver.wait(PATIENCE_S)
        self._server.terminate()
        self._server.wait(PATIENCE_S)

    def do(self, name: str, *given: object) -> Any:
        """Have the driver do something; ``tests/editors/driver.mjs`` says what there is."""
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        self._driver.stdin.write(json.dumps([name, *given]) + "\n")
        self._driver.stdin.flush()
        answer = json.loads(self._driver.stdout.readline() or '{"error": "the driver died"}')
        picture = self._folder / "failed.png"
        assert "error" not in answer, f"{name}{given}: {answer['error']} (see {picture})"
        return answer["result"]

    # -- what a person does -----------------------------------------------------------------------

    def open(self, name: str, text: str | bytes) -> None:
        """A new file with this text; the cursor stands at its end."""
        content = text.encode() if isinstance(text, str) else text
        path = self.files / name
        path.write_bytes(content)
        self.do("open", str(path))
        self.press("Control+End")

    def trust(self) -> None:
        """The folder, when the editor asks for it; until then, it is a stranger's."""
        self.do("trust")

    def type(self, text: str, *, per_second: float = 0) -> None:
        """As fast as it goes, unless it is said how fast."""
        self.do("type", text, 1000 / per_second if per_second else 0)

    def press(self, *keys: str) -> None:
        self.do("press", *keys)

    def command(self, title: str) -> None:
        """From the palette, by its name."""
        self.press("F1")
        self.do("waitForInput")
        self.type(title)
        self.do("waitForEntry", title)
        self.press("Enter")

    def answer(self, text: str) -> None:
        """Into the box that asks for it."""
        self.do("waitForInput")
        self.type(text)
        self.press("Enter")
        self.do("waitForNoInput")

    def saves(self, name: str, expected: str | bytes) -> None:
        """Saved, the file on the screen has this content, byte by byte."""
        content = expected.encode() if isinstance(expected, str) else expected
        path = self.files / name
        self.press("Control+s")
        with suppress(AssertionError):  # the one below says more
            eventually(lambda: path.read_bytes() == content)
        assert path.read_bytes() == content, path.read_bytes()

    # -- what a person sees -----------------------------------------------------------------------

    @property
    def ghost(self) -> str:
        """The ghost text; what is in the cursor's line, then the lines below."""
        return str(self.do("ghost"))

    @property
    def status(self) -> str:
        """The status item, as a screen reader says it."""
        return str(self.do("status"))

    def wait_for_ghost(self, text: str) -> None:
        self.do("waitForGhost", text)

    def wait_for_status(self, words: str) -> None:
        """As a screen reader says it."""
        self.do("waitForStatus", words)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=5).is_success
    except httpx.TransportError:
        return False
