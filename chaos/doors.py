"""Where clients come in, if there are several gateways."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

__all__ = ["Doors"]


class Doors:
    """Addresses of one service: whoever comes takes the next one, so that nobody comes twice in a
    row to one that is shut."""

    def __init__(self, urls: Mapping[str, str], first: int = 0) -> None:
        """``first``: at which of them it begins."""
        self._doors = itertools.cycle(urls.items())
        for _ in range(first % len(urls)):
            next(self._doors)

    @classmethod
    def of(cls, url: str | Doors) -> Doors:
        return url if isinstance(url, Doors) else cls({"": url})

    def next(self) -> tuple[str, str]:
        """Its name, and its url."""
        return next(self._doors)
