"""``vivace edit`` in a terminal: what moves, what can be typed, and what is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.editing import (
    BOTH,
    BROKEN,
    EVERYWHERE,
    LOADED,
    SHOP,
    TYPED,
    Project,
    answers,
    code,
    ended,
    slowly,
)
from tests.support.server import RunningGateway, configuration
from tests.support.waiting import eventually
from vivace.engines.scripted import Reply, Say, Stall

ASKED = "Apply this change [y,n,a,d,q,?]? "


@pytest.fixture
def project(tmp_path: Path, gateway: RunningGateway) -> Project:
    return Project(tmp_path, gateway)


# -- watching -------------------------------------------------------------------------------------


def test_a_hunk_is_shown_in_colour_before_the_answer_is_over(project: Project) -> None:
    project.play(slowly(BOTH))
    with project.terminal("shop.py", EVERYWHERE) as child:
        child.expect_exact("\x1b[31m-    def total(self):")
        child.expect_exact("\x1b[32m+    def total(self) -> int:")
        child.expect(r"local-model · \d+\.\d s · \d+ tokens/s")
        assert project.gateway.engine.running() == 1
        assert project.shop.read_text() == SHOP


def test_ctrl_c_stops_the_engine_and_leaves_the_file_as_it_was(project: Project) -> None:
    project.play(slowly(BOTH))
    with project.terminal("shop.py", EVERYWHERE, "--yes") as child:
        child.expect_exact("def total(self) -> int:")
        child.sendcontrol("c")
        child.expect_exact("stopped")
        assert ended(child) == 130
    eventually(lambda: project.gateway.engine.running() == 0)
    assert project.shop.read_text() == SHOP


def test_ctrl_c_before_the_first_word_stops_it_too(project: Project) -> None:
    project.play(Reply(then=(Stall(3600),)))
    with project.terminal("shop.py", EVERYWHERE, "--yes") as child:
        eventually(lambda: project.gateway.engine.running() == 1)
        child.sendcontrol("c")
        assert ended(child) == 130
    eventually(lambda: project.gateway.engine.running() == 0)


def test_ctrl_c_at_a_question_writes_nothing(project: Project) -> None:
    project.play(answers(BOTH))
    with project.terminal("shop.py", EVERYWHERE) as child:
        child.expect_exact(ASKED)
        child.sendcontrol("c")
        assert ended(child) == 130
    assert project.shop.read_text() == SHOP


def test_a_typed_line_redirects_the_edit_and_clears_what_was_shown(project: Project) -> None:
    project.play(answers(LOADED, when="close the file"), slowly(BOTH))
    with project.terminal("shop.py", EVERYWHERE, "--yes") as child:
        child.expect_exact("def total(self) -> int:")
        child.send("close the file instead\r")
        child.expect(r"\x1b\[\d+A\x1b\[J")
        child.expect_exact("close the file instead")
        child.expect_exact("with open(path) as file:")
        assert ended(child) == 0
    assert project.shop.read_text() == LOADED
    assert "response.steer.accepted" in project.gateway.witness.events


def test_a_line_begun_before_the_end_is_still_a_word_to_this_edit(project: Project) -> None:
    said = code(TYPED)
    slow = Reply(then=(Say(said[:-20]), Stall(3600), Say(said[-20:])))
    project.play(answers(LOADED, when="close the file"), slow)
    with project.terminal("shop.py", EVERYWHERE, "--yes") as child:
        child.expect_exact("def total(self) -> int:")
        child.send("close the file inst")
        child.expect_exact("close the file inst")
        project.gateway.go_on()
        eventually(lambda: project.gateway.engine.running() == 0)
        child.send("ead\r")
        assert ended(child) == 0
    assert project.shop.read_text() == LOADED


def test_what_a_model_says_cannot_steer_the_terminal(project: Project) -> None:
    project.play(answers(SHOP.replace("# keep the order", "x = '\x1b]0;owned\x07'")))
    with project.terminal("shop.py", EVERYWHERE, "--yes") as child:
        child.expect_exact("x = '\ufffd]0;owned")
        assert ended(child) == 0
        assert child.before is not None
        assert "\x1b]0" not in child.before


# -- deciding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "after", "status"),
    [
        pytest.param("yy", BOTH, 0, marks=pytest.mark.release),
        ("yn", TYPED, 0),
        pytest.param("ny", LOADED, 0, marks=pytest.mark.release),
        pytest.param("nn", SHOP, 1, marks=pytest.mark.release),
        ("a", BOTH, 0),
        ("d", SHOP, 1),
        ("yq", TYPED, 0),
        pytest.param("q", SHOP, 1, marks=pytest.mark.release),
    ],
)
def test_each_hunk_is_accepted_or_rejected(
    project: Project, keys: str, after: str, status: int
) -> None:
    project.play(answers(BOTH))
    with project.terminal("shop.py", EVERYWHERE) as child:
        for number, key in enumerate(keys, start=1):
            child.expect_exact(f"({number}/2) {ASKED}")
            child.send(f"{key}\r")
        assert ended(child) == status
    assert project.shop.read_text() == after


def test_a_question_mark_explains_the_keys(project: Project) -> None:
    project.play(answers(TYPED))
    with project.terminal("shop.py", EVERYWHERE) as child:
        child.expect_exact(ASKED)
        child.send("?\r")
        child.expect_exact("y - apply this change")
        child.expect_exact(ASKED)
        child.send("y\r")
        child.expect_exact("shop.py  +1 -1")
        assert ended(child) == 0


@pytest.mark.parametrize(
    "pasted",
    [
        "yclear; vivace edit\r",
        "y\ry\r",
        pytest.param("y\rclear; vivace edit\r", marks=pytest.mark.release),
    ],
)
def test_a_paste_answers_no_question(project: Project, pasted: str) -> None:
    project.play(answers(BOTH))
    with project.terminal("shop.py", EVERYWHERE) as child:
        child.expect_exact(f"(1/2) {ASKED}")
        child.send(pasted)
        child.expect_exact("One letter is the answer, typed and alone")
        child.expect_exact(f"(1/2) {ASKED}")
        child.send("q\r")
        assert ended(child) == 1
    assert project.shop.read_text() == SHOP


def test_escape_stops_the_answer(project: Project) -> None:
    project.play(slowly(BOTH))
    with project.terminal("shop.py", EVERYWHERE, "--yes") as child:
        child.expect_exact("Esc stops")
        child.expect_exact("def total(self) -> int:")
        child.send("\x1b")
        child.expect_exact("stopped; nothing was written")
        assert ended(child) == 130
    eventually(lambda: project.gateway.engine.running() == 0)
    assert project.shop.read_text() == SHOP


def test_the_end_of_input_is_a_no(project: Project) -> None:
    project.play(answers(TYPED))
    with project.terminal("shop.py", EVERYWHERE) as child:
        child.expect_exact(ASKED)
        child.sendeof()
        assert ended(child) == 1
    assert project.shop.read_text() == SHOP


def test_hunks_of_several_files_are_written_together(project: Project) -> None:
    other = project.root / "other.py"
    other.write_text(SHOP)
    project.play(answers(TYPED))
    with project.terminal("shop.py", "other.py", EVERYWHERE) as child:
        child.expect_exact(f"(1/2) {ASKED}")
        child.send("y\r")
        child.expect_exact(f"(2/2) {ASKED}")
        assert project.shop.read_text() == SHOP
        child.send("y\r")
        assert ended(child) == 0
    assert [project.shop.read_text(), other.read_text()] == [TYPED, TYPED]


@pytest.mark.parametrize(("answer", "status"), [("n", 3), ("y", 0)])
def test_only_a_person_can_overrule_the_checks(project: Project, answer: str, status: int) -> None:
    project.play(answers(BROKEN))
    with project.terminal("shop.py", EVERYWHERE) as child:
        child.expect_exact("refused")
        child.expect_exact("all the same?")
        child.send(f"{answer}\r")
        if answer == "y":
            child.expect_exact(ASKED)
            child.send("y\r")
        assert ended(child) == status
    assert project.shop.read_text() == (BROKEN if answer == "y" else SHOP)


def test_a_fix_for_a_failing_check_is_offered(project: Project) -> None:
    load = LOADED[LOADED.index("def load") :].replace("open(path)", "open(path, 'rb')")
    project.play(answers(load, when="Fix the code"), answers(LOADED))
    check = "grep -q rb shop.py"
    with project.terminal("shop.py", EVERYWHERE, "--check", check) as child:
        child.expect_exact(ASKED)
        child.send("y\r")
        child.expect_exact("Ask for a fix?")
        child.send("y\r")
        child.expect_exact(ASKED)
        child.send("y\r")
        assert ended(child) == 0
    assert "open(path, 'rb')" in project.shop.read_text()


def test_a_part_that_breaks_what_the_whole_did_not_is_asked_about(project: Project) -> None:
    named = SHOP.replace("total(self):", "total(self, start=ZERO):")
    project.play(answers(named.replace("import json\n", "import json\n\nZERO = 0\n")))
    with project.terminal("shop.py", EVERYWHERE) as child:
        child.expect_exact(f"(1/2) {ASKED}")
        child.send("n\r")
        child.expect_exact(f"(2/2) {ASKED}")
        child.send("y\r")
        child.expect_exact("`ZERO`, which is defined nowhere. Apply it all the same?")
        child.send("n\r")
        assert ended(child) == 1
    assert project.shop.read_text() == SHOP


def test_ctrl_c_during_a_check_ends_it_and_says_that_the_edit_is_kept(project: Project) -> None:
    project.play(answers(TYPED))
    check = "echo begun; sleep 3600"
    with project.terminal("shop.py", EVERYWHERE, "--yes", "--check", check) as child:
        child.expect_exact("\nbegun")
        child.sendcontrol("c")
        child.expect_exact("vivace undo")
        assert ended(child) == 130
    assert project.shop.read_text() == TYPED


def test_the_output_of_a_check_does_not_steer_the_terminal(project: Project) -> None:
    project.play(answers(TYPED))
    check = r"printf 'seen \033]52;c;QQ==\007 \302\2332J \377\n'"
    with project.terminal("shop.py", EVERYWHERE, "--yes", "--check", check) as child:
        child.expect_exact("\nseen \ufffd]52;c;QQ==\ufffd \ufffd2J \ufffd\r\n")
        assert ended(child) == 0


def test_code_that_does_not_read_as_it_runs_is_seen_in_the_diff(project: Project) -> None:
    project.play(answers(SHOP.replace("# keep the order", "# keep \u202e}\u2066 the order")))
    with project.terminal("shop.py", "change the comment in add", "--diff") as child:
        child.expect_exact("+        # keep \ufffd}\ufffd the order")
        assert ended(child) == 0


def test_the_winner_of_several_attempts_is_shown_and_asked_about(project: Project) -> None:
    project.play(answers(TYPED))
    arguments = ("shop.py", EVERYWHERE, "--check", "true", "--try", "2")
    with project.terminal(*arguments) as child:
        child.expect_exact("+    def total(self) -> int:")
        child.expect_exact("the check passed")
        child.expect_exact(ASKED)
        child.send("n\r")
        assert ended(child) == 1
    assert project.shop.read_text() == SHOP


# -- a session ------------------------------------------------------------------------------------


class Overheard:
    """What the engine was asked, each time."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.prompts: list[list[str]] = []
        self.parents: list[str | None] = []
        generate = gateway.engine.generate

        def listening(work: Any) -> Any:
            self.prompts.append([str(item.content) for item in work.prompt.items])
            self.parents.append(work.parent_id)
            return generate(work)

        gateway.engine.generate = listening  # type: ignore[method-assign]


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Project]:
    """With a model that is shown whole files."""
    with RunningGateway(config=configuration(engine={"model": "large-70b"})) as gateway:
        yield Project(tmp_path, gateway)


