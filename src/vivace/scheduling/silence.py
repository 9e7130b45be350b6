"""Which engines are silent: they have work, and finish no step of it for anyone.

Silence is the engine's and not a turn's: a turn may wait for long because others are served. While
somebody's prompt is read it is longer, for reading is one long step on some engines.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

__all__ = ["Reader", "Silence"]

_FIRST = 30.0
"""Seconds. A first token may take so long, however short the prompt."""
_PATIENCE = 3.0
"""How many times as long as we think it takes."""
_UNKNOWN_RATE = 100.0
"""Tokens read per second by an engine that has not shown how fast it is."""
_TELLING = 256
"""A prompt of fewer tokens says nothing of how fast they are read."""
_SMOOTHING = 0.2
_GAP = 1.0
"""Seconds. If we looked away for longer, we were stopped ourselves, and perhaps the engine too."""


class Reader(Struct, frozen=True):
    """Somebody who waits for an engine's next word."""

    steps: int
    """How often the engine has shown that it works on this."""
    unread: int
    """Tokens of the prompt that it has to read, as well as we know."""
    begun: bool
    """Whether it has read them, and writes."""


class _Ear:
    def __init__(self, now: float) -> None:
        self.readers: dict[str, Reader] = {}
        self.since: dict[str, float] = {}
        self.looked = now
        self.quiet = 0.0
        self.rate: float | None = None
        self.silent = False

    def heard(self, readers: Mapping[str, Reader]) -> list[str]:
        """For whom a step was finished since we looked."""
        return [
            name
            for name, reader in readers.items()
            if reader.steps != (self.readers[name].steps if name in self.readers else 0)
        ]

    def learn(self, name: str, reader: Reader, now: float) -> None:
        """How fast prompts are read; a slow one is believed at once, a quick one by and by."""
        took = now - self.since.get(name, now)
        if reader.unread < _TELLING or took <= 0:
            return
        rate = reader.unread / took
        if self.rate is None or rate < self.rate:
            self.rate = rate
        else:
            self.rate += _SMOOTHING * (rate - self.rate)

    def reading(self, readers: Mapping[str, Reader]) -> float:
        """Seconds that it takes to read what is to be read."""
        unread = sum(reader.unread for reader in readers.values() if not reader.begun)
        return unread / (self.rate or _UNKNOWN_RATE)


class Silence:
    """Looks at engines a few times a second."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        """``seconds`` of silence after which an engine counts as dead."""
        self._seconds = dict(seconds)
        self._ears: dict[str, _Ear] = {}

    def expect(self, engine: str, seconds: float) -> None:
        """It is new, and counts as dead after so long."""
        self._seconds[engine] = seconds

    def forget(self, engine: str) -> None:
        """It is gone."""
        self._seconds.pop(engine, None)
        self._ears.pop(engine, None)

    def look(self, engine: str, readers: Mapping[str, Reader], now: float) -> bool:
        """Whether it is silent, with these waiting for it by name."""
        ear = self._ears.setdefault(engine, _Ear(now))
        heard = ear.heard(readers)
        for name, reader in readers.items():
            if reader.begun and not (name in ear.readers and ear.readers[name].begun):
                ear.learn(name, reader, now)
        if heard:
            ear.silent = False
        ear.quiet = 0.0 if heard or not readers else ear.quiet + min(now - ear.looked, _GAP)
        ear.looked = now
        ear.readers = dict(readers)
        ear.since = {name: ear.since.get(name, now) for name in readers}
        ear.silent = ear.silent or ear.quiet >= self._patience(engine, ear)
        return ear.silent

    def spoke(self, engine: str) -> None:
        """It has answered somebody who only asked whether it would."""
        if engine in self._ears:
            self._ears[engine].silent = False
            self._ears[engine].quiet = 0.0

    def silent(self, engine: str) -> bool:
        return engine in self._ears and self._ears[engine].silent

    def _patience(self, engine: str, ear: _Ear) -> float:
        seconds = self._seconds[engine]
        if all(reader.begun for reader in ear.readers.values()):
            return seconds
        return max(seconds, _FIRST, _PATIENCE * ear.reading(ear.readers))
