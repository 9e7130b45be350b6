"""Rate limits of the keys that ask this process, in its memory."""

from __future__ import annotations

import time

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
    def __init__(self) -> None:
        self.ledger = Ledger()

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
        )
        return LocalGrant(self.ledger, charge)

    async def windows(self, owner: str, tier: str, limits: Limits) -> list[Window]:
        return self.ledger.windows(owner, tier, limits, time.monotonic())
