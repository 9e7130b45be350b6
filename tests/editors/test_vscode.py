"""Our extension in a real VS Code, with a real language server and gateway; the model plays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

from tests.editors.author import Author
from tests.support.server import RunningGateway
from tests.support.vscode import VivaceProgram, VSCode, extension
from tests.support.waiting import eventually
from vivace.desk.usage import UsageFile
from vivace.engines.scripted import Reply, Say, Stall

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]
release = pytest.mark.release

ADD = "def add(first, second):\n    return first + second\n"


@dataclass
class Desk:
    """Somebody in front of VS Code, with a model that knows what they want."""

    code: VSCode
    gateway: RunningGateway
    author: Author
    program: VivaceProgram
    machine: dict[str, str]
    calls_before_trust: list[str]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("vscode")
    package = extension(folder)
    program = VivaceProgram(folder / "bin")
    with RunningGateway() as gateway:
        author = Author(gateway.engine)
        machine = {"vivace.command": str(program.path), "vivace.address": gateway.url}
        with VSCode(folder, package, machine) as code:
            code.wait_for_status("waits until you trust this workspace")
            untrusted = program.calls
            code.trust()
            code.open("first.py", "")
            code.wait_for_status("runs")
            yield Desk(code, gateway, author, program, machine, untrusted)


@pytest.fixture
def desk(everything: Desk) -> Desk:
    everything.author.writes("")
    return everything


# -- completions ----------------------------------------------------------------------------------


def test_ghost_text_appears_and_tab_takes_it(desk: Desk) -> None:
    desk.author.writes(ADD)
    desk.code.open("taken.py", "import math\n\n\n")

    desk.code.type("def a")
    desk.code.wait_for_ghost("dd(first, second):\n    return first + second")
    desk.code.press("Tab")

    desk.code.saves("taken.py", "import math\n\n\n" + ADD.rstrip("\n"))


@release
def test_what_is_taken_is_counted_as_accepted(desk: Desk) -> None:
    def accepted() -> int:
        desk.code.command("Vivace: Restart the Language Server")  # it writes its counts then
        desk.code.wait_for_status("runs")
        return sum(each.accepted for each in UsageFile(desk.program.state).days().values())

    before = accepted()
    desk.author.writes(ADD)
    desk.code.open("counted.py", "import math\n\n\n")
    desk.code.type("def a")
    desk.code.wait_for_ghost("dd(first, second):\n    return first + second")
    desk.code.press("Tab")
    desk.code.saves("counted.py", "import math\n\n\n" + ADD.rstrip("\n"))

    eventually(lambda: accepted() == before + 1)


@release
def test_typing_through_ghost_text_never_lets_it_flicker(desk: Desk) -> None:
    line = "total = sum(price for price in prices if price > 0)"
    desk.author.writes(line + "\n")
    desk.code.open("through.py", "prices = [1, 2]\n")
    desk.code.type("total")
    desk.code.wait_for_ghost("prices if price > 0")

    desk.code.do("watch")
    desk.code.type(" = sum(price for price", per_second=8)
    frames = desk.code.do("seen")

    assert frames
    assert {frame for frame in frames if not frame.rstrip(")").endswith("> 0")} == set()
    desk.code.press("Tab")
    desk.code.saves("through.py", "prices = [1, 2]\n" + line)


@release
def test_brackets_that_the_editor_closed_are_not_doubled(desk: Desk) -> None:
    desk.author.writes("print(sum(numbers[1:]))\n")
    desk.code.open("brackets.py", "numbers = [1, 2]\n")

    desk.code.type("print(sum(num", per_second=10)
    desk.code.wait_for_ghost("bers[1:]")
    desk.code.press("Tab")

    desk.code.saves("brackets.py", "numbers = [1, 2]\nprint(sum(numbers[1:]))")


@release
def test_a_cell_of_a_notebook_goes_on_from_those_before_it(desk: Desk) -> None:
    desk.author.writes("prices = [1, 2]\n\ntotal = sum(prices)\n")
    cells: list[dict[str, object]] = [
        {"cell_type": "code", "source": source, "metadata": {}, "outputs": []}
        for source in ("prices = [1, 2]", "")
    ]
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 2}
    desk.code.open("book.ipynb", json.dumps(book))

    desk.code.type("tot", per_second=10)
    desk.code.wait_for_ghost("al = sum(prices)")
    assert desk.author.fills[-1].prefix.startswith("prices = [1, 2]\n\n")


@release
def test_two_cursors_do_no_harm(desk: Desk) -> None:
    desk.author.writes("value = compute(data)\n")
    desk.code.open("cursors.py", "\n\n")
    desk.code.press("Control+Home", "Shift+Alt+ArrowDown")

    desk.code.type("value")
    desk.code.wait_for_ghost(" = compute")
    desk.code.press("Tab")

    desk.code.saves("cursors.py", "value = compute(data)\nvalue = compute(data)\n")


@release
def test_tab_takes_what_begins_with_indentation_unless_it_moves_the_focus(desk: Desk) -> None:
    before = "def double(number):\n"
    desk.author.writes("    return number * 2\n")
    desk.code.open("indented.py", before)
    desk.code.command("Trigger Inline Suggestion")
    desk.code.wait_for_ghost("return number")

    desk.code.press("Control+m", "Tab", "Shift+Tab", "Control+m")
    desk.code.saves("indented.py", before)
    desk.code.command("Trigger Inline Suggestion")
    desk.code.wait_for_ghost("return number")
    desk.code.press("Tab")

    desk.code.saves("indented.py", before + "    return number * 2")


@release
def test_a_file_keeps_its_bytes(desk: Desk) -> None:
    before = 'smile = "😀"\r\n\x0c\r\nfamily = "👨‍👩‍👧"\r\n'
    desk.author.writes('print(smile)\nprint("😀😀", family)\n')
    desk.code.open("bytes.py", before)

    desk.code.type("print(smile)\nprint", per_second=10)
    desk.code.wait_for_ghost('("😀😀", family)')
    desk.code.press("Tab")

    desk.code.saves("bytes.py", before + 'print(smile)\r\nprint("😀😀", family)')


@release
def test_where_the_cursor_rests_is_read_before_the_first_key(desk: Desk) -> None:
    desk.code.open("resting.py", "before = 1\n\n\nafter = 2\n")

    desk.code.press("Control+Home", "ArrowDown", "ArrowDown")

    gap = ("before = 1\n\n", "\nafter = 2\n")
    eventually(lambda: gap in [(each.prefix, each.suffix) for each in desk.author.fills])


@release
def test_how_much_of_a_file_is_asked_about_can_be_set(desk: Desk) -> None:
    desk.author.writes(ADD)
    desk.code.open("long.py", "value = 1\n" * 300)
    eventually(lambda: context_of_a_question(desk) > 500)

    few = desk.machine | {"vivace.completion.characters": 500}
    desk.code.set_machine_until(few, lambda: 100 < context_of_a_question(desk) <= 500)
    desk.code.set_machine_until(desk.machine, lambda: context_of_a_question(desk) > 500)


def context_of_a_question(desk: Desk) -> int:
    """Begin the author's text on a new line, and return how many characters were asked about."""
    desk.code.press("Escape")
    desk.code.type("\ndef a")
    with suppress(AssertionError):  # when settings change, a question is dropped
        eventually(lambda: "dd(first, second)" in desk.code.ghost, 5)
    asked = desk.author.fills[-1:]
    return sum(len(each.prefix) + len(each.suffix or "") for each in asked)


