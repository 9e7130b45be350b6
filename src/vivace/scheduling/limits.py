"""Rate limits: what a key may use in a minute, what it has used, and what it runs.

The generic cell rate algorithm: all that a limit has to remember is one time, its arrival. Using
something moves the arrival on by the part of a minute that this is worth, and a minute ahead of
now everything is used up::

    now                        arrival                now + 60
     ├────────── used ────────────┤───────── left ────────┤

A request is charged by an estimate and settled by what it used. An arrival that is just moved back
then gives away too much: meanwhile the clock has given back part of the estimate already. So open
charges are kept in their order, and settling leaves the arrival that there would be if only what
was used had been charged.

Gateways that share what they count do it by the same law, written once more where they meet
(``counters/limits.lua``). What is refused is worded here for both.
"""

from __future__ import annotations

import functools
import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from vivace.errors import TooManyRequests

__all__ = [
    "Amounts",
    "Charge",
    "Ledger",
    "Limits",
    "Window",
    "advance",
    "check",
    "check_size",
    "costs",
    "headers",
    "remaining",
    "share",
    "wait",
    "windows",
]

_MINUTE = 60.0
_GRAIN = 1e-4
"""Seconds. Rounding must not refuse the last request of a minute, nor one that waited."""
_CONCURRENCY_RETRY = 1.0
"""Nobody knows when a running request ends."""
_SHARE_RETRY = 5.0
"""Nor when gateways can count together again."""

_Positive = Annotated[int, Meta(ge=1)]
_Rate = Annotated[_Positive, Meta(extra={"unit": "per min"})]


class Limits(Struct, frozen=True, kw_only=True):
    """What one key may do in one tier; ``None`` is no limit."""

    requests_per_minute: Annotated[_Rate, Meta(examples=[60])] | None = None
    """Requests that may begin."""
    input_tokens_per_minute: Annotated[_Rate, Meta(examples=[200_000])] | None = None
    """Tokens that may be read: of what was sent and what came before it."""
    output_tokens_per_minute: Annotated[_Rate, Meta(examples=[20_000])] | None = None
    """Tokens that may be written."""
    concurrency: Annotated[_Positive, Meta(examples=[4])] | None = None
    """Requests that may run or wait at once."""

    @property
    def rates(self) -> tuple[int | None, int | None, int | None]:
        return (
            self.requests_per_minute,
            self.input_tokens_per_minute,
            self.output_tokens_per_minute,
        )

    @property
    def any(self) -> bool:
        return self.concurrency is not None or any(rate is not None for rate in self.rates)


_RATED = ("requests", "input tokens", "output tokens")
Amounts = tuple[int, int, int]
"""Of each of these."""


