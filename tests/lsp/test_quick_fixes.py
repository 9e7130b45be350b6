"""What can be done about a mark: the rule's own fix, a model's that was checked, or a comment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import Buffer, Editor, scripted
from tests.lsp.marked import RULES, Marked, Page
from tests.support.editing import answers
from tests.support.server import RunningGateway

YAML = "import yaml\n\n\ndef read(text):\n    return yaml.load(text)\n"
EVAL = "def read(text):\n    return eval(text)\n"
INT = "def read(text):\n    return int(text)\n"


def titles(actions: list[dict[str, Any]]) -> list[str]:
    return [each["title"].partition(":")[0] for each in actions if each["kind"] == "quickfix"]


def fixes(page: Page) -> list[dict[str, Any]]:
    return page.actions("", page.marks[:1])


def test_the_rules_own_fix_clears_the_mark() -> None:
    with Marked() as desk:
        page = desk.open("a.py", YAML)
        fix, *others = fixes(page)
        assert fix["title"].startswith("Fix: yaml.load makes any object")
        assert fix["isPreferred"] is True
        assert fix["diagnostics"] == page.marks
        assert titles(others) == ["Fix by a model", "Ignore unsafe-yaml here"]
        page.apply(fix)
        assert page.text == YAML.replace("yaml.load", "yaml.safe_load")
        assert page.marks == []


def test_a_fix_that_makes_something_else_wrong_is_not_offered() -> None:
    with Marked() as desk:
        page = desk.open("a.py", "import hashlib\n\nx = hashlib.md5(data)\n")
        assert titles(fixes(page)) == ["Fix by a model", "Ignore weak-hash here"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_comment_asks_for_its_reason_and_then_suppresses(end: str) -> None:
    with Marked() as desk:
        page = desk.open("a.py", EVAL.replace("\n", end))
        *_, ignore = fixes(page)
        page.apply(ignore)
        comment = "    # vivace: ignore[code-injection] "
        assert page.text.split(end)[1] == comment
        desk.passes(1)
        codes = [code for code, _ in page.marked]
        assert codes == ["suppression-without-reason", "code-injection"]
        assert titles(fixes(page)) == ["Fix by a model"]
        page.type("the text is ours", behind="[code-injection] ")
        desk.passes(1)
        assert page.marks == []


def test_a_comment_goes_behind_the_line_where_none_can_stand_before_it() -> None:
    text = "x = `\n  ${eval(text)}\n`;\n"
    with Marked() as desk:
        page = desk.open("a.js", text, "javascript")
        for action in fixes(page):
            assert not action["title"].startswith("Ignore")
        other = desk.open("b.py", "x = (\n    1,\n    eval(text),\n)\n")
        *_, ignore = fixes(other)
        other.apply(ignore)
        assert other.text.split("\n")[2] == "    # vivace: ignore[code-injection] "


def test_what_was_typed_since_is_not_overwritten() -> None:
    with Marked() as desk:
        page = desk.open("a.py", YAML)
        marks = page.marks
        page.replace(0, 0, "# more\n")
        assert titles(page.actions("", marks)) == []


def test_marks_of_others_are_still_fixed_by_a_model() -> None:
    with Marked() as desk:
        page = desk.open("a.py", YAML)
        other = {**page.marks[0], "source": "other", "message": "unused"}
        assert [each["title"] for each in page.actions("", [other])] == ["Fix: unused"]


def test_no_model_is_offered_a_text_with_a_key() -> None:
    key = "AKIA" + "Z7QJ2M4N8P5R6S3T"
    with Marked() as desk:
        page = desk.open("a.py", f'{YAML}key = "{key}"\n')
        assert titles(fixes(page)) == ["Fix", "Ignore unsafe-yaml here"]


# -- by a model -----------------------------------------------------------------------------------


async def marked(editor: Editor, buffer: Buffer) -> list[lsp.Diagnostic]:
    told = editor.client.diagnostics
    await editor.until(lambda: told.get(buffer.uri))
    return list(told[buffer.uri])


async def fix_of(editor: Editor, buffer: Buffer) -> Any:
    await buffer.complete()  # it is known by then whether it may be read
    [mark] = await marked(editor, buffer)
    found = await editor.client.text_document_code_action_async(
        lsp.CodeActionParams(
            text_document=lsp.TextDocumentIdentifier(uri=buffer.uri),
            range=mark.range,
            context=lsp.CodeActionContext(diagnostics=[mark]),
        )
    )
    return next(each for each in found or () if each.title.startswith("Fix by a model"))


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [(INT, "applied", INT), (EVAL.replace("eval", "exec"), "refused", EVAL)],
    ids=["it fixes it", "it does not"],
)
def test_what_a_model_makes_is_applied_only_if_it_fixes_it(
    gateway: RunningGateway, tmp_path: Path, answer: str, status: str, text: str
) -> None:
    gateway.engine.play([answers(answer, when="no longer true")])

    async def session() -> None:
        process = status == "applied"
        async with scripted(tmp_path, rules=RULES, url=gateway.url, process=process) as (editor, _):
            buffer = editor.open(tmp_path / "a.py", EVAL)
            fix = await fix_of(editor, buffer)
            ended = await editor.command(fix.command.command, fix.command.arguments[0])
            assert ended["status"] == status
            assert buffer.text == text
            if status == "applied":
                await editor.until(lambda: not editor.client.diagnostics.get(buffer.uri))
            else:
                assert "does not fix code-injection" in ended["message"]

    asyncio.run(session())
