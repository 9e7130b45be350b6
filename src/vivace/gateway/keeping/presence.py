"""That this gateway lives, as others know it that share its store; and for how long it may speak.

Who was not heard of for ``dead_after`` seconds may have lost its turns to another. So it counts the
seconds itself: when it has not beaten for almost as long, because it was frozen or the store is
away, it says nothing more of its turns until the store has told which of them are still its own.

A gateway that has no company need not be silent when the store is away: nobody takes its turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from vivace.errors import Unavailable
from vivace.store.base import Store

__all__ = ["Claims", "Presence"]

Claims = Mapping[str, tuple[int, Callable[[], Awaitable[None]]]]
"""Turns with the epoch by which they are held here, and what is called when they are not."""

_MARGIN = 0.9
"""Of the time after which others count it as gone: it finds out before they do."""
_COMPANY = 60.0
"""Seconds for which another gateway counts as company after it was heard of."""
_PATIENCE = 5.0
"""Seconds that a request waits until it is known whose turns they are."""


class Presence:
    def __init__(self, store: Store, holder: str, dead_after: float | None = None) -> None:
        """``dead_after`` is None where nobody shares the store."""
        self._store = store
        self._holder = holder
        self._lease = math.inf if dead_after is None else dead_after * _MARGIN
        self._until = math.inf if dead_after is None else 0.0
        self.shared = dead_after is not None
        self.dead_after = dead_after or 0.0
        self._alone = False
        self.gateways = 1
        """How many share the store, this one among them, as far as they were heard of."""
        self._awake = 0.0
        self._renewed = asyncio.Event()
        self.claims: list[Callable[[], Claims]] = []
        """Who knows of turns that are held here."""
        self._back_at = -math.inf
        self._beating = asyncio.Lock()
        self._away = False
        self._back = asyncio.Event()
        self._back.set()

    @property
    def sure(self) -> bool:
        """Whether nobody can have taken what is held here."""
        now = time.monotonic()
        return now < self._until or (self._alone and now < self._awake + self._lease)

    @property
    def may_judge(self) -> bool:
        """Whether who was not heard of is gone. Who was cut off itself waits as long as that takes:
        others may have been cut off with it, and be back by then."""
        return time.monotonic() >= self._back_at + self.dead_after

    async def renewed(self) -> None:
        """Wait until that is so again; then what was taken meanwhile is known, too."""
        while not self.sure:
            self._renewed.clear()
            await self._renewed.wait()

    async def settled(self) -> None:
        """The same for a request, which does not wait for ever."""
        if self.sure:
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                await self.renewed()
        except TimeoutError:
            raise Unavailable(
                "The store cannot be reached, so it is not known whether this server still has "
                "the response. Try again.",
                code="store_unavailable",
                retry_after=1,
            ) from None

    async def beat(self) -> None:
        """Say that this gateway lives, unless it is away. Raises ``StoreError``."""
        async with self._beating:
            if not self._away:
                await self._beat()

    async def _beat(self) -> None:
        began = time.monotonic()
        await self._store.beat(self._holder, self.dead_after)
        if not self.shared:
            return
        company = await self._store.company(self._holder, _COMPANY)
        if not self.sure:
            if self._until:  # else it was only just started, or silent of its own will
                self._back_at = began
            await self.look()
        self._alone = not company
        self.gateways = company + 1
        self._until = began + self._lease
        self._renewed.set()

    @contextlib.asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Inside the block others may take what is held here: nothing is said of it, and no
        heartbeat calls it back. After it, what was taken is known before anything is said."""
        async with self._beating:
            self._away, self._until, self._alone = True, 0.0, False
            self._back.clear()
        try:
            yield
        finally:
            self._away = False  # the next heartbeat looks at what was taken
            self._back.set()

    async def back(self) -> None:
        """Wait until it is not away: what would come on record meanwhile, others would find without
        what was said of it."""
        await self._back.wait()

    async def look(self) -> None:
        """Let go of what others have taken. What begins or ends meanwhile is looked at by its own
        writes. Raises ``StoreError``."""
        held_here = {name: claim for claims in self.claims for name, claim in claims().items()}
        on_record = await self._store.held(self._holder) if held_here else {}
        for name, (epoch, lose) in held_here.items():
            if on_record.get(name) != epoch:
                await lose()

    async def watch(self) -> None:
        """Know when it was frozen itself, which is not to be told from the store's being away."""
        while True:
            now = time.monotonic()
            if now > self._awake + self._lease:
                self._alone = False
            self._awake = now
            await asyncio.sleep(self._lease / 4)
