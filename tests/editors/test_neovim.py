"""Our Lua in real Neovims without a screen: 0.12, which draws ghost text itself, and 0.10.

The language server is a stand-in; what the real one answers is tested with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvim
import pytest
from click.testing import CliRunner

from tests.editors.language_server import FUNCTION
from tests.support import waiting
from tests.support.files import ROOT
from vivace.cli.connect import connect

SERVER = ROOT / "tests/editors/language_server.py"


def eventually(holds: Callable[[], bool]) -> None:
    """Several programs of their own have to start first."""
    waiting.eventually(holds, 60)  # two programs come up, on a machine that may be busy


def installed(suite: str) -> Path | None:
    script = ROOT / "scripts/install-neovim"
    ran = subprocess.run([script, "--path", suite], capture_output=True, text=True, check=True)
    folder = Path(ran.stdout.strip())
    return folder / "nvim" if (folder / ".ready").exists() else None


class Neovim:
    """One that runs, and can be typed into."""

    def __init__(self, program: Path, folder: Path, text: str) -> None:
        self._socket = folder / "socket"
        self._nvim: Any = None
        self.file = folder / "code.py"
        self.file.write_text(text)
        init = folder / "init.lua"
        init.write_text(
            f"vim.opt.runtimepath:prepend({json.dumps(str(ROOT / 'editors/neovim'))})\n"
            "vim.cmd('filetype on')\n"
            "vim.o.swapfile = false\n"
            "vim.o.autoindent = false\n"
            f"require('vivace').setup({{ cmd = {{ {json.dumps(sys.executable)}, "
            f"{json.dumps(str(SERVER))} }} }})\n"
        )
        self._process = subprocess.Popen(
            [program, "--headless", "--listen", self._socket, "-u", init, self.file],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(self._socket.exists)
            self._nvim = pynvim.attach("socket", path=str(self._socket))
            eventually(lambda: self.lua("#vim.lsp.get_clients({ bufnr = 0 })") == 1)
            eventually(lambda: self.lua("vim.lsp.get_clients()[1].initialized") is True)
        except BaseException:
            self.close()
            raise

    def keys(self, keys: str) -> None:
        self._nvim.input(keys)

    def lua(self, expression: str) -> Any:
        return self._nvim.exec_lua(f"return {expression}")

    @property
    def text(self) -> str:
        lines: list[str] = self.lua("vim.api.nvim_buf_get_lines(0, 0, -1, false)")
        return "\n".join(lines)

    @property
    def ghost(self) -> str:
        """All that is drawn and is not in the text."""
        marks = self.lua("vim.api.nvim_buf_get_extmarks(0, -1, 0, -1, { details = true })")
        lines = [
            "".join(piece[0] for piece in line)
            for *_, mark in marks
            for line in [*filter(None, [mark.get("virt_text")]), *mark.get("virt_lines", [])]
        ]
        return "\n".join(lines)

    def close(self) -> None:
        if self._nvim is not None:
            self._nvim.close()
        self._process.terminate()
        self._process.wait(10)


@pytest.fixture(params=["forky", "trixie"], ids=["0.12", "0.10"])
def program(request: pytest.FixtureRequest) -> Path:
    found = installed(request.param)
    if found is None:
        pytest.skip("this Neovim is not here; scripts/install-neovim brings it")
    return found


@pytest.fixture
def neovim(program: Path, tmp_path: Path) -> Iterator[Neovim]:
    running = Neovim(program, tmp_path, "\n\nx = 1\n")
    yield running
    running.close()


def test_ghost_text_appears_and_tab_takes_it(neovim: Neovim) -> None:
    neovim.keys("ide")
    eventually(lambda: neovim.ghost == "f foo(bar):\n    return bar")
    assert neovim.text == "de\n\nx = 1"
    neovim.keys("<Tab>")
    eventually(lambda: neovim.text == f"{FUNCTION}\n\nx = 1")
    neovim.keys("!")
    eventually(lambda: neovim.text == f"{FUNCTION}!\n\nx = 1")


def test_what_is_typed_just_before_tab_is_not_put_behind_the_suggestion(neovim: Neovim) -> None:
    neovim.keys("ide")
    eventually(lambda: neovim.ghost == "f foo(bar):\n    return bar")
    neovim.keys("f f<Tab>")
    eventually(lambda: neovim.text == f"{FUNCTION}\n\nx = 1")


def test_typing_through_the_suggestion_keeps_it(neovim: Neovim) -> None:
    neovim.keys("id")
    eventually(lambda: neovim.ghost.endswith("return bar"))
    for typed in range(2, 8):
        neovim.keys(FUNCTION[typed - 1].replace("<", "<lt>"))
        assert neovim.ghost == FUNCTION[typed:]


def test_a_bracket_that_was_closed_by_itself_is_not_doubled(neovim: Neovim) -> None:
    neovim.keys("idef foo()<Left>")
    eventually(lambda: neovim.ghost.endswith("return bar"))
    neovim.keys("b<Tab>")
    eventually(lambda: neovim.text == f"{FUNCTION}\n\nx = 1")


def test_tab_indents_where_nothing_is_suggested(neovim: Neovim) -> None:
    neovim.keys(":set noexpandtab<CR>ix<Tab>y")
    eventually(lambda: neovim.text == "x\ty\n\nx = 1")


def test_other_text_than_was_suggested_is_kept_and_tab_is_a_tab(neovim: Neovim) -> None:
    neovim.keys(":set noexpandtab<CR>ide")
    eventually(lambda: neovim.ghost.endswith("return bar"))
    neovim.keys("l<Tab>")
    eventually(lambda: neovim.text == "del\t\n\nx = 1")


def test_an_accepted_suggestion_is_undone_by_itself(neovim: Neovim) -> None:
    neovim.keys("ide")
    eventually(lambda: neovim.ghost.endswith("return bar"))
    neovim.keys("<Tab>")
    eventually(lambda: neovim.text.startswith(FUNCTION))
    neovim.keys("<Esc>u")
    eventually(lambda: neovim.text == "de\n\nx = 1")


def test_an_edit_is_shown_then_made_and_undone_at_once(neovim: Neovim) -> None:
    neovim.keys(":3VivaceEdit make it two<CR>")
    eventually(lambda: neovim.ghost == "make it two")
    assert neovim.text == "\n\nx = 1"
    eventually(lambda: neovim.text == "\n\n# make it two")
    assert neovim.ghost == ""
    neovim.keys("u")
    eventually(lambda: neovim.text == "\n\nx = 1")


def test_an_edit_takes_another_direction_and_stops(neovim: Neovim) -> None:
    neovim.keys(":3VivaceEdit make it two<CR>")
    eventually(lambda: neovim.ghost == "make it two")
    neovim.keys(":VivaceRedirect rather three<CR>")
    eventually(lambda: neovim.text == "\n\n# rather three")
    neovim.keys(":3VivaceEdit make it four<CR>")
    eventually(lambda: neovim.ghost == "make it four")
    neovim.keys(":VivaceStop<CR>")
    eventually(lambda: neovim.ghost == "")
    time.sleep(0.1)
    assert neovim.text == "\n\n# rather three"


def test_the_status_says_why_nothing_comes(neovim: Neovim) -> None:
    neovim.keys(":VivacePause<CR>")
    eventually(
        lambda: neovim.lua("require('vivace').statusline()") == "Vivace paused: You paused it."
    )


def test_a_tab_of_the_persons_own_stays_theirs(program: Path, tmp_path: Path) -> None:
    neovim = Neovim(program, tmp_path, "\n")
    try:
        neovim.keys(":imap <lt>Tab> mine<CR>:edit! other.py<CR>")
        eventually(lambda: neovim.lua("#vim.lsp.get_clients({ bufnr = 0 })") == 1)
        neovim.keys("ide")
        eventually(lambda: neovim.ghost.endswith("return bar"))
        neovim.keys("<Tab>")
        eventually(lambda: neovim.text == "demine")
    finally:
        neovim.close()


def test_what_connect_writes_is_found_without_a_line_of_the_persons_own(
    program: Path, tmp_path: Path
) -> None:
    environment = {"XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    runner = CliRunner(env=environment | {"NVIM_APPNAME": None})
    assert runner.invoke(connect, ["neovim", "--write", "--yes"]).exit_code == 0
    ran = subprocess.run(
        [program, "--headless", "+echo exists(':VivaceEdit')", "+quitall"],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=30,
        check=True,
    )
    assert ran.stderr.strip() == "2"
