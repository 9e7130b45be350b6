"""``textDocument/inlineCompletion``: what to show behind the cursor while somebody types.

The range begins at the first character of the line that is no white space, and the text repeats
what is typed there: otherwise editors let it flicker with every key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Literal, Protocol

from lsprotocol.types import (
    InlineCompletionItem,
    InlineCompletionParams,
    InlineCompletionTriggerKind,
    SelectedCompletionInfo,
)

from vivace.completion.neighbours import Neighbour
from vivace.desk.completing import Suggestion
from vivace.lsp.documents import Document
from vivace.lsp.extensions import Status
from vivace.lsp.offers import Offers
from vivace.lsp.session import Session

__all__ = ["Completer", "InlineCompletion", "MakeCompleter", "item_for"]


_NEIGHBOURS = 4


class Completer(Protocol):
    """Who completes one document. A newer question replaces an older one, which is answered with
    None."""

    @property
    def status(self) -> str:
        """Why nothing comes; empty while all is well."""

    @property
    def reachable(self) -> bool:
        """Whether there is a server, as far as is known."""

    def beside(self, neighbours: Sequence[Neighbour]) -> None:
        """Other files that may be shown with it, the newest first."""

    async def at(self, text: str, offset: int) -> Suggestion | None: ...

    def warm(self, text: str, offset: int) -> object:
        """The cursor is here, and nobody types yet."""

    async def close(self) -> None: ...


MakeCompleter = Callable[[Document], Completer]


class InlineCompletion:
    def __init__(self, session: Session, offers: Offers, make: MakeCompleter) -> None:
        self._session = session
        self._offers = offers
        self._make = make
        self._completers: dict[str, Completer] = {}
        self._beside: dict[str, list[tuple[str, int]]] = {}
        """Which texts each of them has been shown."""
        self._newest: dict[str, InlineCompletionParams] = {}
        """The question that each document was asked last."""

    async def answer(self, params: InlineCompletionParams) -> list[InlineCompletionItem] | None:
        document = self._session.documents.get(params.text_document.uri)
        invoked = params.context.trigger_kind == InlineCompletionTriggerKind.Invoked
        if document is None or not (self._session.completes or invoked):
            return None
        self._newest[document.uri] = params
        text, cursor = document.text, document.offset(params.position)
        if (why := await self._session.files.why_not(document)) is not None:
            self._session.editor.show_status(Status(uri=document.uri, why=why))
            return None
        if document.text is not text or self._newest.get(document.uri) is not params:
            return None  # two that wait for the same may go on in any order
        item = await self._suggested(document, cursor, params.context.selected_completion_info)
        return [item] if item is not None else None

    def moved(self, document: Document, cursor: int) -> None:
        """The cursor went there: what stands around it can be read before anybody types. Only where
        completions were asked for: who shows none, or not in this language, moves about too."""
        completer = self._completers.get(document.uri)
        readable = self._session.files.known_to_be_readable
        if completer is not None and self._session.completes and readable(document):
            self._show_neighbours(completer, document)
            completer.warm(document.text, cursor)

    async def _suggested(
        self, document: Document, cursor: int, selected: SelectedCompletionInfo | None
    ) -> InlineCompletionItem | None:
        completer = self._completer(document)
        self._show_neighbours(completer, document)
        text = shown = document.text
        if selected is not None:
            start, end = document.span(selected.range)
            shown = text[:start] + selected.text + text[end:]
            cursor = start + len(selected.text)
        found = await completer.at(shown, cursor)
        state: Literal["ready", "unreachable"] = "ready" if completer.reachable else "unreachable"
        self._session.editor.show_status(
            Status(uri=document.uri, state=state, why=completer.status)
        )
        if found is None or document.text is not text:
            return None  # what was typed since has asked for itself
        if selected is None:
            item = item_for(document, cursor, found)
        else:
            item = _extending(document, selected, found, cursor)
        if item is not None:
            item.command = self._offers.offer(document, shown, found)
        return item

    def _show_neighbours(self, completer: Completer, document: Document) -> None:
        """Only when they are others: whoever types in one file leaves the rest as they are."""
        files = self._session.files
        readable = (
            each
            for each in self._session.documents
            if each is not document and files.known_to_be_readable(each)
        )
        chosen = list(islice(readable, _NEIGHBOURS))
        texts = [(each.uri, each.version) for each in chosen]
        if self._beside.get(document.uri, []) != texts:
            self._beside[document.uri] = texts
            completer.beside(
                [Neighbour(files.path_for(each), each.text, each.worked_at) for each in chosen]
            )

    def _completer(self, document: Document) -> Completer:
        if document.uri not in self._completers:
            self._completers[document.uri] = self._make(document)
        return self._completers[document.uri]

    async def close(self, uri: str) -> None:
        self._beside.pop(uri, None)
        self._newest.pop(uri, None)
        if (completer := self._completers.pop(uri, None)) is not None:
            await completer.close()

    async def close_all(self) -> None:
        """They are made anew when they are needed: with other settings."""
        for uri in list(self._completers):
            await self.close(uri)


def item_for(document: Document, cursor: int, found: Suggestion) -> InlineCompletionItem | None:
    """None for what no editor shows: ghost text takes the place of a part of one line."""
    line = document.line_of(cursor)
    start, end = document.line_start(line), document.line_end(line)
    if not start <= found.start <= cursor <= found.end <= end:
        return None
    before = document.text[start : found.start]
    first = start + len(before) - len(before.lstrip())
    typed = document.text[first : found.start]
    return InlineCompletionItem(
        insert_text=typed + found.text, range=document.range(first, found.end)
    )


def _extending(
    document: Document, selected: SelectedCompletionInfo, found: Suggestion, behind: int
) -> InlineCompletionItem | None:
    """What goes on from the item that is selected in the list of completions, in its range."""
    start, end = document.span(selected.range)
    covered = end + found.end - behind
    if found.start != behind or covered > document.line_end(document.line_of(end)):
        return None
    return InlineCompletionItem(
        insert_text=selected.text + found.text, range=document.range(start, covered)
    )
