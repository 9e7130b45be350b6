"""Where a conversation runs: at home, where its past is cached, as long as home can take it.

Load balancing by prefix cache, with a circuit breaker for each engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import ceil, inf, log
from typing import Literal

from msgspec import Struct

__all__ = ["BOUND", "Breaker", "Circuit", "Placed", "Replica", "Ring", "Why", "place", "rank"]

Why = Literal["home", "full", "slow", "down"]
Circuit = Literal["closed", "open", "half_open"]

BOUND = 2.0
"""How many times its fair share an engine may hold before conversations leave it: a cache that is
lost costs more than some unevenness."""
SMOOTHING = 0.2
"""How much the newest time to a first token counts against all before it."""


class Replica(Struct, frozen=True):
    """One engine as it is now."""

    name: str
    slots: int
    running: int = 0
    healthy: bool = True
    """It answers, and its circuit is not open."""
    slow: bool = False


class Placed(Struct, frozen=True):
    """Where a conversation goes, and what was wrong with its home if it goes elsewhere."""

    name: str
    why: Why


class Ring:
    """Every key's own order of the replicas, by weighted rendezvous hashing.

    A replica that comes or goes leaves the order of the others as it was.
    """

    def __init__(self, slots: Mapping[str, int]) -> None:
        self._slots = {name: count for name, count in slots.items() if count > 0}

    def order(self, key: str) -> Sequence[str]:
        """The replicas, best first; twice the slots are home to twice the keys."""
        return sorted(self._slots, key=lambda name: (self._distance(name, key), name))

    def _distance(self, name: str, key: str) -> float:
        hashed = blake2b(f"{name}\0{key}".encode(), digest_size=8).digest()
        # 52 bits and a half: a float holds it exactly, and it is never 0 or 1.
        fraction = ((int.from_bytes(hashed, "big") >> 12) + 0.5) / 2**52
        return -log(fraction) / self._slots[name]


def place(key: str, replicas: Sequence[Replica], *, bound: float = 1.25) -> Placed | None:
    """The first replica in the key's order that can take it; None when nobody has a free slot.

    While others have room, no replica takes more than ``bound`` times its fair share, rounded up:
    consistent hashing with bounded loads. A slow one's share is a quarter, which is still enough to
    show that it has recovered. One that has most of its slots free takes what is at home there,
    whatever the others do: where little runs, a fair share is next to nothing.
    """
    known = {replica.name: replica for replica in replicas}
    usable = [replica for replica in known.values() if replica.healthy and replica.slots > 0]
    running = 1 + sum(replica.running for replica in usable)
    weight = sum(_weight(replica) for replica in usable)
    why: Why = "home"
    spare: Placed | None = None
    for name in Ring({name: replica.slots for name, replica in known.items()}).order(key):
        replica = known[name]
        reason: Why = "full"
        if not replica.healthy:
            reason = "down"
        elif replica.running < replica.slots:
            share = ceil(bound * running * _weight(replica) / weight)
            if replica.running < max(share, _at_ease(replica)):
                return Placed(name, why)
            spare = spare or Placed(name, why)
            reason = "slow" if replica.slow else "full"
        if why == "home":
            why = reason
    return spare  # more than its share, but the others are full


def rank(key: str, running: Sequence[int], slots: int) -> int:
    """Which part of an engine that has several, each with a cache of its own: the same choice as
    between engines. ``running``: how many turns each has, of at most ``slots``. Where all are
    full, one waits at home."""
    parts = [Replica(f"rank {part}", slots, count) for part, count in enumerate(running)]
    placed = place(key, parts, bound=BOUND)
    name = (
        placed.name if placed is not None else Ring({each.name: 1 for each in parts}).order(key)[0]
    )
    return int(name.removeprefix("rank "))


def _at_ease(replica: Replica) -> int:
    """How many it may have without anybody noticing."""
    return 1 if replica.slow else ceil(replica.slots / 4)


def _weight(replica: Replica) -> int:
    return replica.slots if replica.slow else 4 * replica.slots


class Breaker:
    """A circuit breaker: keeps calls away from an engine that fails, and knows one that is slow.

    ``state`` only looks. ``begin`` is for who calls next, and returns the epoch of the call, which
    is told again with how it went. A new epoch begins when the circuit opens and when a probe goes
    out, so that calls from before say nothing of the engine as it is now. Until the one probe is
    heard of, the circuit is open to everyone else.

    An engine that asks to be left alone for a while is, which is no failure: nobody need probe it.
    """

    def __init__(
        self,
        *,
        failures: int = 3,
        cooldown: float = 5,
        longest: float = 60,
        target: float = inf,
        epoch: int = 0,
    ) -> None:
        """``epoch``: later than those of all calls that shall say nothing of it."""
        self._limit = failures
        self._cooldown = cooldown
        self._longest = longest
        self._target = target
        self._epoch = epoch
        self._failures = 0
        self._wait = cooldown
        self._open_until: float | None = None
        self._rests_until = -inf
        self._first_token = 0.0

    @property
    def epoch(self) -> int:
        return self._epoch

    def state(self, now: float) -> Circuit:
        if now < self._rests_until:
            return "open"
        if self._open_until is None:
            return "closed"
        return "open" if now < self._open_until else "half_open"

    def opens_in(self, now: float) -> float:
        """Seconds until a call may begin."""
        return max(0.0, self._rests_until - now, (self._open_until or now) - now)

    def begin(self, now: float) -> int | None:
        """The epoch of a call that begins now; None while the circuit is open."""
        state = self.state(now)
        if state == "open":
            return None
        if state == "half_open":
            self._epoch += 1
            self._open_until = now + self._longest  # a probe unheard of for so long is lost
        return self._epoch

    def succeeded(self, epoch: int) -> None:
        if epoch == self._epoch:
            self._failures = 0
            self._wait = self._cooldown
            self._open_until = None

    def failed(self, epoch: int, now: float) -> None:
        if epoch != self._epoch:
            return
        self._failures += 1
        if self._open_until is not None or self._failures >= self._limit:
            self._epoch += 1
            self._open_until = now + self._wait
            self._wait = min(2 * self._wait, self._longest)

    def dropped(self, epoch: int, now: float) -> None:
        """A client left, which says nothing of the engine: if it was the probe's, the next call is
        the probe."""
        if epoch == self._epoch and self._open_until is not None:
            self._epoch += 1
            self._open_until = now

    def rest(self, until: float) -> None:
        """It asked to be left alone."""
        self._rests_until = max(self._rests_until, until)

    def first_token_took(self, seconds: float) -> None:
        self._first_token += SMOOTHING * (seconds - self._first_token)

    @property
    def is_slow(self) -> bool:
        return self._first_token > self._target
