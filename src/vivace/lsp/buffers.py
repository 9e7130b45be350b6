"""Edits that go into the editor's buffers, where the person types on meanwhile.

All files of an edit are one ``workspace/applyEdit`` with a name, so that one undo takes it back. It
is made for a version of the text: an editor that has a newer one refuses it, or says that it made
it and did not. So what is believed is the text that comes back, and where the edit is not in it, it
is carried over to what was typed and sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lsprotocol.types import (
    OptionalVersionedTextDocumentIdentifier,
    TextDocumentEdit,
    TextEdit,
    WorkspaceEdit,
)

from vivace.desk.applying import Accepted, EditConflict, Written, shown, standing
from vivace.edits.checks import breaks
from vivace.edits.diff import between
from vivace.edits.rebase import Rebased, rebase
from vivace.errors import EditError
from vivace.lsp.documents import Document
from vivace.lsp.session import Session
from vivace.lsp.text_edits import text_edits
from vivace.syntax.hunk import apply
from vivace.syntax.source import Source
from vivace.workspace.document import of_text, read
from vivace.workspace.paths import SafePath

__all__ = ["Buffers"]

_TRIES = 8
_PATIENCE_S = 0.6
"""How long an editor may take to send what it has changed; Neovim waits 0.15 s."""
_STEP_S = 0.02
_REST = "Apply the rest"
_ALL = "Apply it"
_LEAVE = "Leave it"


@dataclass(frozen=True)
class _Prepared:
    """An edit of one file as it has to be for its text now."""

    document: Document
    opened: bool
    """Whether the editor has it open; else it is on disk, where nobody types."""
    version: int
    before: str
    after: str
    written: Written

    @property
    def edit(self) -> TextDocumentEdit:
        return TextDocumentEdit(
            text_document=OptionalVersionedTextDocumentIdentifier(
                uri=self.document.uri, version=self.version if self.opened else None
            ),
            edits=text_edits(self.document, between(self.before, self.after)),
        )

    @property
    def is_current(self) -> bool:
        return not self.opened or self.document.version == self.version

    @property
    def is_made(self) -> bool:
        """Whether the text is nearer to what it was to become than to what it was."""
        if self.is_current:
            return not self.opened
        now = self.document.text
        return now == self.after or _distance(self.after, now) < _distance(self.before, now)


class Buffers:
    def __init__(self, session: Session, edited: Document, path: SafePath) -> None:
        """``edited`` is the document that the edit is of, at this path: cells of a notebook have
        one path among them."""
        self._session = session
        self._edited = edited
        self._path = path
        self._asked = False
        """Whether the person has said that they want it as it is now."""

    async def write(self, edits: Sequence[Accepted], title: str) -> list[Written]:
        edits = [edit for edit in edits if edit.hunks]
        for _ in range(_TRIES):
            prepared = [await self._prepared(edit) for edit in edits]
            if not all(each.is_current for each in prepared):
                continue  # they typed while they were asked
            needed = [each for each in prepared if each.before != each.after]
            if not needed or await self._applied(needed, title):
                return [each.written for each in prepared]
        raise EditConflict(
            "Nothing was changed: the editor did not take the edit. Ask for it again."
        )

    async def _applied(self, prepared: Sequence[_Prepared], title: str) -> bool:
        """Whether it is in the text; if not, there is another text to carry it over to."""
        said = await self._session.editor.apply(self._workspace_edit(prepared), title)
        opened = [each for each in prepared if each.opened]
        if said and await _soon(lambda: all(each.is_made for each in opened)):
            return True
        if await _soon(lambda: not all(each.is_current for each in opened)):
            return False
        raise EditError("The editor did not make the edit. Is the file read-only?")

    def _workspace_edit(self, prepared: Sequence[_Prepared]) -> WorkspaceEdit:
        edits = [each.edit for each in prepared]
        if self._session.editor.client.versioned_edits:
            return WorkspaceEdit(document_changes=edits)
        changes = {each.text_document.uri: _plain(each) for each in edits}
        return WorkspaceEdit(changes=changes)

    async def _prepared(self, edit: Accepted) -> _Prepared:
        path, base = edit.target.path, edit.target.text
        document = self._edited if path == self._path else self._session.opened(path)
        opened = document is not None
        if document is None:
            text = read(path).data.decode()
            encoding = self._session.documents.encoding
            document = Document(path.absolute.as_uri(), str(path), 0, text, encoding)
        version, before = document.version, document.text
        now = of_text(path, before)
        rebased = rebase(edit.hunks, base, now.text)
        text = apply(now.text, rebased.hunks)
        if rebased.conflicts:
            await self._ask_about_conflicts(rebased, len(edit.hunks))
        elif now.text != base:
            await self._ask_about_syntax(str(path), now.text, text)
        return _Prepared(
            document=document,
            opened=opened,
            version=version,
            before=before,
            after=now.encode(text).decode(),
            written=_written(edit, rebased, carried=now.text != base),
        )

    # -- what the person has to decide ------------------------------------------------------------

    async def _ask_about_conflicts(self, rebased: Rebased, count: int) -> None:
        collided = len(rebased.conflicts)
        handed_back = shown(rebased.conflicts, "as you typed it")
        if not rebased.hunks:
            raise EditConflict(
                f"Nothing was changed: you typed in the same lines meanwhile.\n{handed_back}"
            )
        question = (
            f"You typed in the same lines meanwhile, so {collided} of {count} changes "
            f"{'does' if collided == 1 else 'do'} not fit any more."
        )
        if not self._asked and await self._session.editor.ask(question, [_REST, _LEAVE]) != _REST:
            raise EditConflict(f"Nothing was changed.\n{handed_back}")
        self._asked = True

    async def _ask_about_syntax(self, path: str, now: str, text: str) -> None:
        line = breaks(Source.of(path, now), Source.of(path, text))
        if line is None or self._asked:
            return
        question = (
            f"With what you typed meanwhile, the edit would break the syntax near line {line + 1}."
        )
        if await self._session.editor.ask(question, [_ALL, _LEAVE]) != _ALL:
            raise EditConflict("Nothing was changed.")
        self._asked = True


async def _soon(happens: Callable[[], bool]) -> bool:
    """Whether it is so before an editor should long have sent what it has changed."""
    for _ in range(int(_PATIENCE_S / _STEP_S)):
        if happens():
            return True
        await asyncio.sleep(_STEP_S)
    return happens()


def _plain(edit: TextDocumentEdit) -> list[TextEdit]:
    return [each for each in edit.edits if isinstance(each, TextEdit)]


def _distance(one: str, other: str) -> int:
    """How many lines make the difference."""
    return sum(len(hunk.old) + len(hunk.new) for hunk in between(one, other))


def _written(edit: Accepted, rebased: Rebased, *, carried: bool) -> Written:
    return Written(
        str(edit.target.path),
        sum(len(hunk.new) for hunk in rebased.hunks),
        sum(len(hunk.old) for hunk in rebased.hunks),
        rebased=carried,
        lines=tuple(standing(rebased.hunks)),
    )
