"""Which rules a document is looked at by."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from vivace.findings.rule_set import RuleSet
from vivace.lsp.documents import Document
from vivace.lsp.files import Files
from vivace.lsp.rules import Rules
from vivace.lsp.session import Session
from vivace.lsp.settings import Findings, Settings

OWN = "id: no-print\nlanguage: python\nmessage: It prints.\nrule: {pattern: print($X)}\n"


def desk(folder: Path, **settings: Any) -> tuple[Rules, Document, Mock]:
    editor = Mock()
    files = Files(folder / "untitled", [folder])
    session = Session(editor, files, settings=Settings(findings=Findings(**settings)))
    path = folder / "a.py"
    return Rules(session), Document(path.as_uri(), str(path), 1, "", "utf-16"), editor


def ids(rules: RuleSet) -> set[str]:
    return {each.id for each in rules.for_language("python")}


def test_ours_and_the_projects_own(tmp_path: Path) -> None:
    (tmp_path / "vivace-rules").mkdir()
    (tmp_path / "vivace-rules/own.yml").write_text(OWN)
    rules, document, editor = desk(tmp_path)

    found = ids(asyncio.run(rules.of(document)))

    assert "no-print" in found
    assert len(found) > 5
    assert editor.tell.call_args_list == []


def test_bugs_can_be_left_out(tmp_path: Path) -> None:
    rules, document, _ = desk(tmp_path, bugs=False)

    found = asyncio.run(rules.of(document))

    assert {each.kind for each in found.for_language("python")} == {"security"}


def test_a_file_of_rules_that_cannot_be_read_is_told_once_and_ours_are_taken(
    tmp_path: Path,
) -> None:
    (tmp_path / "vivace-rules").mkdir()
    (tmp_path / "vivace-rules/own.yml").write_text("id: [")
    rules, document, editor = desk(tmp_path)

    found = [ids(asyncio.run(rules.of(document))) for _ in range(2)]

    assert len(found[0]) > 5
    [told] = editor.tell.call_args_list
    assert "own.yml" in told.args[0]
