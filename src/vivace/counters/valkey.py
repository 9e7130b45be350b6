"""Rate limits of the keys that ask any gateway, counted in Valkey (or Redis).

One call of a script charges requests, tokens and concurrency together, and one settles them
(``limits.lua``). Valkey may be lost at any time. While it is, each gateway counts alone and gives
out its share, so a loss lets pass at most one limit more, and a request has waited for it once at
most, 20 ms. When it is back each gateway tells it what it gave out alone; and if it has forgotten,
what was used before, and what runs.

What is sent there is numbers, ids of charges, and a digest in place of the owner and the tier.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files

from msgspec import Struct
from msgspec.structs import replace

from vivace.counters.line import Answer, Line
from vivace.counters.local import LocalGrant, LocalLimiter
from vivace.scheduling import limits as law
from vivace.scheduling.limits import Amounts, Limits, Window

__all__ = ["SCRIPT", "ValkeyGrant", "ValkeyLimiter"]

SCRIPT = files("vivace.counters").joinpath("limits.lua").read_text("utf-8")

_LEASE = 30.0
"""Seconds for which a charge stays open without being renewed: its gateway may have died."""
_RENEW_EVERY = 5.0
_RENEWED_AT_ONCE = 200
_FRESH = 0.05
"""Seconds for which what a charge told of the limits need not be asked again."""
_MOST_SEEN = 1000
_MOST_OWED = 10_000
_NOTHING = ("", "", "")

Keys = tuple[str, str, str]
Place = tuple[str, str]
"""An owner, and a tier."""
Three = tuple[float, float, float]
_NONE: Three = (0.0, 0.0, 0.0)


class _Seen(Struct, frozen=True):
    """What Valkey told of one owner's use of a tier."""

    at: float
    """By our clock."""
    now: float
    """By its clock."""
    arrivals: Three
    is_old: bool = False
    """Whether something has been settled since."""


class _Alone(Struct, frozen=True):
    """What one owner used of a tier while nobody counted for all gateways."""

    before: tuple[float, ...]
    """The arrivals that our own count had, by our clock."""
    worth: Three
    """A second of our share, in seconds of the limit."""


class ValkeyGrant:
    __slots__ = ("_amounts", "_limiter", "_limits", "_open", "id", "place")

    def __init__(
        self,
        limiter: ValkeyLimiter,
        name: str,
        place: Place,
        limits: Limits,
        amounts: Amounts,
    ) -> None:
        self.id = name
        self.place = place
        self._limiter = limiter
        self._limits = limits
        self._amounts = amounts
        self._open = True

    async def settle(self, *, input_tokens: int, output_tokens: int) -> None:
        if self._open:
            self._open = False
            charged = _written(law.costs(self._limits, self._amounts))
            used = _written(law.costs(self._limits, (1, input_tokens, output_tokens)))
            await self._limiter.settle(self, (*charged, *used))


