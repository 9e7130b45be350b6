"""The person at an editor: sees hunks while they are written, and is asked what is not clear."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from vivace.desk.applying import Accepted
from vivace.desk.dialogue import Dialogue
from vivace.desk.events import (
    Answered,
    Asked,
    Conflicted,
    Ended,
    Event,
    Redirected,
    Refused,
    Unchanged,
    Withdrawn,
)
from vivace.desk.person import Unattended
from vivace.desk.targets import Target
from vivace.edits.placing.region import Region
from vivace.edits.rebase import rebase
from vivace.lsp.documents import Document
from vivace.lsp.editor import Editor, Progress
from vivace.lsp.extensions import EditProgress, ShownHunk
from vivace.syntax.hunk import Hunk
from vivace.workspace.document import of_text
from vivace.workspace.errors import NotText

__all__ = ["AtEditor"]

_APPLY = "Apply it"
_LEAVE = "Leave it"


class AtEditor(Unattended):
    def __init__(
        self, editor: Editor, document: Document, target: Target, progress: Progress | None
    ) -> None:
        """``document`` is where they type on; ``target`` what it was when they asked."""
        self.why = ""
        """Why nothing came of it, in the end."""
        self.declined = False
        """Whether they wanted it so."""
        self._editor = editor
        self._document = document
        self._target = target
        self._progress = progress
        self._hunks: tuple[Hunk, ...] = ()
        self._about_target = True
        self._dialogue: Dialogue | None = None

    # -- what they see ----------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        match event:
            case Asked():
                self._about_target = event.plan.task.path == str(self._target.path)
                self._show((), f"asking {event.model or 'the model'}")
            case Answered(hunks=hunks) if hunks:
                self._show((*self._hunks, *hunks), "writing")
            case Redirected():
                self._show((), "in another direction")
            case Withdrawn():
                self._show((), f"asking {event.model or 'again'}: {event.why}")
            case Ended():
                self._show(event.hunks, "checking")
            case Refused() | Unchanged():
                self.why = event.why
            case Conflicted():
                self.why = str(event.conflict)

    def _show(self, hunks: Sequence[Hunk], message: str) -> None:
        if not self._about_target:
            return  # of another file that follows
        self._hunks = tuple(sorted(hunks, key=lambda hunk: hunk.start))
        self._editor.show_edit(
            EditProgress(
                uri=self._document.uri,
                version=self._document.version,
                hunks=tuple(self._drawn(hunk) for hunk in self._carried_over()),
                message=message,
            )
        )
        if self._progress is not None:
            changed = sum(max(len(hunk.old), len(hunk.new)) for hunk in self._hunks)
            lines = f": {changed} line{'' if changed == 1 else 's'} so far" if changed else ""
            self._progress.report(message + lines)

    def _carried_over(self) -> Sequence[Hunk]:
        """The hunks for the text as it is now; what collides is drawn no more."""
        try:
            now = of_text(self._target.path, self._document.text).text
        except NotText:
            return ()
        return rebase(self._hunks, self._target.text, now).hunks

    def _drawn(self, hunk: Hunk) -> ShownHunk:
        document = self._document
        place = document.range(document.line_start(hunk.start), document.line_start(hunk.end))
        return ShownHunk(range=place, new_text="".join(hunk.new))

    # -- what they do -----------------------------------------------------------------------------

    @asynccontextmanager
    async def waiting(self, dialogue: Dialogue | None) -> AsyncIterator[None]:
        self._dialogue = dialogue
        try:
            yield
        finally:
            self._dialogue = None

    def redirect(self, line: str) -> bool:
        """Whether there is an answer that can take another direction."""
        if self._dialogue is None or self._dialogue.stopped:
            return False
        self._dialogue.say(line)
        return True

    def stop(self) -> bool:
        if self._dialogue is None or self._dialogue.stopped:
            return False
        self._dialogue.stop()
        return True

    @property
    def reviews(self) -> bool:
        """What is suspicious is theirs to decide."""
        return True

    async def chooses(self, places: Sequence[Region]) -> Sequence[Region]:
        titles = {each.title: each for each in places}
        question = "It is not clear which part of the file is meant."
        chosen = await self._editor.ask(question, list(titles))
        self.declined = chosen not in titles
        return [titles[chosen]] if chosen in titles else []

    async def accepts(self, edits: Sequence[Accepted]) -> Sequence[Accepted]:
        doubts = dict.fromkeys(each.person for edit in edits for each in edit.doubts)
        if doubts and await self._editor.ask(" ".join(doubts), [_APPLY, _LEAVE]) != _APPLY:
            self.declined = True
            return [Accepted(edit.target, ()) for edit in edits]
        self._show((), "applying")  # drawn beside the lines themselves, they would be there twice
        return edits
