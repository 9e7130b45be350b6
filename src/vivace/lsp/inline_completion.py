"""``textDocument/inlineCompletion``: what to show behind the cursor while somebody types.

The range begins at the first character of the line that is no white space, and the text repeats
what is typed there: otherwise editors let it flicker with every key.
"""

from __future__ import annotations

from lsprotocol.types import (
    InlineCompletionItem,
    InlineCompletionParams,
    InlineCompletionTriggerKind,
    SelectedCompletionInfo,
)

from vivace.desk.completing import Suggestion
from vivace.lsp.documents import Document
from vivace.lsp.offers import Offers
from vivace.lsp.session import Session
from vivace.lsp.suggestions import Suggestions

__all__ = ["InlineCompletion", "item_for"]


class InlineCompletion:
    def __init__(self, session: Session, suggestions: Suggestions, offers: Offers) -> None:
        self._session = session
        self._suggestions = suggestions
        self._offers = offers

    async def answer(self, params: InlineCompletionParams) -> list[InlineCompletionItem] | None:
        document = self._session.documents.get(params.text_document.uri)
        invoked = params.context.trigger_kind == InlineCompletionTriggerKind.Invoked
        if document is None or not (self._session.completes or invoked):
            return None
        text, cursor = document.text, document.offset(params.position)
        selected = params.context.selected_completion_info
        if selected is not None:
            start, end = document.span(selected.range)
            text = text[:start] + selected.text + text[end:]
            cursor = start + len(selected.text)
        found = await self._suggestions.at(document, text, cursor)
        if found is None:
            return None
        if selected is None:
            item = item_for(document, cursor, found)
        else:
            item = _extending(document, selected, found, cursor)
        if item is None:
            return None
        item.command = self._offers.offer(document, text, found)
        return [item]


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
