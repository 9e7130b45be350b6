"""Rate limits of the keys that ask this process, in its memory."""

from __future__ import annotations

import time
from collections.abc import Callable

from vivace.scheduling.limits import Charge, Ledger, Limits, Window

__all__ = ["LocalGrant", "LocalLimiter"]


class LocalGrant:
    __slots__ = ("_charge", "_ledger")

    def __init__(self, ledger: Ledger, charge: Charge) -> None:
        self._ledger = ledger
        self._charge = charge

    async def settle(self, *, input_tokens: int, output_tokens: int) -> None:
        self._ledger.settle(
            self._charge,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            now=time.monotonic(),
        )


class LocalLimiter:
    """The law for one gateway, and its share for one of several that nobody counts for."""

    shared = False
    losses = 0

    def __init__(self, gateways: Callable[[], int] = lambda: 1) -> None:
        """``gateways``: how many there were when they were last seen."""
        self.ledger = Ledger()
        self._gateways = gateways

    async def open(self) -> None: ...

    async def watch(self) -> None: ...

    async def close(self) -> None: ...

    async def charge(
        self, owner: str, tier: str, limits: Limits, *, input_tokens: int, output_tokens: int
    ) -> LocalGrant:
        charge = self.ledger.charge(
            owner,
            tier,
            limits,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            now=time.monotonic(),
            gateways=max(1, self._gateways()),
        )
        return LocalGrant(self.ledger, charge)

    async def windows(self, owner: str, tier: str, limits: Limits) -> list[Window]:
        now, gateways = time.monotonic(), max(1, self._gateways())
        return self.ledger.windows(owner, tier, limits, now, gateways=gateways)
