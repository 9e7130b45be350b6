"""Conversations as they were shown to engines, so that only what is new goes over a link.

Both ends remember them, each for itself and as long as there is room: a gateway what it has sent, a
node what it was sent. Who has forgotten says so, and gets all of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from vivace.protocol.items import Item

__all__ = ["Histories"]

_TURNS = 1_000
_ITEMS = 200_000
"""Of all turns together; those that follow each other share most of theirs."""


class Histories:
    def __init__(self, turns: int = _TURNS, items: int = _ITEMS) -> None:
        self._most = turns, items
        self._shown: OrderedDict[tuple[str, str], tuple[Item, ...]] = OrderedDict()
        self._items = 0

    def keep(self, owner: str, turn: str, items: Sequence[Item]) -> None:
        self._forget(owner, turn)
        self._shown[owner, turn] = tuple(items)
        self._items += len(items)
        turns, most = self._most
        while len(self._shown) > turns or (self._items > most and len(self._shown) > 1):
            self._forget(*next(iter(self._shown)))

    def find(self, owner: str, turn: str) -> tuple[Item, ...] | None:
        found = self._shown.get((owner, turn))
        if found is not None:
            self._shown.move_to_end((owner, turn))
        return found

    def common(self, owner: str, turn: str, items: Sequence[Item]) -> int:
        """How many of these stand at the beginning of what the turn was shown."""
        shown = self.find(owner, turn) or ()
        for number, (known, item) in enumerate(zip(shown, items, strict=False)):
            if known is not item and known != item:
                return number
        return min(len(shown), len(items))

    def _forget(self, owner: str, turn: str) -> None:
        gone = self._shown.pop((owner, turn), None)
        self._items -= len(gone) if gone is not None else 0
