"""What counts against the limits of keys, and what it promises.

A charge is all or nothing, and what was used instead of its estimate is settled once. Whatever
becomes of whoever counts for all gateways, a charge is answered soon, and a settlement raises
nothing: losing count costs strictness, never a turn.
"""

from __future__ import annotations

from typing import Protocol

from vivace.scheduling.limits import Limits, Window

__all__ = ["Grant", "Limiter"]


class Grant(Protocol):
    """Leave for one request, which was charged for by an estimate."""

    async def settle(self, *, input_tokens: int, output_tokens: int) -> None:
        """Charge what was really used instead, now that it has ended; only once."""


class Limiter(Protocol):
    """What a key may use in a minute of each tier, whichever gateway it asks."""

    @property
    def shared(self) -> bool:
        """Whether all gateways count together; otherwise each gives out its share."""

    @property
    def losses(self) -> int:
        """How often they could not any more. Each lets pass at most one limit more."""

    async def open(self) -> None:
        """Before the first charge; returns soon, also where nobody answers."""

    async def watch(self) -> None:
        """What is to be done all the time, if anything."""

    async def close(self) -> None: ...

    async def charge(
        self, owner: str, tier: str, limits: Limits, *, input_tokens: int, output_tokens: int
    ) -> Grant:
        """Raises ``TooManyRequests`` when that would be too much."""

    async def windows(self, owner: str, tier: str, limits: Limits) -> list[Window]:
        """What is used of each limit, and left."""
