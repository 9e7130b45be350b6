"""``textDocument/completion``: suggestions as items of a list, where editors show no ghost text.

Only when they are asked for. The protocol does not tell whether the person asked or the editor did
by itself, as many do behind a word that is being typed: so right behind one nothing is answered.
"""

from __future__ import annotations

import re
import time

from lsprotocol.types import (
    CompletionItem,
    CompletionItemKind,
    CompletionParams,
    InsertTextMode,
    TextEdit,
)

from vivace.desk.completing import Suggestion
from vivace.lsp.documents import Document
from vivace.lsp.offers import Offers
from vivace.lsp.session import Session
from vivace.lsp.suggestions import Suggestions

__all__ = ["Completion", "completion_item"]

_WORD = re.compile(r"\w*\Z")
_TYPING_S = 0.5
"""After so long, nobody types any more, and no editor asks by itself."""
_LABEL = 60


class Completion:
    def __init__(self, session: Session, suggestions: Suggestions, offers: Offers) -> None:
        self._session = session
        self._suggestions = suggestions
        self._offers = offers

    async def answer(self, params: CompletionParams) -> list[CompletionItem]:
        document = self._session.documents.get(params.text_document.uri)
        if document is None:
            return []
        text, cursor = document.text, document.offset(params.position)
        typing = time.monotonic() - document.changed_at < _TYPING_S
        if typing and _word_before(document, cursor):
            return []
        found = await self._suggestions.at(document, text, cursor)
        item = completion_item(document, cursor, found) if found is not None else None
        if found is None or item is None:
            return []
        item.command = self._offers.offer(document, text, found)
        return [item]


def completion_item(document: Document, cursor: int, found: Suggestion) -> CompletionItem | None:
    """None for what no list can have: an item takes the place of a part of one line. It begins with
    the word that is typed, by which editors choose what stays in the list."""
    line = document.line_of(cursor)
    if not found.start == cursor <= found.end <= document.line_end(line):
        return None
    word = _word_before(document, cursor)
    new = word + found.text
    first, *more = new.strip().splitlines() or [""]
    return CompletionItem(
        label=first[:_LABEL] + "…" * (bool(more) or len(first) > _LABEL),
        kind=CompletionItemKind.Text,
        detail="Vivace",
        documentation=new,
        sort_text="~",  # behind what the language's own server knows
        filter_text=first,
        insert_text_mode=InsertTextMode.AsIs,
        text_edit=TextEdit(document.range(cursor - len(word), found.end), new),
    )


def _word_before(document: Document, cursor: int) -> str:
    found = _WORD.search(document.text[document.line_start(document.line_of(cursor)) : cursor])
    assert found is not None  # it may be empty
    return found[0]
