"""I2: every response ends once, and everybody who sees the end sees the same one."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.invariants.found import Found
from chaos.lives import ENDED, Observed
from chaos.story import Story

__all__ = ["one_end"]


def one_end(story: Story) -> Found:
    yield from _never(story)
    for name, ends in story.ends.items():
        yield from _otherwise(name, ends)
        first = min(end.at for end in ends)
        for call in story.asked("GET", name):
            open_ = call.status == 200 and call.answer["status"] not in ENDED
            if open_ and call.begin > first:
                yield f"{name} had ended, and GET says {call.answer['status']}", (name,)


def _never(story: Story) -> Found:
    for life in story.lives.values() if story.calm is not None else ():
        for reading in life.readings:
            over = reading.ended or reading.moved or not story.stayed(reading.client)
            if reading.asked and not over:
                yield f"{life.id} never ended for {reading.client}", (life.id,)


def _otherwise(name: str, ends: Sequence[Observed]) -> Found:
    first = ends[0]
    for other in ends[1:]:
        for field in ("status", "output", "usage"):
            if other.response[field] != first.response[field]:
                seen = f"{first.where} saw one {field}, {other.where} another"
                yield f"{name} ended in two ways: {seen}", (name,)
