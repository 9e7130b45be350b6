"""I6: on a lane one response runs at a time, and a successor follows the steered one."""

from __future__ import annotations

from chaos.invariants.found import Found
from chaos.story import Story

__all__ = ["order"]


def order(story: Story) -> Found:
    for name, what in story.disorder:
        yield f"{name or 'an event'}: {what}", (name,) if name else ()
    for life in story.lives.values():
        if life.succeeds and life.before is not None and life.parent != life.before.id:
            yield f"{life.id} succeeds {life.before.id} and follows {life.parent}", (life.id,)
        if life.succeeds and life.before is not None and life.before.end is None:
            yield f"{life.id} began before {life.before.id} ended", (life.id, life.before.id)
