"""What was handed out to be shown, and what became of it.

Editors do not tell what they showed, so what is counted is what they were offered. They do tell
what was accepted, by running the command that comes with it. Whether that is kept is seen half a
minute later, in the document.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count

from lsprotocol.types import Command

from vivace.desk.completing import Suggestion
from vivace.desk.usage import Usage
from vivace.lsp.documents import Document, Documents
from vivace.lsp.extensions import ACCEPTED, Accepted, as_json

__all__ = ["Offers"]

_MOST = 8
"""Offers that may still be accepted: an editor may have asked for more by then."""
_KEPT_AFTER_S = 30.0


@dataclass(frozen=True)
class _Offer:
    uri: str
    text: str
    """What it was made for."""
    found: Suggestion

    @property
    def taken(self) -> str:
        """The text with it."""
        return self.text[: self.found.start] + self.found.text + self.text[self.found.end :]

    def is_same(self, other: _Offer) -> bool:
        """Whether it is the other one, of which something was typed or taken back meanwhile."""
        if self.uri != other.uri or self._length != other._length:
            return False
        return self.taken == other.taken

    def stands_in(self, now: str) -> bool:
        """Whether its text is there as often as it was with it, wherever it has moved."""
        new = _plain(self.found.text)
        return _plain(now).count(new) >= _plain(self.taken).count(new)

    @property
    def _length(self) -> int:
        return len(self.text) - (self.found.end - self.found.start) + len(self.found.text)


class Offers:
    def __init__(
        self, documents: Documents, usage: Usage, kept_after: float = _KEPT_AFTER_S
    ) -> None:
        self._documents = documents
        self._usage = usage
        self._kept_after = kept_after
        self._open: dict[int, _Offer] = {}
        self._numbers = count(1)

    def offer(self, document: Document, text: str, found: Suggestion) -> Command:
        """The command by which an editor tells that it was accepted. ``text`` is the document's, or
        what it would be with an item of the editor's own list."""
        offer = _Offer(document.uri, text, found)
        number = next((each for each in self._open if offer.is_same(self._open[each])), None)
        if number is None:
            number = next(self._numbers)
            self._open[number] = offer
            self._usage.counts.offered += 1
            if len(self._open) > _MOST:
                del self._open[min(self._open)]
        self._usage.soon()
        return Command(
            title="Accepted", command=ACCEPTED, arguments=[as_json(Accepted(number=number))]
        )

    def accepted(self, number: int) -> None:
        offer = self._open.pop(number, None)
        if offer is None:
            return
        self._usage.counts.accepted += 1
        self._usage.soon()
        asyncio.get_running_loop().call_later(self._kept_after, self._judge, offer)

    def _judge(self, offer: _Offer) -> None:
        document = self._documents.get(offer.uri)
        if document is None:
            return  # nobody can tell
        self._usage.counts.judged += 1
        self._usage.counts.kept += offer.stands_in(document.text)
        self._usage.soon()


def _plain(text: str) -> str:
    """Line ends are the editor's own affair."""
    return text.replace("\r\n", "\n")