def share(limits: Limits, gateways: int) -> Limits:
    """What one of so many gateways may give out that cannot count together; at least 1 of each."""
    if gateways <= 1:
        return limits
    parts = (each and max(1, each // gateways) for each in (*limits.rates, limits.concurrency))
    requests, read, written, concurrency = parts
    return Limits(
        requests_per_minute=requests,
        input_tokens_per_minute=read,
        output_tokens_per_minute=written,
        concurrency=concurrency,
    )


# -- one limit ------------------------------------------------------------------------------------


def advance(arrival: float, cost: float, now: float) -> float:
    """The arrival after using what is worth so many seconds."""
    return max(arrival, now) + cost


def wait(arrival: float, cost: float, now: float) -> float:
    """For how many seconds this must wait; 0 when it may pass."""
    seconds = advance(arrival, cost, now) - now - _MINUTE
    return seconds if seconds > _GRAIN else 0.0


def remaining(arrival: float, limit: int, now: float) -> int:
    """How much would pass now."""
    seconds = _MINUTE - max(0.0, arrival - now)
    return min(limit, max(0, math.floor((seconds + _GRAIN) * limit / _MINUTE)))


def _cost(amount: int, limit: int) -> float:
    return _MINUTE * amount / limit


def costs(limits: Limits, amounts: Amounts) -> tuple[float | None, float | None, float | None]:
    """What each is worth in seconds; None where there is no limit."""
    requests, read, written = (
        None if limit is None else _cost(amount, limit)
        for limit, amount in zip(limits.rates, amounts, strict=True)
    )
    return requests, read, written


class _Spent(Struct, eq=False):
    """A charge in one dimension; a cost that is open may still become less."""

    at: float
    cost: float
    open: bool
    before: float
    """The arrival without it and all that came after it."""


class _Meter:
    """The arrival of one dimension, and the charges that it comes from."""

    __slots__ = ("_spent", "arrival")

    def __init__(self) -> None:
        self.arrival = -math.inf
        self._spent: list[_Spent] = []

    def charge(self, cost: float, now: float) -> _Spent:
        spent = _Spent(now, cost, open=True, before=self.arrival)
        self._spent.append(spent)
        self.arrival = advance(self.arrival, cost, now)
        return spent

    def settle(self, spent: _Spent, cost: float, now: float) -> None:
        """Costs what the charges since then are many, and those are still open: a request that is
        refused as soon as it was charged costs next to nothing."""
        if cost > spent.cost:
            self._settled(self.charge(cost - spent.cost, now))
        else:
            spent.cost = cost
        self._settled(spent)

    def _settled(self, spent: _Spent) -> None:
        """Two that are settled and follow each other are as good as one."""
        spent.open = False
        place = len(self._spent) - 1
        while self._spent[place] is not spent:
            place -= 1
        first = place - (place > 0 and not self._spent[place - 1].open)
        after = place + 1 + (place + 1 < len(self._spent) and not self._spent[place + 1].open)
        self._spent[first:after] = [functools.reduce(_joined, self._spent[first:after])]
        self.arrival = self._spent[first].before
        for each in self._spent[first:]:
            each.before = self.arrival
            self.arrival = advance(self.arrival, each.cost, each.at)


def _joined(one: _Spent, other: _Spent) -> _Spent:
    at = max(one.at, other.at - one.cost)
    return _Spent(at, one.cost + other.cost, open=False, before=one.before)


# -- all limits -----------------------------------------------------------------------------------


class Charge(Struct, eq=False):
    """What a request was charged, to be settled when it ends."""

    owner: str
    tier: str
    limits: Limits
    spent: tuple[_Spent | None, ...]
    """None where there is no limit."""
    open: bool = True


class Window(Struct, frozen=True):
    """How much of one limit is used at a moment."""

    kind: Literal["requests", "tokens"]
    limit: int
    left: int
    seconds: float
    """Until all of it is given back; beyond a minute, more than all was used."""

    @property
    def used(self) -> float:
        """The share, up to 1."""
        return min(1.0, self.seconds / _MINUTE)


def _window(
    kind: Literal["requests", "tokens"], rate: tuple[float, int | None], now: float
) -> Iterator[Window]:
    arrival, limit = rate
    if limit is not None:
        yield Window(kind, limit, remaining(arrival, limit, now), max(0.0, arrival - now))


def windows(limits: Limits, arrivals: Sequence[float], now: float) -> list[Window]:
    """What is used of each limit; of the two kinds of tokens, the scarcer."""
    requests, *tokens = zip(arrivals, limits.rates, strict=True)
    scarcest = min(
        ((arrival, limit) for arrival, limit in tokens if limit is not None),
        key=lambda each: (-max(each[0], now), each[1]),
        default=(now, None),
    )
    return [*_window("requests", requests, now), *_window("tokens", scarcest, now)]


def headers(windows: Sequence[Window]) -> dict[str, str]:
    """``x-ratelimit-*`` as OpenAI sends them."""
    told: dict[str, str] = {}
    for window in windows:
        told[f"x-ratelimit-limit-{window.kind}"] = str(window.limit)
        told[f"x-ratelimit-remaining-{window.kind}"] = str(window.left)
        told[f"x-ratelimit-reset-{window.kind}"] = _duration(window.seconds)
    return told


class _Account:
    __slots__ = ("meters", "running")

    def __init__(self) -> None:
        self.meters = (_Meter(), _Meter(), _Meter())
        self.running = 0

    @property
    def arrivals(self) -> tuple[float, ...]:
        return tuple(meter.arrival for meter in self.meters)

    def idle(self, now: float) -> bool:
        return not self.running and all(meter.arrival <= now for meter in self.meters)


class Ledger:
    """What every owner has used in every tier; ``now`` is of a clock that never goes back."""

    def __init__(self) -> None:
        self._accounts: OrderedDict[tuple[str, str], _Account] = OrderedDict()

    def __len__(self) -> int:
        """How many pairs of owner and tier are remembered."""
        return len(self._accounts)

    def charge(
        self,
        owner: str,
        tier: str,
        limits: Limits,
        *,
        input_tokens: int,
        output_tokens: int,
        now: float,
        gateways: int = 1,
    ) -> Charge:
        """Charge a request by its estimate, or refuse it and charge nothing.

        Where others do the same and nobody counts for all, each gives out its share alone.
        """
        self._forget(now)
        account = self._accounts.get((owner, tier)) or _Account()
        amounts = (1, input_tokens, output_tokens)
        check_size(tier, limits, amounts, gateways)
        check(tier, limits, amounts, account.arrivals, account.running, now, gateways)
        limits = share(limits, gateways)
        self._accounts[owner, tier] = account
        account.running += 1
        spent = tuple(
            meter.charge(_cost(amount, limit), now) if limit is not None else None
            for meter, amount, limit in zip(account.meters, amounts, limits.rates, strict=True)
        )
        return Charge(owner, tier, limits, spent)

    def settle(self, charge: Charge, *, input_tokens: int, output_tokens: int, now: float) -> None:
        """Charge what was really used instead; the request has ended. Only the first time counts.

        What was not used is as if it had never been charged. What was used beyond the estimate is
        charged now, even where nothing is left: until such a debt is paid, nothing passes.
        """
        if not charge.open:
            return
        charge.open = False
        account = self._accounts[charge.owner, charge.tier]
        account.running -= 1
        amounts = (1, input_tokens, output_tokens)
        for meter, spent, amount, limit in zip(
            account.meters, charge.spent, amounts, charge.limits.rates, strict=True
        ):
            if spent is not None and limit is not None:
                meter.settle(spent, _cost(amount, limit), now)

    def arrivals(self, owner: str, tier: str) -> tuple[float, ...]:
        return (self._accounts.get((owner, tier)) or _Account()).arrivals

    def windows(
        self, owner: str, tier: str, limits: Limits, now: float, *, gateways: int = 1
    ) -> list[Window]:
        account = self._accounts.get((owner, tier)) or _Account()
        return windows(share(limits, gateways), account.arrivals, now)

    def _forget(self, now: float) -> None:
        # A charge adds at most one, so looking at two in turn keeps up, and there is never a pause.
        for _ in range(min(2, len(self._accounts))):
            place, account = self._accounts.popitem(last=False)
            if not account.idle(now):
                self._accounts[place] = account


# -- refusals -------------------------------------------------------------------------------------


def check_size(tier: str, limits: Limits, amounts: Amounts, gateways: int = 1) -> None:
    """Refuse what can never pass, whatever was used."""
    own = share(limits, gateways)
    for what, limit, most, amount in zip(_RATED, limits.rates, own.rates, amounts, strict=True):
        if limit is not None and amount > limit:
            raise TooManyRequests(
                f"This request needs {amount} {what}, and the limit of tier {tier!r} is {limit} a "
                "minute. It can never pass; make it smaller, or ask whoever runs this server."
            )
        if most is not None and amount > most:
            raise TooManyRequests(
                f"This request needs {amount} {what}. The limit of tier {tier!r} is {limit} a "
                f"minute, and while its {gateways} gateways cannot count together, this one may "
                f"give out {most} of them. Make it smaller, or try again later.",
                retry_after=_SHARE_RETRY,
            )


def check(
    tier: str,
    limits: Limits,
    amounts: Amounts,
    arrivals: Sequence[float],
    running: int,
    now: float,
    gateways: int = 1,
) -> None:
    """Refuse what must wait, for as long as the slowest limit takes."""
    own = share(limits, gateways)
    longest, reason = 0.0, ""
    for what, limit, amount, arrival in zip(_RATED, own.rates, amounts, arrivals, strict=True):
        if limit is None:
            continue
        seconds = wait(arrival, _cost(amount, limit), now)
        if seconds > longest:
            left = remaining(arrival, limit, now)
            rest = f"{left} of them are left and this needs {amount}" if left else "all are used up"
            longest = seconds
            reason = (
                f"The limit of tier {tier!r} is {limit} {what} a minute{_alone(gateways)}; {rest}. "
                f"Try again in {_duration(seconds)}."
            )
    if reason:
        raise TooManyRequests(reason, retry_after=longest)
    if own.concurrency is not None and running >= own.concurrency:
        raise TooManyRequests(
            f"The limit of tier {tier!r} is {own.concurrency} requests at a time"
            f"{_alone(gateways)}, and {running} are running. Try again when one of them has ended.",
            retry_after=_CONCURRENCY_RETRY if own.concurrency else None,
        )


def _alone(gateways: int) -> str:
    return f" at this gateway, one of {gateways}" if gateways > 1 else ""


def _duration(seconds: float) -> str:
    """As Go writes it and OpenAI sends it: 20ms, 1.5s, 6m0s."""
    milliseconds = round(seconds * 1000)
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes}m{rest / 1000:g}s" if minutes else f"{rest / 1000:g}s"
