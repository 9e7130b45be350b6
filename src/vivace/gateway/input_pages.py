"""Cursor pages of the input of a response, as OpenAI has them: newest first unless asked otherwise.

Items come in the order of the conversation, a part of them at a time, and only those are kept that
may be on the page; none is decoded but for its id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from vivace.errors import InvalidRequest

__all__ = ["PageReader"]


class _Item(Struct):
    id: str | None = None


_item: msgspec.json.Decoder[_Item] = msgspec.json.Decoder(_Item)


class PageReader:
    """Finds one page among items that it is given in their order."""

    def __init__(self, limit: int, *, newest_first: bool, after: str | None) -> None:
        self._limit = limit
        self._newest_first = newest_first
        self._after = after
        self._seen = after is None
        """Whether the item after which the page begins was among those taken."""
        self._newest: deque[Raw] = deque(maxlen=limit + 1)
        """The newest of the items that were taken, with one that is on the next page."""
        self._page: list[Raw] = []
        """Items of the page so far, with one that is on the next page."""

    @property
    def is_full(self) -> bool:
        """Whether no further item can be on the page."""
        return not self._newest_first and len(self._page) > self._limit

    def take(self, items: Iterable[Raw]) -> None:
        """Look at the items that follow those taken before."""
        for item in items:
            is_after = self._after is not None and _id_of(item) == self._after
            if self._newest_first:
                if is_after:
                    self._seen, self._page = True, [*self._newest]
                self._newest.append(item)
            elif self._seen and not self.is_full:
                self._page.append(item)
            else:
                self._seen = self._seen or is_after

    def result(self) -> dict[str, Any]:
        """Return the page when all items were taken, or as many as fill it."""
        if not self._seen:
            raise InvalidRequest(f"There is no item '{self._after}'.", param="after")
        found = self._page
        if self._newest_first:
            found = [*(self._newest if self._after is None else self._page)][::-1]
        page = found[: self._limit]
        return {
            "object": "list",
            "data": page,
            "first_id": _id_of(page[0]) if page else None,
            "last_id": _id_of(page[-1]) if page else None,
            "has_more": len(found) > len(page),
        }


def _id_of(item: Raw) -> str | None:
    try:
        return _item.decode(item).id
    except msgspec.DecodeError:  # an item of another version, which may have no id
        return None
