"""Faults that only a fleet can have, each put into the shipped code by name, beside those of one
node that show in a fleet, too: ``scripts/chaos fleet --defect NAME`` must find it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from chaos.defects import DEFECTS, Change, Defect
from vivace.counters.valkey import ValkeyLimiter
from vivace.gateway.attempts import Attempts
from vivace.gateway.keeping import adopted, recovery
from vivace.gateway.keeping.recovery import Recovery
from vivace.gateway.runs import Run
from vivace.link.gateway_end import GatewayEnd
from vivace.store.postgres import PostgresStore

__all__ = ["FLEET_DEFECTS"]

FLEET_DEFECTS: dict[str, Defect] = {}


def _also(name: str, shown_by: str) -> None:
    """One of those that a node can have as well."""
    known = DEFECTS[name]
    FLEET_DEFECTS[name] = Defect(name, known.what, known.changes, shown_by)


def _defect(
    name: str, shown_by: str
) -> Callable[[Callable[[], Sequence[Change]]], Callable[[], Sequence[Change]]]:
    def take(changes: Callable[[], Sequence[Change]]) -> Callable[[], Sequence[Change]]:
        FLEET_DEFECTS[name] = Defect(name, (changes.__doc__ or "").strip(), changes, shown_by)
        return changes

    return take


_also("successor-without-steer", "none")
_also("steer-handed-back-and-applied", "none")
_also("random-ids", "cut-client")
_also("resumed-one-late", "cut-client")


# -- who may write, and speak ---------------------------------------------------------------------


@_defect("ghost-tells-its-end", "freeze-gateway")
def _() -> Sequence[Change]:
    """Who asks a gateway for a turn that was taken from it is told how that ended there."""

    async def response(self: Run) -> Any:
        if self.turn.ended:
            await self._settled.wait()
        return self._unstored or self.turn.response

    return [(Run, "response", response)]


@_defect("living-taken", "none")
def _() -> Sequence[Change]:
    """Turns of gateways that live are taken, too."""
    orphans, take = PostgresStore.orphans, PostgresStore.take

    async def all_of_them(self: PostgresStore, holder: str, _: float, limit: int = 100) -> Any:
        return await orphans(self, holder, 0.0, limit)

    async def taken(self: PostgresStore, name: str, epoch: int, holder: str, *_: float) -> Any:
        return await take(self, name, epoch, holder, 0.0)

    return [(PostgresStore, "orphans", all_of_them), (PostgresStore, "take", taken)]


@_defect("orphans-left", "kill-gateway")
def _() -> Sequence[Change]:
    """Nobody takes the turns of a gateway that is gone, not even if asked for them."""

    async def look(self: Recovery, **_: Any) -> int:
        await self._keeper.presence.beat()
        return 0

    async def take(self: Recovery, *_: Any) -> None:
        pass

    return [(Recovery, "look", look), (Recovery, "take", take)]


@_defect("word-forgotten-by-taker", "kill-gateway")
def _() -> Sequence[Change]:
    """Who takes a turn over from its node misses the last word of what that has said."""
    read_log = adopted.read_log

    def shorter(record: Any, log: Any) -> Any:
        taken = read_log(record, log)
        if len(taken.entries) > 1:
            del taken.entries[-1]
        return taken

    return [(recovery, "read_log", shorter)]


# -- what nodes say -------------------------------------------------------------------------------


def _heard(difference: int) -> Sequence[Change]:
    """After a break, read on from so many entries behind the right one."""
    welcomed = GatewayEnd.welcomed

    def elsewhere(self: GatewayEnd, welcome: Any) -> Any:
        if welcome.incarnation == self._incarnation:
            for stream in self._streams.values():
                if stream.begun and stream.heard > 1:
                    stream.heard += difference
        return welcomed(self, welcome)

    return [(GatewayEnd, "welcomed", elsewhere)]


@_defect("word-left-out-by-link", "break-link")
def _() -> Sequence[Change]:
    """When a link is back, the first word behind the break is missing."""
    return _heard(1)


@_defect("word-said-twice-by-link", "break-link")
def _() -> Sequence[Change]:
    """When a link is back, the last word before the break is said again."""
    return _heard(-1)


@_defect("word-forgotten-by-node", "kill-node")
def _() -> Sequence[Change]:
    """A node that goes on for another is not shown the last word."""
    pass_on = Attempts._pass_on

    def shorter(self: Attempts, count: int) -> None:
        pass_on(self, count)
        said = self.work.said
        if said is not None and len(said.deltas) > 1:
            self.work = replace(self.work, said=replace(said, deltas=said.deltas[:-1]))

    return [(Attempts, "_pass_on", shorter)]


# -- what gateways count together -----------------------------------------------------------------


@_defect("limits-for-each", "none")
def _() -> Sequence[Change]:
    """Every gateway gives out the whole limit."""

    async def charge(self: ValkeyLimiter, *given: Any, **amounts: Any) -> Any:
        self._own._gateways = lambda: 1
        return await self._own.charge(*given, **amounts)

    return [(ValkeyLimiter, "charge", charge)]