@release
def test_nothing_is_asked_for_a_file_of_secrets(desk: Desk) -> None:
    desk.author.writes("SECRET=hunter2\n")
    desk.code.open(".env", "TOKEN=abc\n")

    desk.code.type("SECRET=", per_second=10)
    desk.code.wait_for_status(".env")
    assert desk.code.ghost == ""

    desk.code.open("later.py", "")
    desk.code.type("SECR")
    desk.code.wait_for_ghost("ET=hunter2")
    assert "TOKEN=" not in str(desk.author.fills)
    assert "SECRET" not in str(desk.author.fills)


# -- findings -------------------------------------------------------------------------------------

YAML = "import yaml\n\n\ndef read(text):\n"


def test_typing_a_vulnerable_line_marks_it_and_the_quick_fix_clears_it(desk: Desk) -> None:
    code = desk.code
    code.open("unsafe.py", YAML)

    code.type("    return yaml.load(text)\n")
    code.do("waitForMarks", 1)
    code.press("ArrowUp", "End", "ArrowLeft", "ArrowLeft")
    code.do("takeFix", "Fix:")
    code.do("waitForMarks", 0)

    code.press("Control+End")
    code.saves("unsafe.py", f"{YAML}    return yaml.safe_load(text)\n")


@release
def test_a_line_that_is_not_left_is_marked_when_typing_pauses(desk: Desk) -> None:
    desk.code.open("half.py", YAML)

    desk.code.type("    return yaml.load(text)", per_second=10)
    desk.code.do("waitForMarks", 1)


# -- edits ----------------------------------------------------------------------------------------

REST = """

def first(rows):
    return rows[0]


# Notes:
"""
LOAD = """\
def load(path):
    file = open(path)
    rows = file.read().split()
    rows.sort()
    return rows
"""
LOADED = LOAD.replace("(path)\n", '(path, encoding="utf-8")\n')
SHORT = LOAD.replace("(path)\n", "(path, newline='')\n")


