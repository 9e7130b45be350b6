"""Our Lua in real Neovims without a screen: 0.12, which draws ghost text itself, and 0.10.

The language server is a stand-in; what the real one answers is tested with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.editors.language_server import FUNCTION
from tests.support.files import ROOT
from tests.support.neovim import Neovim, installed
from tests.support.waiting import eventually
from vivace.cli.connect import connect

release = pytest.mark.release


@pytest.fixture(params=["forky", pytest.param("trixie", marks=release)], ids=["0.12", "0.10"])
def program(request: pytest.FixtureRequest) -> Path:
    found = installed(request.param)
    if found is None:
        pytest.skip("this Neovim is not here; scripts/install-neovim brings it")
    return found


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The file that lets edits go on."""
    return tmp_path / "gate"


@pytest.fixture
def stand_in(gate: Path) -> list[str]:
    server = str(ROOT / "tests/editors/language_server.py")
    return ["env", f"PYTHONPATH={ROOT}", sys.executable, server, str(gate)]


@pytest.fixture
def neovim(program: Path, tmp_path: Path, stand_in: list[str]) -> Iterator[Neovim]:
    running = Neovim(program, tmp_path, "\n\nx = 1\n", stand_in)
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


@release
def test_the_server_is_told_what_was_accepted(neovim: Neovim) -> None:
    neovim.keys("ide")
    eventually(lambda: neovim.ghost.endswith("return bar"))
    assert neovim.lua("require('vivace').statusline()") == "Vivace ready"
    neovim.keys("<Tab>")
    said = "Vivace ready: Number 7 was accepted."
    eventually(lambda: neovim.lua("require('vivace').statusline()") == said)


@release
def test_what_is_typed_just_before_tab_is_not_put_behind_the_suggestion(neovim: Neovim) -> None:
    neovim.keys("ide")
    eventually(lambda: neovim.ghost == "f foo(bar):\n    return bar")
    neovim.keys("f f<Tab>")
    eventually(lambda: neovim.text == f"{FUNCTION}\n\nx = 1")


@release
def test_typing_through_the_suggestion_keeps_it(neovim: Neovim) -> None:
    neovim.keys("id")
    eventually(lambda: neovim.ghost.endswith("return bar"))
    for typed in range(2, 8):
        neovim.keys(FUNCTION[typed - 1].replace("<", "<lt>"))
        assert neovim.ghost == FUNCTION[typed:]


@release
def test_a_bracket_that_was_closed_by_itself_is_not_doubled(neovim: Neovim) -> None:
    neovim.keys("idef foo()<Left>")
    eventually(lambda: neovim.ghost.endswith("return bar"))
    neovim.keys("b<Tab>")
    eventually(lambda: neovim.text == f"{FUNCTION}\n\nx = 1")


@release
def test_tab_indents_where_nothing_is_suggested(neovim: Neovim) -> None:
    neovim.keys(":set noexpandtab<CR>ix<Tab>y")
    eventually(lambda: neovim.text == "x\ty\n\nx = 1")


@release
def test_other_text_than_was_suggested_is_kept_and_tab_is_a_tab(neovim: Neovim) -> None:
    neovim.keys(":set noexpandtab<CR>ide")
    eventually(lambda: neovim.ghost.endswith("return bar"))
    neovim.keys("l<Tab>")
    eventually(lambda: neovim.text == "del\t\n\nx = 1")


@release
def test_an_accepted_suggestion_is_undone_by_itself(neovim: Neovim) -> None:
    neovim.keys("ide")
    eventually(lambda: neovim.ghost.endswith("return bar"))
    neovim.keys("<Tab>")
    eventually(lambda: neovim.text.startswith(FUNCTION))
    neovim.keys("<Esc>u")
    eventually(lambda: neovim.text == "de\n\nx = 1")


@release
def test_an_edit_is_shown_then_made_and_undone_at_once(neovim: Neovim, gate: Path) -> None:
    neovim.keys(":3VivaceEdit make it two<CR>")
    eventually(lambda: neovim.ghost == "make it two")
    assert neovim.text == "\n\nx = 1"
    gate.touch()
    eventually(lambda: neovim.text == "\n\n# make it two")
    assert neovim.ghost == ""
    neovim.keys("u")
    eventually(lambda: neovim.text == "\n\nx = 1")


@release
def test_an_edit_takes_another_direction_and_stops(neovim: Neovim) -> None:
    neovim.keys(":3VivaceEdit make it two<CR>")
    eventually(lambda: neovim.ghost == "make it two")
    neovim.keys(":VivaceRedirect rather three<CR>")
    eventually(lambda: neovim.text == "\n\n# rather three")
    neovim.keys(":3VivaceEdit make it four<CR>")
    eventually(lambda: neovim.ghost == "make it four")
    neovim.keys(":VivaceStop<CR>")
    eventually(lambda: neovim.ghost == "" and not neovim.waits)
    assert neovim.text == "\n\n# rather three"


@release
def test_a_rename_is_asked_for_where_the_cursor_is(neovim: Neovim) -> None:
    neovim.keys("Gllll:VivaceRename total<CR>")
    said = "Vivace ready: total for what stands at 2:4"
    eventually(lambda: neovim.lua("require('vivace').statusline()") == said)


@release
def test_the_status_says_why_nothing_comes(neovim: Neovim) -> None:
    neovim.keys(":VivacePause<CR>")
    eventually(
        lambda: neovim.lua("require('vivace').statusline()") == "Vivace paused: You paused it."
    )


@release
def test_a_tab_of_the_persons_own_stays_theirs(
    program: Path, tmp_path: Path, stand_in: list[str]
) -> None:
    neovim = Neovim(program, tmp_path, "\n", stand_in)
    try:
        neovim.keys(":imap <lt>Tab> mine<CR>:edit! other.py<CR>")
        eventually(lambda: neovim.lua("#vim.lsp.get_clients({ bufnr = 0 })") == 1)
        neovim.keys("ide")
        eventually(lambda: neovim.ghost.endswith("return bar"))
        neovim.keys("<Tab>")
        eventually(lambda: neovim.text == "demine")
    finally:
        neovim.close()


@release
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
        check=True,
    )
    assert ran.stderr.strip() == "2"