def test_a_session_edits_one_file_again_and_sends_only_what_is_new(large: Project) -> None:
    overheard = Overheard(large.gateway)
    large.play(answers(BOTH, when="The change: change the whole module"), answers(TYPED))
    with large.terminal() as child:
        child.expect_exact("edit> ")
        child.send(f"shop.py {EVERYWHERE}\r")
        child.expect_exact(ASKED)
        child.send("y\r")
        child.expect_exact("shop.py> ")
        assert large.shop.read_text() == TYPED
        child.send("change the whole module\r")
        child.expect_exact(ASKED)
        child.send("y\r")
        child.expect_exact("shop.py> ")
        child.sendeof()
        assert ended(child) == 0
    assert large.shop.read_text() == BOTH
    first, second = overheard.prompts
    assert second[: len(first)] == first
    assert len(second) == len(first) + 2  # the answer, and the new request
    assert overheard.parents[0] is None
    assert overheard.parents[1] is not None


def test_what_was_rejected_is_told_as_a_change(large: Project) -> None:
    overheard = Overheard(large.gateway)
    large.play(answers(TYPED))
    with large.terminal("shop.py") as child:
        for _ in range(2):
            child.expect_exact("shop.py> ")
            child.send(f"{EVERYWHERE}\r")
            child.expect_exact(ASKED)
            child.send("n\r")
        child.expect_exact("shop.py> ")
    assert "I have changed this since" in overheard.prompts[1][-2]
    assert "-    def total(self) -> int:" in overheard.prompts[1][-2]


