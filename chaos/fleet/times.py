"""The times of a fleet that is to be killed: a fifth of those that it would have at work, so that a
run takes seconds; or these themselves."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Times"]


class Times(Struct, frozen=True):
    """Seconds, unless it says otherwise."""

    slower: float = 1.0
    """So many times, for machines on which everything takes longer."""
    heartbeat: float = 0.2
    dead_after: float = 0.6
    orphan: float = 1.5
    resume: float = 3.0
    drain: float = 10.0
    silence: float = 1.0
    rate: float = 60.0
    """Tokens a second: answers last for seconds, so that a fault meets many."""

    @classmethod
    def stretched(cls, slower: float) -> Times:
        usual = cls()
        return usual._longer(slower, usual.rate / slower)

    @classmethod
    def shipped(cls, rate: float, slower: float = 1.0) -> Times:
        """Those of the configuration when nothing is said, as people have them."""
        usual = cls(heartbeat=1, dead_after=4, orphan=15, resume=60, drain=30, silence=5)
        return usual._longer(slower, rate)

    def _longer(self, slower: float, rate: float) -> Times:
        seconds = ("heartbeat", "dead_after", "orphan", "resume", "drain", "silence")
        longer = {name: getattr(self, name) * slower for name in seconds}
        return Times(slower=slower, rate=rate, **longer)
