"""``textDocument/codeAction``: fixes of what any server complains of, ours among them, and edits by
instruction.

Editors ask by themselves when the cursor moves, which LSP does not tell in any other way: so this
is also where one hears that somebody may type elsewhere soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lsprotocol.types import (
    CodeAction,
    CodeActionKind,
    CodeActionParams,
    CodeActionTriggerKind,
    Command,
    Diagnostic,
    Position,
    Range,
)

from vivace.lsp.documents import Document
from vivace.lsp.extensions import EDIT, RENAME, EditAsked, RenameAsked, as_json
from vivace.lsp.names import name_at
from vivace.lsp.quick_fixes import QuickFixes, is_ours
from vivace.lsp.session import Session

__all__ = ["KINDS", "CodeActions"]

_RENAME = "refactor.rename"
KINDS = (CodeActionKind.QuickFix, CodeActionKind.RefactorRewrite, _RENAME)
_TITLE = 60
_LONGEST = 2_000
_MOST = 5
"""Diagnostics that are offered to be fixed."""


class CodeActions:
    def __init__(
        self, session: Session, fixes: QuickFixes, moved: Callable[[Document, int], None]
    ) -> None:
        """``moved`` is told where the cursor is, in a document that may be read."""
        self._session = session
        self._fixes = fixes
        self._moved = moved

    async def answer(self, params: CodeActionParams) -> Sequence[CodeAction | Command] | None:
        document = self._session.documents.get(params.text_document.uri)
        if document is None:
            return None
        readable = self._session.files.known_to_be_readable(document)
        by_itself = params.context.trigger_kind != CodeActionTriggerKind.Invoked
        if readable and by_itself and params.range.start == params.range.end:
            self._moved(document, document.offset(params.range.start))
        marks = params.context.diagnostics
        if not readable and any(map(is_ours, marks)):  # it is so soon after a paste
            readable = await self._session.files.why_not(document) is None
        offered = await self._fixes.offered(document, marks, by_model=readable)
        if readable:
            offered += self._offered(document, params)
        found = [each for each in offered if _wanted(each, params.context.only)]
        if self._session.editor.client.code_actions:
            return found
        return [each.command for each in found if each.command is not None]

    def _offered(self, document: Document, params: CodeActionParams) -> Iterator[CodeAction]:
        uri = params.text_document.uri
        theirs = [each for each in params.context.diagnostics if not is_ours(each)]
        for each in theirs[:_MOST]:
            yield CodeAction(
                title=f"Fix: {_short(each)}",
                kind=CodeActionKind.QuickFix,
                diagnostics=[each],
                command=_edit(f"Fix: {_short(each)}", uri, each.range, f"Fix this: {_words(each)}"),
            )
        known = self._session.editor.client.known
        name = name_at(document, params.range.start) if known.rename else None
        if name is not None:
            yield CodeAction(
                title=f"Rename {name} with its uses…",
                kind=_RENAME,
                command=_rename(f"Rename {name} with its uses…", uri, params.range.start),
            )
        if known.instruction:  # else nobody would ask for it
            yield CodeAction(
                title="Edit…",
                kind=CodeActionKind.RefactorRewrite,
                command=_edit("Edit…", uri, params.range),
            )


def _edit(title: str, uri: str, place: Range, instruction: str | None = None) -> Command:
    asked = as_json(EditAsked(uri=uri, instruction=instruction or "", range=place))
    if instruction is None:
        del asked["instruction"]
    return Command(title=title, command=EDIT, arguments=[asked])


def _rename(title: str, uri: str, position: Position) -> Command:
    asked = as_json(RenameAsked(uri=uri, position=position, new_name=""))
    del asked["newName"]  # which the editor asks for
    return Command(title=title, command=RENAME, arguments=[asked])


def _words(diagnostic: Diagnostic) -> str:
    """Some servers quote whole types; what is wrong comes first."""
    words = diagnostic.message
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


def _short(diagnostic: Diagnostic) -> str:
    line = diagnostic.message.partition("\n")[0]
    return line if len(line) <= _TITLE else f"{line[:_TITLE]}…"


def _wanted(action: CodeAction, only: Sequence[CodeActionKind | str] | None) -> bool:
    """A kind stands for all that begin with it."""
    kind = str(getattr(action.kind, "value", action.kind))
    wanted = [str(getattr(each, "value", each)) for each in only or ()]
    return not wanted or any(kind == each or kind.startswith(f"{each}.") for each in wanted)