def test_ctrl_c_in_a_session_stops_the_edit_and_not_the_session(project: Project) -> None:
    project.play(slowly(BOTH))
    with project.terminal() as child:
        child.expect_exact("edit> ")
        child.send(f"shop.py {EVERYWHERE}\r")
        child.expect_exact("def total(self) -> int:")
        child.sendcontrol("c")
        child.expect_exact("stopped")
        child.expect_exact("shop.py> ")
        project.play(answers(TYPED))
        child.send(f":14-18 {EVERYWHERE}\r")
        child.expect([r"Apply", "refused", "nothing"])
    assert project.shop.read_text() == SHOP


def test_a_session_has_commands_of_its_own(project: Project) -> None:
    project.play(answers(TYPED))
    with project.terminal("shop.py") as child:
        child.expect_exact("shop.py> ")
        child.send(f"{EVERYWHERE}\r")
        child.expect_exact(ASKED)
        child.send("y\r")
        child.expect_exact("shop.py> ")
        assert project.shop.read_text() == TYPED
        child.send("/undo\r")
        child.expect_exact("Taken back")
        child.expect_exact("shop.py> ")
        assert project.shop.read_text() == SHOP
        child.send("/undo\r")
        child.expect_exact("no edit to take back")
        child.send("/help\r")
        child.expect_exact("take the last edit back")
        child.send("/unod\r")
        child.expect_exact("/unod is no command and no file here")
        child.send("\x1b\r")
        child.expect_exact("shop.py> ")
    assert project.gateway.engine.running() == 0


