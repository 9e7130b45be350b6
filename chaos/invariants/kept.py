"""I1: what was to be kept is there when all is calm, and has ended; what was deleted is gone."""

from __future__ import annotations

from chaos.invariants.found import Found
from chaos.invariants.lost import lost
from chaos.lives import ENDED, Life
from chaos.story import Story

__all__ = ["kept"]


def kept(story: Story) -> Found:
    yield from lost(story)
    for life in story.lives.values():
        gone = story.deletions.get(life.id)
        if gone is None:
            yield from _still_there(story, life)
        elif gone.status == 200 and gone.end is not None:
            yield from _really_gone(story, life, gone.end)


def _still_there(story: Story, life: Life) -> Found:
    if not life.stored or story.calm is None:
        return
    if "turns" in story.tables and life.id not in story.rows:
        yield f"{life.id} was to be kept, and is not on record", (life.id,)
        return
    for call in story.asked("GET", life.id):
        if call.owner != life.owner or call.begin < story.calm.at or call.status is None:
            continue
        if call.status != 200:
            at = f" of {call.gateway}" if call.gateway else ""
            yield f"{life.id} was to be kept, and GET{at} answers {call.status}", (life.id,)
        elif call.answer["status"] not in ENDED:
            yield f"{life.id} is {call.answer['status']} though all is calm", (life.id,)


def _really_gone(story: Story, life: Life, since: float) -> Found:
    for call in story.asked("GET", life.id):
        if call.begin > since and call.status == 200:
            yield f"{life.id} was deleted and is still there", (life.id,)
    if life.id in story.rows:
        yield f"{life.id} was deleted and is still on record", (life.id,)
    for child in story.lives.values():
        asked = story.creates.get(child.tag or "")
        if child.parent == life.id and not child.succeeds and asked and asked.at > since:
            yield f"{life.id} was deleted and {child.id} continues it", (life.id, child.id)
