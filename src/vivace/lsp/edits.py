"""Edits by instruction: from the command to one step in the editor's own undo."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from lsprotocol.types import Range

from vivace.client.errors import ClientError
from vivace.desk.edit import Result
from vivace.desk.edit import Settings as DeskSettings
from vivace.desk.fixing import Fixing, finding_at
from vivace.desk.opening import Models, open_desk
from vivace.desk.targets import Target
from vivace.edits.placing.region import Selection
from vivace.errors import VivaceError
from vivace.lsp.address import Address
from vivace.lsp.buffers import Buffers
from vivace.lsp.documents import Document
from vivace.lsp.editor import Progress
from vivace.lsp.extensions import EditAsked, EditEnded, EditProgress, Status
from vivace.lsp.files import File
from vivace.lsp.pending import Pending
from vivace.lsp.person import AtEditor
from vivace.lsp.rules import Rules
from vivace.lsp.session import Session
from vivace.syntax.languages import language_of
from vivace.workspace.document import Document as FileText
from vivace.workspace.document import of_text
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.ignore import why_not_read
from vivace.workspace.paths import SafePath

__all__ = ["Edits"]

_TITLE = 60
_LONGEST_INSTRUCTION = 10_000
"""Characters; to look for places that are meant takes long in more, and nobody types so much."""


@dataclass(frozen=True)
class _Task:
    document: Document
    file: File
    target: Target
    instruction: str
    fixing: Fixing | None
    """What it must have fixed, if it is about a finding."""


class Edits:
    def __init__(self, session: Session, rules: Rules, address: Address, state: Path) -> None:
        self._session = session
        self._rules = rules
        self._address = address
        self._state = state
        self._pending: Pending[AtEditor] = Pending()
        self._tokens: dict[str, str] = {}
        """Whose progress is shown: the documents by their tokens."""

    async def edit(self, asked: EditAsked, document: Document | None, text: str) -> EditEnded:
        """It is over when this returns, and the person knows what became of it. ``text`` is the
        document's as it was when they asked."""
        try:
            ended = await self._alone(asked, document, text)
        except VivaceError as error:
            ended = EditEnded(status="failed", message=str(error))
            if isinstance(error, ClientError) and error.code == "no_server":
                self._session.editor.show_status(Status(state="unreachable", why=str(error)))
        if ended.message:
            failed = ended.status == "failed"
            self._session.editor.tell(ended.message, "error" if failed else "warning")
        return ended

    def redirect(self, uri: str, instruction: str) -> None:
        person = self._pending.get(uri)
        said = instruction[:_LONGEST_INSTRUCTION]
        if person is None or not person.redirect(said):
            self._session.editor.tell("No answer is being written that could be redirected.")

    def stop(self, uri: str) -> None:
        self._pending.stop(uri)

    def stop_shown(self, token: str) -> None:
        """The edit whose progress is shown by this token."""
        if token in self._tokens:
            self.stop(self._tokens[token])

    # -- what is asked ----------------------------------------------------------------------------

    async def _alone(self, asked: EditAsked, document: Document | None, text: str) -> EditEnded:
        """It is under way from here on: a second one is refused, and it can be stopped."""
        uri = asked.uri
        if uri in self._pending:
            raise WorkspaceError("An edit of this file is under way. Redirect it, or stop it.")
        ended = await self._pending.run(uri, self._made(asked, document, text))
        return ended or EditEnded(status="stopped")

    async def _understood(self, asked: EditAsked, document: Document | None, text: str) -> _Task:
        if document is None:
            raise WorkspaceError("Only a file that is open in the editor is edited. Open it first.")
        if not asked.instruction.strip():
            raise WorkspaceError("What is to be changed? The edit has no instruction.")
        if len(asked.instruction) > _LONGEST_INSTRUCTION:
            raise WorkspaceError(
                f"The instruction has {len(asked.instruction):,} characters, and no more than "
                f"{_LONGEST_INSTRUCTION:,} are taken. Say it in fewer words."
            )
        file, typed = await asyncio.to_thread(self._readable, document, text)
        target = Target(typed, _selection(asked.range))
        fixing = await self._fixing(asked.finding, document, target) if asked.finding else None
        return _Task(document, file, target, asked.instruction, fixing)

    async def _fixing(self, code: str, document: Document, target: Target) -> Fixing:
        """What is found there by this rule."""
        rules = await self._rules.of(document)
        found = await asyncio.to_thread(finding_at, target, code, rules)
        if found is None:
            raise WorkspaceError(f"What {code} has marked is not there any more: nothing to fix.")
        return Fixing(found, rules)

    def _readable(self, document: Document, text: str) -> tuple[File, FileText]:
        """Refuses what no model may see, before anything is sent."""
        file = self._session.files.find(document.uri)
        typed = of_text(_named(file.path, document), text)
        if (why := why_not_read(file.path, typed.data)) is not None:
            raise WorkspaceError(f"{why} So no model can edit it.")
        return file, typed

    # -- how it is made ---------------------------------------------------------------------------

    async def _made(self, asked: EditAsked, document: Document | None, text: str) -> EditEnded:
        task = await self._understood(asked, document, text)
        editor, uri = self._session.editor, task.document.uri
        title = task.instruction.strip().partition("\n")[0][:_TITLE]
        progress = await editor.begin_progress(f"Vivace: {title}")
        person = AtEditor(editor, task.document, task.target, progress)
        self._pending.taken_up(uri, person)
        if progress is not None:
            self._tokens[progress.token] = uri
        ended = EditEnded(status="stopped")
        try:
            ended = _ended(await self._run(task, person), person)
        finally:
            editor.show_edit(EditProgress(uri=uri, version=task.document.version, done=True))
            self._end(progress, ended)
        return ended

    def _end(self, progress: Progress | None, ended: EditEnded) -> None:
        if progress is not None:
            del self._tokens[progress.token]
            progress.end(ended.status)

    async def _run(self, task: _Task, person: AtEditor) -> Result:
        session, address = self._session, self._address
        settings = DeskSettings(url=address.url, key=address.key)
        models = Models(session.settings.model or None, session.settings.deep_model or None)
        buffers = Buffers(session, task.document, task.target.path)
        workspace = task.file.workspace
        async with open_desk(workspace, person, settings, models, self._state, buffers) as editing:
            editing.asker.fixing = task.fixing
            return await editing.run([task.target], task.instruction)


def _named(path: SafePath, document: Document) -> SafePath:
    """Where it is, by a name that tells its language; a notebook's does not tell its cells'."""
    if language_of(path.name) is not None:
        return path
    return SafePath(path.root, (*path.parts[:-1], document.name))


def _selection(place: Range | None) -> Selection | None:
    """Lines; where nothing is selected, the one the cursor is on stands for what is around it."""
    if place is None:
        return None
    first, last = place.start.line, place.end.line
    return first, max(first + 1, last + (place.end.character > 0))


def _ended(result: Result, person: AtEditor) -> EditEnded:
    if result.status == "stopped" or person.declined:
        return EditEnded(status="stopped")
    if result.applied:
        return EditEnded(status="applied")
    if result.status == "nothing":
        return EditEnded(status="nothing", message=person.why)
    return EditEnded(status="refused", message=person.why)