class ValkeyLimiter:
    def __init__(
        self,
        line: Line,
        gateways: Callable[[], int] = lambda: 1,
        *,
        lease: float = _LEASE,
        renew_every: float = _RENEW_EVERY,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """``gateways``: how many there were when they were last seen. ``clock`` is for tests; it
        is Valkey's own otherwise."""
        self._line = line
        self._line.came_up = self._restore
        self._gateways = gateways
        self._own = LocalLimiter(gateways)
        self._alone: dict[Place, _Alone] = {}
        self._lease = lease
        self._renew_every = renew_every
        self._clock = clock
        self._names = itertools.count()
        self._name = secrets.token_hex(8)
        self._open: dict[str, Place] = {}
        """Charges in Valkey that are to be renewed, and whose they are."""
        self._owed: deque[tuple[float, Place, str, tuple[str, ...]]] = deque(maxlen=_MOST_OWED)
        """Settlements that Valkey has not confirmed: until when they mean anything, and what."""
        self._seen: OrderedDict[Place, _Seen] = OrderedDict()

    @property
    def shared(self) -> bool:
        return self._line.up

    @property
    def losses(self) -> int:
        return self._line.losses

    # -- charging ---------------------------------------------------------------------------------

    async def charge(
        self, owner: str, tier: str, limits: Limits, *, input_tokens: int, output_tokens: int
    ) -> ValkeyGrant | LocalGrant:
        amounts = (1, input_tokens, output_tokens)
        if limits.any and self._line.up:
            law.check_size(tier, limits, amounts)
            name = f"{self._name}{next(self._names) % 2**32:08x}"
            answer = await self._admit(name, (owner, tier), limits, amounts)
            if answer is not None:
                self._heard((owner, tier), answer)
                if not answer[0]:
                    self._refuse((owner, tier), limits, amounts, answer[5])
                self._open[name] = (owner, tier)
                return ValkeyGrant(self, name, (owner, tier), limits, amounts)
        if limits.any:
            self._count_alone((owner, tier), limits)
        return await self._own.charge(
            owner, tier, limits, input_tokens=input_tokens, output_tokens=output_tokens
        )

    async def _admit(self, name: str, place: Place, limits: Limits, amounts: Amounts) -> Answer:
        most = "" if limits.concurrency is None else str(limits.concurrency)
        costs = _written(law.costs(limits, amounts))
        answer: Answer = None
        try:
            answer = await self._ask(place, "admit", name, repr(self._lease), most, *costs)
        finally:
            if answer is None:  # nobody is going to settle what may have been charged
                self._settle(name, place, (*costs, *_NOTHING))
        return answer

    def _refuse(self, place: Place, limits: Limits, amounts: Amounts, running: int) -> None:
        seen = self._seen[place]
        law.check(place[1], limits, amounts, seen.arrivals, running, seen.now)
        raise RuntimeError("limits.lua refused what limits.py lets pass")

    # -- settling ---------------------------------------------------------------------------------

    async def settle(self, grant: ValkeyGrant, costs: tuple[str, ...]) -> None:
        """``costs``: what it was charged, and what it used."""
        self._open.pop(grant.id, None)
        if (seen := self._seen.get(grant.place)) is not None:
            self._seen[grant.place] = replace(seen, is_old=True)
        # Whoever is told of the end may ask again at once, and finds room.
        await asyncio.wait({self._settle(grant.id, grant.place, costs)})

    def _settle(self, name: str, place: Place, costs: tuple[str, ...]) -> asyncio.Future[Answer]:
        """What is not confirmed is sent again; the second time changes nothing."""
        return self._send_settlement(time.monotonic() + self._lease, place, name, costs)

    def _send_settlement(
        self, until: float, place: Place, name: str, costs: tuple[str, ...]
    ) -> asyncio.Future[Answer]:
        def told(answer: asyncio.Future[Answer]) -> None:
            if answer.cancelled() or answer.result() is None:
                self._owed.append((until, place, name, costs))
            else:
                self._heard(place, answer.result())

        answer = self._ask(place, "settle", name, repr(self._lease), *costs)
        answer.add_done_callback(told)
        return answer

    # -- looking ----------------------------------------------------------------------------------

    async def windows(self, owner: str, tier: str, limits: Limits) -> list[Window]:
        place = (owner, tier)
        if limits.any and self._line.up and not self._is_fresh(place):
            answer = await self._ask(place, "look")
            if answer is not None:
                self._heard(place, answer)
        if limits.any and self._line.up and (seen := self._seen.get(place)) is not None:
            return law.windows(limits, seen.arrivals, self._now_there(seen))
        return await self._own.windows(owner, tier, limits)

    def _is_fresh(self, place: Place) -> bool:
        seen = self._seen.get(place)
        if seen is None or seen.is_old or self._clock:
            return False
        return time.monotonic() - seen.at < _FRESH

    def _now_there(self, seen: _Seen) -> float:
        return seen.now + (0.0 if self._clock else time.monotonic() - seen.at)

    def _heard(self, place: Place, answer: Answer) -> None:
        now, requests, read, written = map(float, answer[1:5])
        self._seen.pop(place, None)
        self._seen[place] = _Seen(time.monotonic(), now, (requests, read, written))
        if len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)

    # -- while it is away, and when it is back ----------------------------------------------------

    def _count_alone(self, place: Place, limits: Limits) -> None:
        if place not in self._alone and len(self._alone) < _MOST_SEEN:
            before = self._own.ledger.arrivals(*place)
            self._alone[place] = _Alone(before, _worth(limits, self._gateways()))

    def _restore(self, forgot: bool) -> None:
        """What it cannot know is told before anybody asks. What runs is known by its estimate
        there; how much less that comes to be is not told any more."""
        alone, self._alone = self._alone, {}
        runs: dict[Place, list[str]] = {}
        if forgot:
            for name, place in self._open.items():
                runs.setdefault(place, []).append(name)
        for place in {*alone, *runs, *(self._seen if forgot else ())}:
            used = self._used(place) if forgot else _NONE
            out = self._given_out(place, alone[place]) if place in alone else _NONE
            names = runs.get(place, [])
            if names or any(used) or any(out):
                self._tell(place, (*used, *out), names)

    def _used(self, place: Place) -> Three:
        """As far as we know, by the seconds until all of it is given back."""
        if (seen := self._seen.get(place)) is None:
            return _NONE
        now = self._now_there(seen)
        requests, read, written = (max(0.0, each - now) for each in seen.arrivals)
        return requests, read, written

    def _given_out(self, place: Place, alone: _Alone) -> Three:
        now, arrivals = time.monotonic(), self._own.ledger.arrivals(*place)
        requests, read, written = (
            max(0.0, arrival - max(before, now)) * worth
            for arrival, before, worth in zip(arrivals, alone.before, alone.worth, strict=True)
        )
        return requests, read, written

    def _tell(self, place: Place, seconds: Iterable[float], names: Sequence[str]) -> None:
        def told(answer: asyncio.Future[Answer]) -> None:
            if not answer.cancelled() and answer.result() is not None:
                self._heard(place, answer.result())

        lease, numbers = repr(self._lease), map(repr, seconds)
        answer = self._ask(place, "restore", lease, *numbers, *names[:_RENEWED_AT_ONCE])
        answer.add_done_callback(told)
        if rest := names[_RENEWED_AT_ONCE:]:
            self._tell(place, (*_NONE, *_NONE), rest)

    # -- all the time -----------------------------------------------------------------------------

    async def open(self) -> None:
        await self._line.probe()

    async def watch(self) -> None:
        """Finds Valkey again when it was lost, and keeps open what runs here."""
        while True:
            if not self._line.up:
                await self._line.reconnect()
            self._pay()
            await self._renew()
            await self._line.lost(self._renew_every)

    def _pay(self) -> None:
        now, owed = time.monotonic(), [*self._owed]
        self._owed.clear()
        for until, place, name, costs in owed:
            if until > now:
                self._send_settlement(until, place, name, costs)

    async def _renew(self) -> None:
        """Few at a time, so that who asks meanwhile does not wait for all of them."""
        places: dict[Place, list[str]] = {}
        for name, place in self._open.items():
            places.setdefault(place, []).append(name)
        for place, names in places.items():
            for first in range(0, len(names), _RENEWED_AT_ONCE):
                some = names[first : first + _RENEWED_AT_ONCE]
                await self._ask(place, "renew", repr(self._lease), *some)

    async def close(self) -> None:
        await self._line.close()

    def _ask(self, place: Place, what: str, *arguments: str) -> asyncio.Future[Answer]:
        return self._line.ask(_keys(*place), what, self._now(), *arguments)

    def _now(self) -> str:
        return "" if self._clock is None else repr(self._clock())


def _keys(owner: str, tier: str) -> Keys:
    """The braces keep them on one server of a cluster."""
    who = hashlib.blake2b(f"{owner}\0{tier}".encode(), digest_size=16).hexdigest()
    head = f"vivace:limits:{{{who}}}"
    return f"{head}:arrivals", f"{head}:charges", f"{head}:turns"


def _worth(limits: Limits, gateways: int) -> Three:
    own = law.share(limits, gateways)
    requests, read, written = (
        part / limit if part is not None and limit is not None else 0.0
        for part, limit in zip(own.rates, limits.rates, strict=True)
    )
    return requests, read, written


def _written(costs: Iterable[float | None]) -> tuple[str, ...]:
    return tuple("" if cost is None else repr(cost) for cost in costs)
