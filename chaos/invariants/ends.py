"""I2: every response ends once, and everybody who sees the end sees the same one."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from chaos.history import Saw, Sent
from chaos.invariants.found import Found
from chaos.lives import ENDED, TERMINAL, Observed
from chaos.story import Story

__all__ = ["one_end"]

_PATIENCE = 5.0
"""Seconds after an end is on record in which everybody who waits for it knows it, too."""


def one_end(story: Story) -> Found:
    yield from _never(story)
    yield from _in_vain(story)
    for name, ends in story.ends.items():
        yield from _otherwise(name, ends)
        first = _known(story, name, ends)
        for call in story.asked("GET", name):
            open_ = call.status == 200 and call.answer["status"] not in ENDED
            if open_ and call.begin > first:
                yield f"{name} had ended, and GET says {call.answer['status']}", (name,)


def _known(story: Story, name: str, ends: Sequence[Observed]) -> float:
    """From when on everybody who asks is told of it. One that says of itself that it is not stored
    is known to its own gateway alone until it is on record."""
    stored = [end.at for end in ends if end.response.get("store", True)]
    return min(stored, default=story.ended_on_record(name) or inf)


def _never(story: Story) -> Found:
    for life in story.lives.values() if story.calm is not None else ():
        for reading in life.readings:
            over = reading.ended or reading.moved or not story.stayed(reading.client)
            if reading.asked and not over:
                yield f"{life.id} never ended for {reading.client}", (life.id,)


def _in_vain(story: Story) -> Found:
    """Whoever comes back for a response that has ended is told its end, or why not."""
    told: dict[str, float] = {}
    for entry in story.history:
        if isinstance(entry, Saw) and entry.event["type"] in (*TERMINAL, "error"):
            told[entry.client] = entry.at
    for sent in story.history:
        if not (isinstance(sent, Sent) and isinstance(sent.event, dict)):
            continue
        left = story.left.get(sent.client)
        if sent.event["type"] != "response.resume" or left is None or left.how != "left":
            continue
        name = sent.event["response_id"]
        known = story.ended_on_record(name)
        if known is None:
            continue
        if told.get(sent.client, 0.0) < sent.at and max(known, sent.at) + _PATIENCE < left.at:
            yield f"{sent.client} came back for {name}, and was never told its end", (name,)


def _otherwise(name: str, ends: Sequence[Observed]) -> Found:
    first = ends[0]
    for other in ends[1:]:
        for field in ("status", "output", "usage"):
            if other.response[field] != first.response[field]:
                seen = f"{first.where} saw one {field}, {other.where} another"
                yield f"{name} ended in two ways: {seen}", (name,)
