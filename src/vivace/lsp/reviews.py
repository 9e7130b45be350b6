"""``vivace.review``: what a model remarks on the changes of a work tree, as hints in open files.

Files are reviewed as they are on the disk. A remark is marked where its line stands in the editor
too; whoever types in a line, or beside it, is rid of what was remarked on it. What rules find is
marked without being asked for (``diagnostics``), so a review in the editor is the model's alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from vivace.client.errors import ClientError
from vivace.desk.review import Asking, Began, NotShown, Remarked, Reviewed, review
from vivace.errors import VivaceError
from vivace.findings.report import Located
from vivace.lsp.address import Address
from vivace.lsp.diagnostics import Diagnostics
from vivace.lsp.documents import Document
from vivace.lsp.editor import Progress
from vivace.lsp.extensions import ReviewAsked, ReviewEnded, Status
from vivace.lsp.session import Session
from vivace.syntax.finding import Finding
from vivace.syntax.source import Source
from vivace.workspace.changes import changes_since
from vivace.workspace.errors import PathRefused, WorkspaceError
from vivace.workspace.paths import Workspace

__all__ = ["Reviews"]

_DEEP = "deep"
_MOST_NAMED = 3


@dataclass
class _Told:
    """What was remarked in one review."""

    root: Workspace
    shown: int = 0
    elsewhere: list[Located] = field(default_factory=list)
    """What could not be marked: the file is not open, or was changed meanwhile."""
    left_out: int = 0
    dropped: int = 0


class Reviews:
    def __init__(self, session: Session, diagnostics: Diagnostics, address: Address) -> None:
        self._session = session
        self._diagnostics = diagnostics
        self._address = address
        self._running: asyncio.Task[ReviewEnded] | None = None
        self._token: str | None = None

    async def review(self, asked: ReviewAsked) -> ReviewEnded:
        """It is over when this returns, and the person knows what became of it."""
        if self._running is not None:
            return self._ended(ReviewEnded(status="failed", message="A review is under way."))
        self._running = asyncio.create_task(self._made(asked))
        try:
            await asyncio.wait([self._running])
            if self._running.cancelled():
                return ReviewEnded(status="stopped")
            return self._ended(self._running.result())
        finally:
            self._running.cancel()
            self._running = None

    def stop_shown(self, token: str) -> None:
        """The review whose progress is shown by this token."""
        if token == self._token and self._running is not None:
            self._running.cancel()

    def _ended(self, ended: ReviewEnded) -> ReviewEnded:
        self._session.editor.tell(ended.message, "error" if ended.status == "failed" else "info")
        return ended

    async def _made(self, asked: ReviewAsked) -> ReviewEnded:
        progress = await self._session.editor.begin_progress("Vivace: review", is_edit=False)
        self._token = progress.token if progress is not None else None
        said = "stopped"
        try:
            ended = await self._asked(asked, progress)
            said = ended.status
        finally:
            self._token = None
            if progress is not None:
                progress.end(said)
        return ended

    async def _asked(self, asked: ReviewAsked, progress: Progress | None) -> ReviewEnded:
        try:
            told = _Told(await asyncio.to_thread(self._workspace, asked.uri))
            await self._run(asked, told, progress)
        except VivaceError as error:
            if isinstance(error, ClientError) and error.code == "no_server":
                self._session.editor.show_status(Status(state="unreachable", why=str(error)))
            return ReviewEnded(status="failed", message=str(error))
        count = told.shown + len(told.elsewhere)
        return ReviewEnded(
            status="done", remarks=count, dropped=told.dropped, message=_in_words(told)
        )

    def _workspace(self, uri: str) -> Workspace:
        if uri:
            return self._session.files.find(uri).workspace
        folder = next(iter(self._session.files.folders), None)
        if folder is None:
            raise WorkspaceError("What is to be reviewed? Open a folder or a file first.")
        return Workspace.around(cwd=folder)

    async def _run(self, asked: ReviewAsked, told: _Told, progress: Progress | None) -> None:
        self._diagnostics.forget_remarks()
        changes = await asyncio.to_thread(changes_since, told.root, asked.revision)
        settings = self._session.settings
        model = (settings.deep_model or _DEEP) if asked.deep else settings.model
        asking = Asking(self._address.url, self._address.key, model or None)
        async with aclosing(review(changes, _nothing, asking)) as events:
            async for event in events:
                match event:
                    case Began(path, _, number, count) if progress is not None:
                        progress.report(f"{number}/{count}: {path}")
                    case Remarked(located):
                        await self._show(located, told)
                    case NotShown():
                        told.left_out += 1
                    case Reviewed():
                        told.dropped = event.dropped

    async def _show(self, each: Located, told: _Told) -> None:
        document = await asyncio.to_thread(self._open, told.root.root / each.path)
        if document is not None and self._diagnostics.remark(document, each.finding, each.line):
            told.shown += 1
        else:
            told.elsewhere.append(each)

    def _open(self, path: Path) -> Document | None:
        """The document that has this file open, if one has."""
        for document in list(self._session.documents):
            with suppress(PathRefused):
                if self._session.files.find(document.uri).path.absolute == path:
                    return document
        return None


def _nothing(_: Source) -> Sequence[Finding]:
    return ()


def _in_words(told: _Told) -> str:
    count = told.shown + len(told.elsewhere)
    words = f"{count} remark{'' if count == 1 else 's'} on what changed."
    if told.elsewhere:
        named = [
            f"{each.path}:{each.finding.lines[0] + 1 if each.finding.lines else 1} "
            f"({each.finding.person})"
            for each in told.elsewhere[:_MOST_NAMED]
        ]
        more = "" if len(told.elsewhere) <= _MOST_NAMED else " …"
        words += (
            f" Not marked, as their files are not open or were changed: {', '.join(named)}{more}"
        )
    if told.left_out:
        words += f" Not shown to the model: {told.left_out}; vivace review says why."
    return words
