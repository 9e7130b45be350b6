"""``vivace.rename``: a name with its uses, without a model.

Done is what the scopes of the file prove, or what the language's own server does and nothing speaks
against; the rest is refused with the reason.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lsprotocol.types import Position

from vivace.desk.applying import Accepted
from vivace.desk.renaming import renamed_by_server
from vivace.desk.targets import Target
from vivace.edits.diff import between
from vivace.edits.renaming.renames import Doubt, Proven, asked, judged, names_to_look_for
from vivace.edits.renaming.scopes import names_in
from vivace.errors import VivaceError
from vivace.lsp.buffers import Buffers
from vivace.lsp.documents import Document
from vivace.lsp.extensions import EditEnded, RenameAsked
from vivace.lsp.files import File
from vivace.lsp.names import name_at
from vivace.lsp.person import AtEditor
from vivace.lsp.session import Session
from vivace.syntax.source import Source
from vivace.workspace.document import of_text
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.mentions import words_elsewhere

__all__ = ["Renames"]


@dataclass(frozen=True)
class _Task:
    document: Document
    file: File
    target: Target
    source: Source
    instruction: str

    @property
    def row(self) -> int:
        """Where what is renamed is declared."""
        assert self.target.selection is not None
        return self.target.selection[0]


class Renames:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def rename(self, given: RenameAsked, document: Document | None) -> EditEnded:
        """It is over when this returns, and the person knows what became of it."""
        try:
            ended = await self._renamed(self._understood(given, document))
        except VivaceError as error:
            ended = EditEnded(status="failed", message=str(error))
        if ended.message:
            self._session.editor.tell(ended.message, "warning")
        return ended

    def _understood(self, given: RenameAsked, document: Document | None) -> _Task:
        name = name_at(document, given.position) if document is not None else None
        if document is None or name is None:
            raise WorkspaceError("There is no name here that could be renamed.")
        instruction = f"rename `{name}` to `{given.new_name.strip()}`"
        if asked(instruction) is None:
            raise WorkspaceError(f"{given.new_name.strip() or 'Nothing'} is no name for it.")
        file = self._session.files.find(document.uri)
        typed = of_text(file.path, document.text)
        source = Source.of(document.path, typed.text)
        row = _declared(source, name, document, given.position)
        return _Task(document, file, Target(typed, (row, row + 1)), source, instruction)

    async def _renamed(self, task: _Task) -> EditEnded:
        names = names_to_look_for(task.source, task.instruction)
        elsewhere = await asyncio.to_thread(words_elsewhere, task.target.path, names)
        if elsewhere is not None:
            elsewhere |= self._in_other_buffers(task.document, names)
        found = judged(task.source, task.row, task.row + 1, task.instruction, elsewhere)
        if isinstance(found, Proven):
            hunks = tuple(between(task.target.text, found.text))
            return await self._written([Accepted(task.target, hunks)], task)
        person = AtEditor(self._session.editor, task.document, task.target, None)
        workspace, target = task.file.workspace, task.target
        made = await renamed_by_server(workspace, target, task.instruction, person)
        if not made:
            why = found.why if isinstance(found, Doubt) else "it is no name"
            return EditEnded(status="refused", message=f"Nothing was renamed: {why}.")
        offered = [
            Accepted(each.target, each.outcome.hunks, each.outcome.problems) for each in made
        ]
        accepted = await person.accepts(offered)
        if person.declined:
            return EditEnded(status="stopped")
        return await self._written(accepted, task)

    async def _written(self, edits: Sequence[Accepted], task: _Task) -> EditEnded:
        buffers = Buffers(self._session, task.document, task.target.path)
        await buffers.write(edits, task.instruction)
        return EditEnded(status="applied")

    def _in_other_buffers(self, document: Document, names: set[str]) -> set[str]:
        """What is typed there may not be on the disk yet."""
        texts = [each.text for each in self._session.documents if each is not document]
        return {name for name in names if any(_has(text, name) for text in texts)}


def _has(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", text) is not None


def _declared(source: Source, name: str, document: Document, position: Position) -> int:
    """The line in which what this place means is declared; where that is not known, its own."""
    offset = document.offset(position)
    line = document.line_of(offset)
    column = len(document.text[document.line_start(line) : offset].encode())
    if source.language is None:
        return line
    for site in names_in(source, name).sites:
        (row, start), end = site.node.start_point, site.node.end_point.column
        if row == line and start <= column <= end and site.binding is not None:
            return site.binding.declarations[0].start_point.row
    return line
