"""How long answers paused that lost their gateway or their node: from the fault to the next word
that nobody had seen.

Of a lost gateway only for clients that come back at once, on a WebSocket: others choose themselves
when they look. Of a lost node for whoever was reading.
"""

from __future__ import annotations

from chaos.history import Event, Saw, Sent, Struck
from chaos.lives import Life
from chaos.marks import MARK
from chaos.story import Story

__all__ = ["pauses"]


def pauses(story: Story) -> list[float]:
    """Seconds, of each turn that was hit and went on."""
    found: list[float] = []
    for fault in story.faults:
        for name in fault.turns or ():
            life = story.lives.get(name)
            if life is None:
                continue
            if fault.loses == "gateway":
                at = _resumed(story, life, fault)
            elif fault.loses == "node":
                at = _continued(story, life, fault)
            else:
                at = None
            if at is not None:
                found.append(at - fault.begin)
    return found


def _is_word(event: Event) -> bool:
    return bool(event["type"] == "response.output_text.delta")


def _resumed(story: Story, life: Life, fault: Struck) -> float | None:
    """The first new word on a socket that came for it after the fault."""
    back = {
        entry.client
        for entry in story.history
        if isinstance(entry, Sent)
        and isinstance(entry.event, dict)
        and entry.at > fault.begin
        and entry.event["type"] == "response.resume"
        and entry.event["response_id"] == life.id
    }
    for entry in story.history:
        if isinstance(entry, Saw) and entry.client in back and _is_word(entry.event):
            return entry.at
    return None


def _continued(story: Story, life: Life, fault: Struck) -> float | None:
    """The first word of another engine than before, for whoever read it all the time: who reads
    along and heard nothing before the fault may have come to another gateway than the turn's, and
    is told all at its end, whatever happens."""
    heard = {
        entry.client for entry in story.history if isinstance(entry, Saw) and entry.at < fault.begin
    }
    readers = {
        reading.client
        for reading in life.readings
        if story.joined[reading.client].at < fault.begin
        and not (reading.client in story.left and story.left[reading.client].at < fault.begin)
        and (reading.client in heard or not story.replays(reading.client))
    }
    items = _items(life)
    before = 1
    for entry in story.history:
        if not (isinstance(entry, Saw) and entry.client in readers and _is_word(entry.event)):
            continue
        if entry.event["item_id"] not in items:
            continue
        for found in MARK.finditer(entry.event["delta"]):
            attempt = int(found["attempt"])
            if entry.at > fault.begin and attempt > before:
                return entry.at
            before = max(before, attempt) if entry.at <= fault.begin else before
    return None


def _items(life: Life) -> set[str]:
    return {event["item_id"] for event in life.events if "item_id" in event}
