"""What to suggest at the cursor of each document, in whichever form its editor shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Literal, Protocol

from vivace.completion.neighbours import Neighbour
from vivace.desk.completing import Suggestion
from vivace.lsp.documents import Document
from vivace.lsp.extensions import Status
from vivace.lsp.session import Session

__all__ = ["Completer", "MakeCompleter", "Suggestions"]

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


class Suggestions:
    def __init__(self, session: Session, make: MakeCompleter) -> None:
        self._session = session
        self._make = make
        self._completers: dict[str, Completer] = {}
        self._beside: dict[str, list[tuple[str, int]]] = {}
        """Which texts each of them has been shown."""
        self._newest: dict[str, object] = {}
        """The question that each document was asked last."""

    async def at(self, document: Document, text: str, cursor: int) -> Suggestion | None:
        """None for nothing, and where more was typed meanwhile: that has asked for itself. ``text``
        is the document's, or what it would be with an item of the editor's own list."""
        typed, question = document.text, object()
        self._newest[document.uri] = question
        if (why := await self._session.files.why_not(document)) is not None:
            self._session.editor.show_status(Status(uri=document.uri, why=why))
            return None
        if document.text is not typed or self._newest.get(document.uri) is not question:
            return None  # two that wait for the same may go on in any order
        completer = self._completer(document)
        self._show_neighbours(completer, document)
        before = self._session.text_before(document)
        found = await completer.at(before + text, len(before) + cursor)
        state: Literal["ready", "unreachable"] = "ready" if completer.reachable else "unreachable"
        self._session.editor.show_status(
            Status(uri=document.uri, state=state, why=completer.status)
        )
        if found is None or document.text is not typed:
            return None
        return Suggestion(found.text, found.start - len(before), found.end - len(before))

    def moved(self, document: Document, cursor: int) -> None:
        """The cursor seems to be there: what stands around it can be read before anybody types.
        Only where completions were asked for: who shows none, or not in this language, moves about
        too. The document may be read."""
        if document.uri in self._completers and self._session.completes:
            self._warm(document, cursor)

    async def rests(self, document: Document, cursor: int) -> None:
        """The same, from who wants completions here: they may say so while the file is looked at
        for the first time."""
        typed, question = document.text, self._newest.get(document.uri)
        why_not = await self._session.files.why_not(document)
        if self._session.documents.get(document.uri) is not document or document.text is not typed:
            return
        asked_since = self._newest.get(document.uri) is not question
        if why_not is None and self._session.completes and not asked_since:
            self._warm(document, cursor)

    def _warm(self, document: Document, cursor: int) -> None:
        completer = self._completer(document)
        self._show_neighbours(completer, document)
        before = self._session.text_before(document)
        completer.warm(before + document.text, len(before) + cursor)

    def _show_neighbours(self, completer: Completer, document: Document) -> None:
        """Only when they are others: whoever types in one file leaves the rest as they are."""
        files = self._session.files
        own = self._session.notebook_of(document) or [document.uri]
        readable = (
            each
            for each in self._session.documents
            if each.uri not in own and files.known_to_be_readable(each)
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
