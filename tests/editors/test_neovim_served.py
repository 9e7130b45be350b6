"""Real Neovims with the real language server and gateway; the model plays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.editors.author import Author
from tests.support.neovim import Neovim, installed
from tests.support.server import RunningGateway
from tests.support.vscode import VivaceProgram
from tests.support.waiting import eventually
from vivace.engines.scripted import Reply, Say, Stall

release = pytest.mark.release

ADD = "def add(first, second):\n    return first + second"
LOAD = """\
def load(path):
    file = open(path)
    rows = file.read().split()
    rows.sort()
    return rows


def first(rows):
    return rows[0]"""
LOADED = LOAD.replace("(path)\n    rows", '(path, encoding="utf-8")\n    rows')
KEPT = LOAD.replace("(path)\n    rows", "(path, newline='')\n    rows")


@dataclass
class Desk:
    neovim: Neovim
    author: Author
    gateway: RunningGateway


@pytest.fixture(params=["forky", pytest.param("trixie", marks=release)], ids=["0.12", "0.10"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    program = installed(request.param)
    if program is None:
        pytest.skip("this Neovim is not here; scripts/install-neovim brings it")
    vivace = VivaceProgram(tmp_path / "bin")
    with RunningGateway() as gateway:
        author = Author(gateway.engine)
        server = ["env", f"VIVACE_URL={gateway.url}", str(vivace.path), "lsp"]
        neovim = Neovim(program, tmp_path, LOAD + "\n", server)
        yield Desk(neovim, author, gateway)
        neovim.close()


def says(text: str, *, when: str, halts: bool = False) -> Reply:
    """Answer with the first function of this; ``halts`` stops midway until ``gateway.go_on()``."""
    function = text.partition("\n\n\n")[0] + "\n"
    half = function.index("    rows.sort()")
    said = Say(f"```python\n{function[:half]}"), Say(f"{function[half:]}```\n")
    return Reply(when=when, then=(said[0], Stall(3600), said[1]) if halts else said)


def test_a_suggestion_is_shown_taken_and_taken_back(desk: Desk) -> None:
    desk.author.writes(ADD + "\n")
    desk.neovim.keys("Go<CR><CR>def a")
    eventually(lambda: desk.neovim.ghost == ADD.removeprefix("def a"))
    desk.neovim.keys("d<Tab>")  # within the time that Neovim waits before it asks
    eventually(lambda: desk.neovim.text == f"{LOAD}\n\n\n{ADD}")
    desk.neovim.keys("<Esc>u")
    eventually(lambda: desk.neovim.text == f"{LOAD}\n\n\ndef ad")


@release
def test_an_edit_is_shown_made_and_undone_while_one_types_elsewhere(desk: Desk) -> None:
    desk.author.writes("", says(LOADED, when="UTF-8", halts=True))
    desk.neovim.keys("gg:VivaceEdit read it as UTF-8<CR>")
    eventually(lambda: 'encoding="utf-8"' in desk.neovim.ghost)
    assert desk.neovim.text == LOAD
    desk.neovim.keys("Go# typed<Esc>")
    eventually(lambda: desk.neovim.text == f"{LOAD}\n# typed")
    desk.gateway.go_on()
    eventually(lambda: desk.neovim.text == f"{LOADED}\n# typed")
    desk.neovim.keys("u")
    eventually(lambda: desk.neovim.text == f"{LOAD}\n# typed")


@release
def test_an_edit_is_redirected_and_stopped(desk: Desk) -> None:
    desk.author.writes(
        "", says(KEPT, when="keep its line ends"), says(LOADED, when="UTF-8", halts=True)
    )
    desk.neovim.keys("gg:VivaceEdit read it as UTF-8<CR>")
    eventually(lambda: 'encoding="utf-8"' in desk.neovim.ghost)
    desk.neovim.keys(":VivaceRedirect keep its line ends<CR>")
    eventually(lambda: desk.neovim.text == KEPT)

    eventually(lambda: not desk.neovim.waits)
    desk.neovim.tell_changes()  # what is undone before the server has seen it was never made
    desk.neovim.keys("u:VivaceEdit read it as UTF-8<CR>")
    eventually(lambda: 'encoding="utf-8"' in desk.neovim.ghost)
    desk.neovim.keys(":VivaceStop<CR>")
    eventually(lambda: desk.neovim.ghost == "" and desk.gateway.engine.running() == 0)
    assert desk.neovim.text == LOAD