def test_pasted_lines_are_one_instruction(project: Project) -> None:
    project.play(answers(TYPED, when="(?s)change the whole file.*so that total is typed"))
    with project.terminal("shop.py") as child:
        child.expect_exact("shop.py> ")
        child.send(f"{EVERYWHERE}\rso that total is typed\r")
        child.expect_exact(ASKED)
        child.send("y\r")
        child.expect_exact("shop.py> ")
    assert project.shop.read_text() == TYPED
    assert "response.steer.accepted" not in project.gateway.witness.events


def test_escape_in_a_session_stops_the_edit_and_not_the_session(project: Project) -> None:
    project.play(slowly(BOTH))
    with project.terminal("shop.py") as child:
        child.expect_exact("shop.py> ")
        child.send(f"{EVERYWHERE}\r")
        child.expect_exact("def total(self) -> int:")
        child.send("\x1b")
        child.expect_exact("stopped")
        child.expect_exact("shop.py> ")
    assert project.shop.read_text() == SHOP


def test_a_session_goes_on_after_a_mistake(project: Project) -> None:
    (project.root / ".env").write_text("KEY=1\n")
    with project.terminal() as child:
        child.expect_exact("edit> ")
        child.send("make it better\r")
        child.expect_exact("Begin with the name of a file")
        child.send(".env make it better\r")
        child.expect_exact("is not read")
        child.expect_exact("edit> ")
        child.sendeof()
        assert ended(child) == 0


def test_an_engine_that_dies_is_said(project: Project) -> None:
    project.play(Reply(then=(Stall(3600),)))
    with project.terminal("shop.py", EVERYWHERE) as child:
        eventually(lambda: project.gateway.engine.running() == 1)
        project.gateway.engine.die("The engine is unwell.")
        child.expect_exact("The engine is unwell.")
        assert ended(child) == 5
    assert project.shop.read_text() == SHOP
