"""I1, of gateways that share a store: what was accepted is not given up because one of them, or one
engine node, is gone."""

from __future__ import annotations

from chaos.history import Event, Struck
from chaos.invariants.found import Found
from chaos.lives import Life
from chaos.story import Story

__all__ = ["lost"]

_LOST = "lost_midway"
_REFUSED = frozenset({"rate_limit_exceeded", "server_shutting_down"})
"""What a turn that follows a steered one may be told as it begins: it is asked for like any, and a
gateway that is told to stop begins none."""
_JUST_BEFORE = 0.5
"""Seconds: of what began so short a time before a fault nobody knows where it was."""


def lost(story: Story) -> Found:
    if story.started.gateways < 2 or story.stalls:  # who stood still, lost everybody at once
        return
    for life in story.lives.values():
        end = _end_of(story, life)
        code = ((end or {}).get("error") or {}).get("code")
        if code == _LOST and not _may_be_lost(story, life):
            yield f"{life.id} was lost midway, and not all was lost that had it", (life.id,)
        elif end is not None and end["status"] == "failed" and code not in (_LOST, *_REFUSED):
            yield f"{life.id} failed: {code}", (life.id,)
        if life.jumped and not _may_be_lost(story, life):
            yield f"{life.id} ran again, and not all was lost that had it", (life.id,)


def _end_of(story: Story, life: Life) -> Event | None:
    ends = story.ends.get(life.id)
    return ends[0].response if ends else None


def _may_be_lost(story: Story, life: Life) -> bool:
    """Only if both were lost, its gateway and its node."""
    return any(_lost_all(fault, life) for fault in story.faults)


def _lost_all(fault: Struck, life: Life) -> bool:
    if fault.loses != "both":
        return False
    began_then = fault.begin - _JUST_BEFORE <= life.at <= (fault.end or fault.begin)
    return life.id in (fault.turns or ()) or began_then
