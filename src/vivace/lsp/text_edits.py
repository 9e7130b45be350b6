"""Hunks of a document's own text, as the protocol has edits."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol.types import TextEdit

from vivace.lsp.documents import Document
from vivace.syntax.hunk import Hunk
from vivace.syntax.lines import lines_of

__all__ = ["text_edits"]


def text_edits(document: Document, hunks: Sequence[Hunk]) -> list[TextEdit]:
    starts = [0]
    for line in lines_of(document.text):
        starts.append(starts[-1] + len(line))
    return [
        TextEdit(
            range=document.range(starts[hunk.start], starts[hunk.end]), new_text="".join(hunk.new)
        )
        for hunk in hunks
    ]
