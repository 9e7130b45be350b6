"""What becomes of a turn whose engine failed: another engine, or its end.

::

    it had said nothing     wherever another may do what this one did not
    it had said something   where the engine is at fault: what was said stays, another goes on
    3 engines died          it may be the turn that they die of, so it is given up
    its engine is drained   wherever another may do it; nobody has failed
    too many wait for it    where the fewest do; what two refuse, more would

An engine that died under a turn may have it again once it is back, and one that was only silent if
nobody else can; one that failed it may not.
"""

from __future__ import annotations

from vivace.errors import (
    CannotContinue,
    EngineAbsent,
    EngineDied,
    EngineDrained,
    EngineError,
    EngineFull,
    EngineSilent,
    GaveUp,
)

__all__ = ["MOST_DEATHS", "Failover"]

MOST_DEATHS = 3
_MOST_REFUSALS = 2
"""A fleet that is full is not asked from node to node."""


class Failover:
    """One turn's failures so far."""

    def __init__(self) -> None:
        self._deaths = 0
        self._refusals = 0
        self.failed: frozenset[str] = frozenset()
        """Engines that shall not have it again."""

    def is_last(self) -> bool:
        """Whether it is given up when this engine dies, too."""
        return self._deaths == MOST_DEATHS - 1

    def after(
        self, error: EngineError, engine: str, *, spoke: bool, begun: bool
    ) -> frozenset[str] | None:
        """The engines that shall not have it next; None when it ends with this error. ``spoke``:
        whether this engine has said something of it, ``begun``: whether any has."""
        died = _died(error)
        self._deaths += died
        if self._deaths >= MOST_DEATHS:
            raise GaveUp(
                f"{self._deaths} engines died one after the other while they worked on this turn, "
                "so it is not given to another. Try it again, or shorten what it asks; whoever "
                "runs this server finds in its log what the engines died of."
            ) from error
        if isinstance(error, EngineDrained):  # it may have it again, should it be brought back
            return self.failed | {engine}
        if isinstance(error, EngineFull):
            self._refusals += 1
            if self._refusals == _MOST_REFUSALS:
                return None
        if not error.elsewhere or (spoke and error.blame != "always"):
            return None
        if isinstance(error, EngineSilent):
            return self.failed
        if not (died and begun):
            self.failed |= {engine}
        return self.failed | {engine}


def _died(error: EngineError) -> bool:
    """Whether it died while it worked on this turn."""
    return isinstance(error, EngineDied) and not isinstance(
        error, EngineAbsent | EngineDrained | CannotContinue
    )