def says(text: str, *, when: str, halts: bool = False) -> Reply:
    """Answer with this code; ``halts`` stops in the middle of it until ``gateway.go_on()``."""
    half = text.index("    rows.sort()")
    said = Say(f"```python\n{text[:half]}"), Say(f"{text[half:]}```\n")
    return Reply(when=when, then=(said[0], Stall(3600), said[1]) if halts else said)


def ask_for_an_edit(code: VSCode, name: str, instruction: str) -> None:
    """Of the function ``load``, which is selected."""
    code.open(name, LOAD + REST)
    code.press("Control+Home", *["Shift+ArrowDown"] * LOAD.count("\n"))
    code.press("Control+k", "Control+e")
    code.answer(instruction)


@release
def test_an_edit_is_shown_in_the_making_and_leaves_alone_what_is_typed_meanwhile(
    desk: Desk,
) -> None:
    code, typed = desk.code, "I type forty characters while it edits.."
    desk.author.writes("", says(LOADED, when="UTF-8", halts=True))
    ask_for_an_edit(code, "edited.py", "read it as UTF-8")

    code.do("waitForHunk", "open(path, encoding=")
    code.press("Control+End")
    code.type(typed, per_second=20)
    desk.gateway.go_on()
    code.do("waitForCode", 'encoding="utf-8"')
    code.do("waitForNoHunks")

    code.saves("edited.py", LOADED + REST + typed)
    code.press("Control+z")
    code.saves("edited.py", LOAD + REST + typed)


@release
def test_escape_stops_an_edit(desk: Desk) -> None:
    desk.author.writes("", says(LOADED, when="UTF-8", halts=True))
    ask_for_an_edit(desk.code, "stopped.py", "read it as UTF-8")
    desk.code.do("waitForHunk", "open(path, encoding=")

    desk.code.press("Escape")

    desk.code.do("waitForNoHunks")
    eventually(lambda: desk.gateway.engine.running() == 0)
    desk.code.saves("stopped.py", LOAD + REST)


@release
def test_an_edit_can_be_redirected(desk: Desk) -> None:
    desk.author.writes(
        "",
        says(SHORT, when="keep its line ends"),
        says(LOADED, when="UTF-8", halts=True),
    )
    ask_for_an_edit(desk.code, "redirected.py", "read it as UTF-8")
    desk.code.do("waitForHunk", "open(path, encoding=")

    desk.code.press("Control+k", "Control+e")
    desk.code.answer("keep its line ends")
    desk.code.do("waitForNoHunks")

    desk.code.saves("redirected.py", SHORT + REST)


# -- the program ----------------------------------------------------------------------------------


def test_nothing_is_started_in_a_workspace_that_is_not_trusted(desk: Desk) -> None:
    assert desk.calls_before_trust == []


@release
def test_the_key_is_given_to_the_server_by_its_environment(desk: Desk) -> None:
    starts = len(desk.program.calls)

    desk.code.command("Vivace: Set the Server's Key")
    desk.code.answer("sk-of-mine")

    eventually(lambda: len(desk.program.calls) > starts)
    assert desk.program.calls[-1].startswith("lsp http://127.0.0.1:")
    assert desk.program.calls[-1].endswith(" sk-of-mine")
    desk.code.wait_for_status("runs")


@release
def test_a_server_is_started_in_a_terminal(desk: Desk) -> None:
    desk.code.command("Vivace: Start a Server")

    eventually(lambda: desk.program.calls[-1].startswith("up "))


@release
def test_where_no_program_is_the_status_says_so(desk: Desk) -> None:
    nowhere = desk.machine | {"vivace.command": "/nowhere/vivace"}
    said = "names no program: /nowhere/vivace"
    desk.code.set_machine_until(nowhere, lambda: said in desk.code.status)
    desk.code.set_machine_until(desk.machine, lambda: "runs" in desk.code.status)


@release
def test_a_repository_has_no_say_in_which_program_runs_and_who_is_asked(desk: Desk) -> None:
    calls = desk.program.calls
    settings = desk.code.files / ".vscode/settings.json"
    settings.parent.mkdir()
    stranger = {"vivace.command": "/bin/false", "vivace.address": "http://127.0.0.1:9/v1"}
    desk.author.writes(ADD)
    desk.code.open("own.py", "value = 1\n" * 300)

    # What a repository may set shows when the editor has read all of it.
    settings.write_text(json.dumps(stranger | {"vivace.completion.characters": 500}))
    eventually(lambda: context_of_a_question(desk) <= 500)

    assert desk.program.calls == calls
    settings.unlink()
