"""Which turn of a loop is under way, and which were run twice: told by what engines were shown.

Whatever ids and keys say, an engine that is shown the same twice has worked twice. No two turns of
loops show it the same, since each has the name of its loop in it and all that came before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from chaos.history import Entry, Worked

__all__ = ["Asked", "asked_of"]

Shown = tuple[str, ...]


class Asked(Struct, frozen=True):
    """What engines were asked in a loop."""

    turns: int
    """Different ones."""
    begun: int
    """Answers to them, from their first word on."""
    twice: int
    """How often an answer was begun that another engine, or the same, had begun before. One that
    goes on after the words of another was not."""
    since: float | None
    """When the newest was begun, if that is under way."""


def asked_of(told: Iterable[Entry], since: float) -> Asked:
    """``told``: by the witnesses of all engines, in any order; what was before ``since`` is of
    others."""
    runs: dict[Shown, int] = defaultdict(int)
    working: dict[tuple[str, str, int], Worked] = {}
    newest: Worked | None = None
    for entry in sorted(_work(told, since), key=lambda entry: entry.at):
        place = entry.incarnation, entry.response, entry.attempt
        if entry.what == "stopped":
            working.pop(place, None)
        elif entry.answers:
            working[place] = newest = entry
            runs[entry.shown] += not entry.said
    open_ = newest is not None and newest in working.values()
    twice = sum(count - 1 for count in runs.values() if count)
    begun = newest.at if newest is not None and open_ else None
    return Asked(len(runs), sum(runs.values()), twice, begun)


def _work(told: Iterable[Entry], since: float) -> Iterable[Worked]:
    return (entry for entry in told if isinstance(entry, Worked) and entry.at >= since)
