"""I10: nobody sees, continues, stops or deletes what belongs to another; no log has words."""

from __future__ import annotations

from chaos.history import Event, Printed, Saw
from chaos.invariants.found import Found
from chaos.marks import MARK
from chaos.story import Story

__all__ = ["owners"]


def owners(story: Story) -> Found:
    for life in story.lives.values():
        parent = story.lives.get(life.parent or "")
        if parent is not None and parent.owner != life.owner:
            yield f"{life.owner} continued {parent.id} of {parent.owner}", (life.id, parent.id)
    yield from _called(story)
    for entry in story.history:
        if isinstance(entry, Saw) and (name := _named(entry.event)) in story.lives:
            owner = story.joined[entry.client].owner
            if story.lives[name].owner != owner:
                yield f"{owner} saw {entry.event['type']} of {name}", (name,)
    for name, row in story.rows.items():
        if name in story.lives and story.lives[name].owner != row["owner"]:
            whose = story.lives[name].owner
            yield f"{name} of {whose} is on record as {row['owner']}'s", (name,)
    yield from _printed(story)


def _called(story: Story) -> Found:
    for call in story.calls:
        for name in call.path.partition("?")[0].split("/"):
            whose = story.lives[name].owner if name in story.lives else call.owner
            away = (call.status or 0) >= 500 and story.disturbed(call.begin, call.end)
            if whose != call.owner and call.status not in (404, None) and not away:
                what = f"{call.method} {call.path} and got {call.status}"
                yield f"{call.owner} said {what}, of {whose}", (name,)


def _named(event: Event) -> str:
    return (event.get("response") or {}).get("id") or event.get("response_id") or ""


def _printed(story: Story) -> Found:
    inputs = (asked.body.get("input") for asked in story.creates.values())
    words = [*story.steers, *(text for text in inputs if isinstance(text, str) and text)]
    for entry in story.history:
        if isinstance(entry, Printed):
            said = next((text for text in words if text in entry.text), None)
            mark = MARK.search(entry.text)
            if said is not None or mark is not None:
                what = "words of a client" if said is not None else "words of an answer"
                yield f"{entry.process} logged {what}", (said or (mark[0] if mark else ""),)
