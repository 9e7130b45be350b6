"""``textDocument/publishDiagnostics``: what is wrong with code, marked as it is typed.

A key is answered first and looked at right after: what to suggest does not wait for what is wrong.
Only what changed is looked at again, which takes a few milliseconds; where it takes longer than a
key may, the next look waits for a pause. A document is looked at from beginning to end beside
whoever types, in a thread, when it is opened and when much is pasted.

Nothing of this leaves the machine, and no model is asked.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import TimerHandle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vivace.errors import VivaceError
from vivace.lsp.documents import Document
from vivace.lsp.held_back import carried_over, codes_kept, lost_marks, shown_while_writing
from vivace.lsp.marks import as_diagnostics
from vivace.lsp.rules import Rules
from vivace.lsp.session import Session
from vivace.lsp.settings import Findings
from vivace.lsp.typed import typed
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk
from vivace.syntax.source import Source

if TYPE_CHECKING:
    from vivace.findings.changed import Scanner

__all__ = ["Diagnostics"]

_AFTER_KEY_S = 0.001
"""So that whatever was asked with the key is answered first."""
_BUDGET_S = 0.05
"""What a key may cost; beyond, the next look waits for a pause."""
_SLOW_PAUSE_S = 0.3
_PAUSE_S = 1.0
"""Nobody types for so long: what stands on the line is meant."""
_PASTED = 2_000
"""Characters in lines that changed at once; whoever types changes fewer."""
_LONGEST_TEXT = 1_000_000
_LONGEST_LINE = 5_000
"""Characters; nobody reads longer ones, and programs that write them do not read marks."""


@dataclass
class _Watched:
    """An open document, and what is known of it."""

    document: Document
    scanner: Scanner | None = None
    certain: frozenset[str] = frozenset()
    source: Source | None = None
    """What was looked at last."""
    findings: list[Finding] = field(default_factory=list)
    """What was found in it."""
    carried: list[Finding] = field(default_factory=list)
    """What was found before, and may be again when the line that is written can be read."""
    shown: list[Finding] = field(default_factory=list)
    """What of both may be shown, where it stands in what was looked at last."""
    remarks: list[Finding] = field(default_factory=list)
    """What a model remarked on it, where that stands in what was looked at last."""
    told: list[Finding] = field(default_factory=list)
    """What the editor was told last."""
    has_lost: bool = False
    """Whether it may have lost marks since, with text that was taken out."""
    writing: int | None = None
    """The line on which somebody writes."""
    kept: set[str] = field(default_factory=set)
    """The rules whose findings were shown on it before."""
    is_slow: bool = False
    """Whether the last look took longer than a key may."""
    waits: bool = False
    """Whether the next one waits for a pause."""
    is_busy: bool = False
    """Whether it is looked at in a thread."""
    look: TimerHandle | None = None
    pause: TimerHandle | None = None

    @property
    def is_current(self) -> bool:
        return self.source is not None and self.source.text is self.document.text


class Diagnostics:
    def __init__(self, session: Session, rules: Rules) -> None:
        self._session = session
        self._rules = rules
        self._watched: dict[str, _Watched] = {}
        self._beside: set[asyncio.Task[None]] = set()
        """What goes on in threads."""
        self._settings = Findings()

    def shown_in(self, document: Document) -> Sequence[Finding]:
        """What is marked in a document's text as it is now."""
        watched = self._watched.get(document.uri)
        return watched.shown if watched is not None and watched.is_current else ()

    # -- what happens to documents ----------------------------------------------------------------

    async def opened(self, document: Document) -> None:
        """It is looked at if it is a file of the person's own."""
        self._settings = self._session.settings.findings
        if not self._settings.enabled or not await self._session.files.is_worked_on(document):
            return
        if self._session.documents.get(document.uri) is not document:
            return  # closed meanwhile
        self._forget(document.uri)
        watched = self._watched[document.uri] = _Watched(document)
        await self._look_from_the_start(watched)

    def changed(self, document: Document) -> None:
        watched = self._watched.get(document.uri)
        if watched is not None:
            watched.writing = document.line_of(document.worked_at)
            self._look_soon(watched)

    def moved(self, document: Document, cursor: int) -> None:
        """The cursor is there: on another line than the one that was written, or still on it."""
        watched = self._watched.get(document.uri)
        if watched is None or watched.writing is None:
            return
        if watched.writing != document.line_of(cursor):
            self._left(watched)

    def saved(self, uri: str) -> None:
        """Whoever saves means what is written."""
        if (watched := self._watched.get(uri)) is not None:
            self._left(watched)

    def closed(self, uri: str) -> None:
        if self._forget(uri):
            self._session.editor.show_diagnostics(uri, None, [])

    async def reconfigured(self) -> None:
        """They are looked at anew, if what the person wants to see is something else."""
        if self._session.settings.findings != self._settings:
            self._settings = self._session.settings.findings
            documents = list(self._session.documents)
            for each in documents:
                self.closed(each.uri)
            for each in documents:
                await self.opened(each)

    def _forget(self, uri: str) -> bool:
        """Whether anything was shown of it."""
        watched = self._watched.pop(uri, None)
        if watched is None:
            return False
        for timer in (watched.look, watched.pause):
            if timer is not None:
                timer.cancel()
        return bool(watched.told)

    def _is_watched(self, watched: _Watched) -> bool:
        return self._watched.get(watched.document.uri) is watched

    # -- what a model remarks ---------------------------------------------------------------------

    def remark(self, document: Document, remark: Finding, line: str) -> bool:
        """Whether it can be shown: the line that it was made about stands there now."""
        watched = self._watched.get(document.uri)
        if watched is None or watched.source is None or not watched.is_current:
            return False
        row = remark.lines[0] if remark.lines is not None else 0
        if [each.rstrip("\r\n") for each in watched.source.lines[row : row + 1]] != [line]:
            return False
        watched.remarks = sorted([*watched.remarks, remark], key=_place)
        self._tell(watched)
        return True

    def forget_remarks(self) -> None:
        for watched in self._watched.values():
            watched.remarks = []
            if watched.is_current:
                self._tell(watched)

    # -- looking ----------------------------------------------------------------------------------

    def _look_soon(self, watched: _Watched) -> None:
        """At what was typed; where a look takes long, only when nobody types."""
        if watched.is_busy:
            return  # whoever is at it looks again
        if watched.look is not None:
            if not watched.waits:
                return
            watched.look.cancel()
        watched.waits = watched.is_slow
        after = _SLOW_PAUSE_S if watched.waits else _AFTER_KEY_S
        watched.look = asyncio.get_running_loop().call_later(after, self._look, watched)

    def _look_in_a_pause(self, watched: _Watched) -> None:
        """Half a line may be dear to read; the next key puts it off."""
        watched.waits = True
        loop = asyncio.get_running_loop()
        watched.look = loop.call_later(_SLOW_PAUSE_S, self._look, watched)

    def _look(self, watched: _Watched) -> None:
        watched.look = None
        document, scanner, before = watched.document, watched.scanner, watched.source
        if watched.is_busy or not self._is_watched(watched):
            return
        if scanner is None or before is None or watched.is_slow or watched.waits:
            self._go_beside(watched)
            return
        with self._given_up_if_it_fails(watched):
            hunks = typed(before.text, document.text)
            if _is_much(hunks) or len(document.text) > _LONGEST_TEXT:
                self._go_beside(watched)
                return
            source = document.source
            if source.language is None:  # it nests too deep now
                self._go_beside(watched)
                return
            found, watched.is_slow = _looked(scanner, source, hunks)
            self._take(watched, source, hunks, found)

    def _go_beside(self, watched: _Watched) -> None:
        task = asyncio.get_running_loop().create_task(self._look_beside(watched))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _look_beside(self, watched: _Watched) -> None:
        """The same in a thread, and then what a key may not cost: to read a text that is half
        typed."""
        document, scanner, before = watched.document, watched.scanner, watched.source
        if scanner is None or before is None or not _is_readable(document):
            await self._look_from_the_start(watched)
            return
        with self._given_up_if_it_fails(watched):
            source = document.source
            hunks = typed(before.text, source.text)
            found, is_slow = await asyncio.to_thread(_looked, scanner, source, hunks)
            watched.is_slow = is_slow and not _is_much(hunks)
            if not scanner.is_settled:
                found = await asyncio.to_thread(scanner.settle)
        self._take(watched, source, hunks, found)

    async def _look_from_the_start(self, watched: _Watched) -> None:
        document, found = watched.document, list[Finding]()
        with self._given_up_if_it_fails(watched):
            watched.scanner, watched.source, watched.shown = None, None, []
            watched.remarks = []
            language = document.source.language
            made = (
                await self._rules.scanner(document, language.name) if language is not None else None
            )
            source = document.source
            if made is not None and _is_readable(document):
                watched.scanner, watched.certain = made
                found = await asyncio.to_thread(watched.scanner.open, source)
        self._take(watched, source, [], found)

    @contextmanager
    def _given_up_if_it_fails(self, watched: _Watched) -> Iterator[None]:
        """What cannot be looked at is not marked any more, rather than looked at at every key."""
        watched.is_busy = True
        try:
            yield
        except Exception as error:
            if self._is_watched(watched):
                self.closed(watched.document.uri)
            if isinstance(error, VivaceError):
                self._session.editor.tell(str(error), "warning")
            raise
        finally:
            watched.is_busy = False

    def _take(
        self,
        watched: _Watched,
        source: Source,
        hunks: Sequence[Hunk],
        found: list[Finding],
    ) -> None:
        """What was found in a text, which was the one before but for these hunks."""
        if not self._is_watched(watched):
            return
        before = watched.shown
        watched.source, watched.findings = source, found
        watched.remarks = carried_over(watched.remarks, hunks, ())
        watched.kept = codes_kept(before, hunks, watched.writing)
        watched.carried = carried_over(before, hunks, found) if watched.writing is not None else []
        watched.has_lost = watched.has_lost or lost_marks(before, hunks)
        self._show(watched)
        if not watched.is_current:
            self._look_soon(watched)
        elif watched.scanner is not None and not watched.scanner.is_settled:
            self._look_in_a_pause(watched)

    # -- showing ----------------------------------------------------------------------------------

    def _left(self, watched: _Watched) -> None:
        """The line that was written is left, or nobody types any more."""
        watched.writing = None
        watched.carried = []
        self._show(watched)

    def _show(self, watched: _Watched) -> None:
        """What may be shown; the editor is told if it is about the text that it has."""
        found = [*watched.findings, *watched.carried]
        shown = shown_while_writing(found, watched.writing, watched.certain, watched.kept)
        watched.shown = sorted(shown, key=_place)
        if watched.pause is not None:
            watched.pause.cancel()
            watched.pause = None
        if watched.carried or len(shown) < len(found):
            loop = asyncio.get_running_loop()
            watched.pause = loop.call_later(_PAUSE_S, self._left, watched)
        if watched.is_current:
            self._tell(watched)

    def _tell(self, watched: _Watched) -> None:
        document, shown = watched.document, [*watched.shown, *watched.remarks]
        if shown != watched.told or (shown and watched.has_lost):
            watched.told = shown
            marks = as_diagnostics(document, shown)
            self._session.editor.show_diagnostics(document.uri, document.version, marks)
        watched.has_lost = False


def _place(finding: Finding) -> tuple[tuple[int, int], tuple[int, int], str]:
    return finding.lines or (0, 0), finding.columns or (0, 0), finding.code


def _looked(scanner: Scanner, source: Source, hunks: Sequence[Hunk]) -> tuple[list[Finding], bool]:
    """What is found now, and whether it took longer than a key may. What other programs take of the
    processor meanwhile does not count."""
    began = time.thread_time()
    found = scanner.edited(source, hunks)
    return found, time.thread_time() - began > _BUDGET_S


def _is_much(hunks: Sequence[Hunk]) -> bool:
    """Whether it was put in at once, whatever it is: one line of it may be too long."""
    return sum(len(line) for hunk in hunks for line in hunk.new) > _PASTED


def _is_readable(document: Document) -> bool:
    """Whether it is of a size and depth that people write."""
    text = document.text
    if len(text) > _LONGEST_TEXT or max(map(len, text.split("\n"))) > _LONGEST_LINE:
        return False
    return document.source.language is not None
