"""What is wrong with code is marked as it is typed, and not while a line is half written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import scripted
from tests.lsp.marked import RULES, Marked
from vivace.findings.changed import Scanner
from vivace.lsp import diagnostics
from vivace.lsp.positions import Encoding

EVAL = ("code-injection", "eval(text)")


# -- what is marked -------------------------------------------------------------------------------


def test_what_is_there_is_marked_when_it_is_opened() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "x = 1\ny = eval(text)\n")
        [mark] = page.marks
        assert page.under(mark) == "eval(text)"
        assert mark["code"] == "code-injection"
        assert mark["source"] == "vivace"
        assert mark["severity"] == lsp.DiagnosticSeverity.Error
        assert "An attacker who chooses the text runs code here." in mark["message"]
        assert mark["message"].endswith("(CWE-95)")
        assert mark["codeDescription"]["href"] == "https://cwe.mitre.org/data/definitions/95.html"
        assert page.said[-1]["version"] == 1


def test_a_line_is_marked_when_it_is_left() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "x = 1\n")
        page.type("y = eval(text)")
        assert page.marked == []
        page.type("\n")
        assert page.marked == [EVAL]
        assert page.said[-1]["version"] == page.document.version


def test_a_line_is_marked_when_nobody_types_any_more() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "x = 1\n")
        page.type("y = eval(text)")
        desk.passes(0.5)
        assert page.marked == []
        desk.passes(0.5)
        assert page.marked == [EVAL]


def test_a_line_is_marked_when_the_cursor_leaves_it() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "x = 1\n")
        page.type("y = eval(text)")
        page.go("y = ")
        assert page.marked == []
        page.go("x = ")
        assert page.marked == [EVAL]


def test_a_line_is_marked_when_the_editor_says_that_the_cursor_rests_elsewhere() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "x = 1\n")
        page.type("y = eval(text)")
        argument = {"uri": page.uri, "position": {"line": 0, "character": 0}}
        desk.ask("workspace/executeCommand", {"command": "vivace.cursor", "arguments": [argument]})
        assert page.marked == [EVAL]


def test_a_line_is_marked_when_it_is_saved() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "x = 1\n")
        page.type("y = eval(text)")
        page.save()
        assert page.marked == [EVAL]


def test_what_is_certain_is_marked_at_its_last_key() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "import yaml\n")
        page.type("x = yaml.load(text")
        assert page.marked == []
        page.type(")")
        assert page.marked == [("unsafe-yaml", "yaml.load(text)")]


def test_half_a_line_is_left_alone() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "def f(text):\n    pass\n")
        page.type("\n    value = eval(text) if", behind="def f(text):")
        assert page.said == []
        page.type(" False else None")
        page.replace(0, len(page.text), "")
        desk.passes(5)
        assert page.marks == []


def test_a_mark_stays_while_its_own_line_is_edited() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "y = eval(text)\n")
        for key in "  # why":
            page.type(key, behind=page.text.rstrip("\n"))
            assert page.marked == [EVAL]


def test_marks_elsewhere_do_not_flicker_while_a_bracket_is_open() -> None:
    text = "x = 1\n\n\ndef f(text):\n    return eval(text)\n"
    with Marked() as desk:
        page = desk.open("a.py", text)
        page.type("\nz = max([{(", behind="x = 1")
        assert page.marked == [EVAL]
        page.type("1, 2)}])", behind="max([{(")
        assert page.marked == [EVAL]
        counts = {len(each["diagnostics"]) for each in page.said}
        assert counts == {1}


def test_marks_move_with_their_lines() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "x = 1\ny = eval(text)\n")
        page.put("import os\n\n", behind="x = 1\n")
        assert page.marked == [EVAL]
        assert page.marks[0]["range"]["start"]["line"] == 3


def test_what_is_mended_is_not_marked_any_more() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "y = eval(text)\n")
        page.put("int(text)", old="eval(text)")
        assert page.marks == []


def test_undo_and_redo() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "y = eval(text)\nz = 2\n")
        page.put("", old="y = eval(text)\n")
        assert page.marks == []
        page.put("y = eval(text)\n", behind="")
        desk.passes(1)
        assert page.marked == [EVAL]
        page.put("", old="y = eval(text)\n")
        assert page.marks == []


def test_a_mark_that_was_cut_and_put_back_at_once_is_told_again() -> None:
    """The editor has lost it with the text."""
    with Marked() as desk:
        page = desk.open("a.py", "y = eval(text)\n")
        before = len(page.said)
        page.put("eval( text)", old="eval(text)")
        page.put("eval(text)", old="eval( text)")
        assert page.marked == [EVAL]
        assert len(page.said) > before


# -- columns and lines ----------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_columns_are_counted_as_the_editor_does(encoding: Encoding) -> None:
    with Marked(encoding=encoding) as desk:
        page = desk.open("a.py", 'x = "😀é", eval("👨‍👩‍👧" + text), exec(text)\n')
        assert [page.under(each) for each in page.marks] == ['eval("👨‍👩‍👧" + text)', "exec(text)"]
        page.type("\ny = '😀', eval(text)\n", behind="exec(text)")
        assert page.marked[-1] == EVAL


def test_lines_end_as_they_end() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "x = 1\r\ny = eval(text)\r\n")
        assert page.marked == [EVAL]
        page.put("z = 2\r\n", behind="x = 1\r\n")
        assert page.marked == [EVAL]
        old = desk.open("old.py", "x = 1\ry = 2\r", "python")
        assert old.marks == []


def test_editors_that_send_the_whole_text_are_understood() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "x = 1\n\n\nz = 3\n")
        page.become("x = 1\ny = eval(text)\n\nz = 3\n")
        assert page.marked == []
        page.become("x = 1\ny = eval(text)\n\nz = 30\n")
        assert page.marked == [EVAL]


# -- suppressions and settings --------------------------------------------------------------------


def test_a_comment_with_a_reason_suppresses_it_and_one_without_is_marked() -> None:
    line = "y = eval(text)"
    with Marked() as desk:
        page = desk.open("a.py", f"{line}  # vivace: ignore[code-injection] text is a constant\n")
        assert page.marks == []
        page.put("", old=" text is a constant")
        desk.passes(1)
        assert sorted(code for code, _ in page.marked) == [
            "code-injection",
            "suppression-without-reason",
        ]


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        ({}, ["code-injection", "nan-comparison"]),
        ({"bugs": False}, ["code-injection"]),
        ({"enabled": False}, []),
    ],
)
def test_what_is_marked_can_be_set(settings: dict[str, Any], codes: list[str]) -> None:
    text = "y = eval(text)\nz = y == nan\n"
    with Marked(findings=settings) as desk:
        assert [code for code, _ in desk.open("a.py", text).marked] == codes
    with Marked() as desk:
        page = desk.open("a.py", text)
        desk.tell("workspace/didChangeConfiguration", {"settings": {"findings": settings}})
        desk.passes(0.01)
        assert [code for code, _ in page.marked] == codes


# -- documents ------------------------------------------------------------------------------------


def test_two_documents_have_marks_of_their_own() -> None:
    with Marked() as desk:
        one, other = desk.open("a.py", "eval(text)\n"), desk.open("b.js", "x\n", "javascript")
        assert (one.marked, other.marked) == ([EVAL], [])
        other.type("eval(text)\n")
        one.put("", old="eval(text)")
        assert (one.marked, other.marked) == ([], [EVAL])


def test_a_document_that_is_closed_has_no_marks() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "eval(text)\n")
        page.close()
        assert page.marks == []
        assert desk.open("a.py", "eval(text)\n").marked == [EVAL]


def test_nothing_comes_after_a_document_is_closed() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "x = 1\n")
        page.type("eval(text)")
        page.close()
        desk.passes(10)
        assert page.marks == []


def test_a_new_file_and_a_cell_are_looked_at_too() -> None:
    with Marked() as desk:
        assert desk.open("untitled:Untitled-1", "eval(text)\n").marked == [EVAL]


def test_a_file_of_secrets_and_one_that_git_ignores_are_not_looked_at() -> None:
    with Marked() as desk:
        (desk.folder / ".gitignore").write_text("made.py\n")
        assert desk.open("made.py", "eval(text)\n").said == []
        assert desk.open("id_rsa.py", "eval(text)\n").said == []


def test_a_text_with_a_key_in_it_is_looked_at_here() -> None:
    """No model reads it; but this is where such keys are looked for."""
    key = "AKIA" + "Z7QJ2M4N8P5R6S3T"
    with Marked() as desk:
        assert desk.open("a.py", f'key = "{key}"\neval(text)\n').marked == [EVAL]


def test_a_language_without_rules_is_left_alone() -> None:
    with Marked() as desk:
        assert desk.open("a.go", "package a\n", "go").said == []
        assert desk.open("a.txt", "eval(text)\n", "plaintext").said == []


# -- what takes long ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    ["x = '" + "a" * 6_000 + "'\n", "x = 1\n" * 200_000, "(" * 400 + "\n"],
    ids=["a long line", "a long text", "deep brackets"],
)
def test_what_nobody_writes_is_not_looked_at(more: str) -> None:
    with Marked() as desk:
        page = desk.open("a.py", "eval(text)\n" + more)
        assert page.said == []
        page.put("", old=more)
        desk.passes(2)
        assert page.marked == [EVAL]
        page.put(more, behind="eval(text)\n")
        desk.passes(2)
        assert page.marks == []


def test_where_a_look_takes_long_the_next_one_waits_for_a_pause() -> None:
    looked = []

    def edited(scanner: Scanner, source: Any, hunks: Any) -> Any:
        looked.append(source.text)
        return scanner.open(source)

    with mock.patch.object(Scanner, "edited", edited), Marked() as desk:
        page = desk.open("a.py", "")
        with mock.patch.object(diagnostics, "_BUDGET_S", -1.0):
            page.type("x = 12345\n")
            assert looked == ["x"]
            desk.passes(0.3)
            assert looked == ["x", "x = 12345\n"]
            page.type("eval(text)\n")
            assert page.marked == []
            desk.passes(1)
            assert page.marked == [EVAL]


def test_what_cannot_be_looked_at_is_not_marked_any_more() -> None:
    def edited(scanner: Scanner, source: Any, hunks: Any) -> Any:
        raise ValueError

    desk = Marked()
    page = desk.open("a.py", "eval(text)\n")
    with mock.patch.object(Scanner, "edited", edited):
        page.type("x")
        assert page.marks == []
    page.type("y")
    assert page.marks == []
    assert len(desk.desk.errors) == 1
    desk.desk.errors.clear()
    desk.__exit__(None, None, None)


def test_a_document_with_very_many_findings_says_so() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "eval(text)\n" * 300)
        assert len(page.marks) == 201
        assert "of 300 findings" in page.marks[-1]["message"]


# -- a real process -------------------------------------------------------------------------------


def test_a_vulnerable_line_is_marked_by_a_real_process(tmp_path: Path) -> None:
    async def session() -> None:
        async with scripted(tmp_path, rules=RULES, process=True) as (editor, _):
            marked = editor.client.diagnostics
            buffer = editor.open(tmp_path / "a.py", "import yaml\n" + "x = 1\n" * 500)
            await buffer.complete()
            assert not marked.get(buffer.uri)
            buffer.type("y = eval(text)\n")
            await editor.until(lambda: marked.get(buffer.uri))
            [mark] = marked[buffer.uri]
            assert mark.code == "code-injection"
            assert mark.source == "vivace"
            buffer.close()
            await editor.until(lambda: not marked.get(buffer.uri))

    asyncio.run(session())
