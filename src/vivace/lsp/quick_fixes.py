"""Quick fixes of what we mark ourselves: the rule's own rewrite if it holds, a model's, or a
comment that says why it is right as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from lsprotocol.types import (
    CodeAction,
    CodeActionKind,
    Command,
    Diagnostic,
    OptionalVersionedTextDocumentIdentifier,
    TextDocumentEdit,
    WorkspaceEdit,
)

from vivace.lsp.diagnostics import Diagnostics
from vivace.lsp.documents import Document
from vivace.lsp.extensions import EDIT, EditAsked, as_json
from vivace.lsp.marks import SOURCE, place_of
from vivace.lsp.rules import Rules
from vivace.lsp.session import Session
from vivace.lsp.text_edits import text_edits
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk, replacing
from vivace.syntax.lines import line_end
from vivace.syntax.source import Source

if TYPE_CHECKING:
    from vivace.findings.rule_set import RuleSet

__all__ = ["QuickFixes", "is_ours"]

_TITLE = 60
_MOST = 5
"""Findings in one place that are offered to be fixed."""
_NO_REASON = "suppression-without-reason"
"""What a comment without a reason is called, which no other comment excuses."""


class QuickFixes:
    def __init__(self, session: Session, diagnostics: Diagnostics, rules: Rules) -> None:
        self._session = session
        self._diagnostics = diagnostics
        self._rules = rules

    async def offered(
        self, document: Document, marks: Sequence[Diagnostic], *, by_model: bool
    ) -> list[CodeAction]:
        """For those of our marks that still stand; ``by_model`` if one may read the document."""
        found = list(self._found(document, [each for each in marks if is_ours(each)]))[:_MOST]
        if not found:
            return []
        rules, source, version = await self._rules.of(document), document.source, document.version
        actions: list[CodeAction] = []
        for mark, finding in found:
            own, comment = await asyncio.to_thread(_possible, source, finding, rules)
            if own:
                actions.append(self._edit(document, version, mark, f"Fix: {_short(mark)}", own))
                actions[-1].is_preferred = True
            if by_model:
                actions.append(_asking(document, mark, finding))
            if comment:
                title = f"Ignore {finding.code} here: write why behind it"
                actions.append(self._edit(document, version, mark, title, comment))
        if document.version != version:
            return []  # whoever typed meanwhile has been asked anew
        return actions

    def _found(
        self, document: Document, marks: Sequence[Diagnostic]
    ) -> Iterator[tuple[Diagnostic, Finding]]:
        for mark in marks:
            for finding in self._diagnostics.shown_in(document):
                if finding.code == mark.code and place_of(document, finding) == mark.range:
                    yield mark, finding
                    break

    def _edit(
        self,
        document: Document,
        version: int,
        mark: Diagnostic,
        title: str,
        hunks: Sequence[Hunk],
    ) -> CodeAction:
        edits = text_edits(document, hunks)
        if self._session.editor.client.versioned_edits:
            named = OptionalVersionedTextDocumentIdentifier(uri=document.uri, version=version)
            change = WorkspaceEdit(document_changes=[TextDocumentEdit(named, list(edits))])
        else:
            change = WorkspaceEdit(changes={document.uri: edits})
        return CodeAction(
            title=title, kind=CodeActionKind.QuickFix, diagnostics=[mark], edit=change
        )


def is_ours(mark: Diagnostic) -> bool:
    return mark.source == SOURCE


def _asking(document: Document, mark: Diagnostic, finding: Finding) -> CodeAction:
    title = f"Fix by a model: {_short(mark)}"
    asked = EditAsked(
        uri=document.uri, instruction=finding.model, range=mark.range, finding=finding.code
    )
    return CodeAction(
        title=title,
        kind=CodeActionKind.QuickFix,
        diagnostics=[mark],
        command=Command(title=title, command=EDIT, arguments=[as_json(asked)]),
    )


def _possible(
    source: Source, finding: Finding, rules: RuleSet
) -> tuple[Sequence[Hunk], Sequence[Hunk]]:
    """The rule's own fix, if it may be shown, and the comment, if one can stand there."""
    own = finding.fix
    if own and import_module("vivace.findings.fixes").why_not(source, own, finding, rules):
        own = ()
    return own, _comment(source, finding)


def _comment(source: Source, finding: Finding) -> Sequence[Hunk]:
    """On the line before, or behind the line where that one is a part of something else."""
    if finding.code == _NO_REASON or finding.lines is None or source.language is None:
        return ()
    at, lines = finding.lines[0], source.lines
    words = f"{source.language.comment} vivace: ignore[{finding.code}] "
    line = lines[at]
    text, end = line.rstrip("\r\n"), line_end(lines)
    margin = text[: len(text) - len(text.lstrip())]
    for hunk, row in (
        (Hunk(at, (), (margin + words + end,)), at),
        (replacing(lines, at, at + 1, [f"{text}  {words}{end}"]), at),
    ):
        column = hunk.new[0].index(words)
        if _is_comment(source.edited([hunk]), row, len(hunk.new[0][:column].encode())):
            return (hunk,)
    return ()


def _is_comment(source: Source, row: int, column: int) -> bool:
    node = source.tree.root_node.descendant_for_point_range((row, column), (row, column + 1))
    return node is not None and "comment" in node.type


def _short(mark: Diagnostic) -> str:
    line = mark.message.partition("\n")[0]
    return line if len(line) <= _TITLE else f"{line[:_TITLE]}…"
