"""Conversations as they were shown to engines, so that only what is new goes over a link.

Both ends remember them, each for itself and as long as there is room: a gateway what it has sent, a
node what it was sent. Who has forgotten says so, and gets all of it. They are spoken of by the run
that was shown them: a turn may be shown other items on another attempt, a run never is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from msgspec import Struct, msgpack

from vivace.protocol.items import Item

__all__ = ["Histories", "Shown", "size_of"]

_TURNS = 1_000
_ITEMS = 200_000
"""Of all turns together; those that follow each other share most of theirs."""
_BYTES = 256_000_000
"""The same, as if they shared nothing."""


class Shown(Struct, frozen=True):
    run: str
    items: tuple[Item, ...]
    bytes: int


class Histories:
    def __init__(self, turns: int = _TURNS, items: int = _ITEMS, size: int = _BYTES) -> None:
        self._most = turns, items, size
        self._shown: OrderedDict[tuple[str, str], Shown] = OrderedDict()
        self._items = 0
        self._bytes = 0

    def keep(self, owner: str, name: str, items: Sequence[Item], run: str, size: int) -> None:
        """``name`` is what it is looked for by, ``size`` about how many bytes it takes."""
        self._forget(owner, name)
        self._shown[owner, name] = Shown(run, tuple(items), size)
        self._items += len(items)
        self._bytes += size
        while len(self._shown) > 1 and self._too_much():
            self._forget(*next(iter(self._shown)))

    def _too_much(self) -> bool:
        turns, items, size = self._most
        return len(self._shown) > turns or self._items > items or self._bytes > size

    def find(self, owner: str, name: str) -> Shown | None:
        found = self._shown.get((owner, name))
        if found is not None:
            self._shown.move_to_end((owner, name))
        return found

    def common(self, owner: str, name: str, items: Sequence[Item]) -> tuple[Shown | None, int]:
        """What was shown, and how many of these stand at its beginning."""
        found = self.find(owner, name)
        if found is None:
            return None, 0
        for number, (known, item) in enumerate(zip(found.items, items, strict=False)):
            if known is not item and known != item:
                return found, number
        return found, min(len(found.items), len(items))

    def _forget(self, owner: str, name: str) -> None:
        gone = self._shown.pop((owner, name), None)
        if gone is not None:
            self._items -= len(gone.items)
            self._bytes -= gone.bytes


_encoder = msgpack.Encoder()


def size_of(items: Sequence[Item]) -> int:
    """Bytes, about."""
    return len(_encoder.encode(items))
