"""I0: whatever a client says is answered exactly once, and never by a fault of ours."""

from __future__ import annotations

from collections import Counter, defaultdict

from chaos.history import Event, Saw, Sent
from chaos.invariants.found import Found
from chaos.lives import MOVED
from chaos.story import Story

__all__ = ["answered"]

_QUIET = frozenset({"response.resume"})
"""Answered by the events that follow, or by an error."""


def answered(story: Story) -> Found:
    for call in story.calls:
        failed = call.status is not None and call.status >= 500
        if failed and not story.disturbed(call.begin, call.end):
            yield f"{call.method} {call.path} answered {call.status}: {call.answer}", (call.path,)
    for life in story.lives.values():
        error = (life.end or {}).get("error") or {}
        ours = error.get("code") == "server_error" and "script says" not in error["message"]
        if ours and not story.disturbed(life.at, None):
            yield f"{life.id} failed by a fault of ours: {error}", (life.id,)
    for client, said in _said(story).items() if story.calm is not None else ():
        if story.stayed(client) and said["sent"] != said["answered"]:
            yield (
                f"{client} said {said['sent']} things and got {said['answered']} answers",
                (client,),
            )


def _said(story: Story) -> dict[str, Counter[str]]:
    """How many things each socket said, and how many answers it got to those."""
    of_http = Counter(
        (call.answer["type"], call.answer.get("response_id") or call.answer["steer"]["id"])
        for call in story.calls
        if call.status == 200 and call.path.endswith(("/steer", "/interrupt"))
    )
    resumes = Counter(e.client for e in story.history if isinstance(e, Sent) and _resumes(e))
    said: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in story.history:
        if isinstance(entry, Sent):
            said[entry.client]["sent"] += 1
        elif isinstance(entry, Saw) and not story.replays(entry.client):
            receipt = _receipt_of(entry.event)
            if receipt in of_http:
                of_http[receipt] -= 1
                of_http += Counter()
            elif _answers(story, entry.event) and not _unasked(entry.event, said[entry.client]):
                said[entry.client]["answered"] += 1
    for client in resumes:  # what answers these is I3's matter
        del said[client]
    return said


def _resumes(entry: Sent) -> bool:
    return isinstance(entry.event, dict) and entry.event["type"] in _QUIET


def _unasked(event: Event, said: Counter[str]) -> bool:
    """That a turn is elsewhere is told to who reads it, who asked for nothing just now; or to who
    asked for it, if it never began here."""
    moved = event["type"] == "error" and event["error"].get("code") == MOVED
    return moved and said["answered"] >= said["sent"]


def _receipt_of(event: Event) -> tuple[str, str]:
    return event["type"], event.get("response_id") or (event.get("steer") or {}).get("id", "")


def _answers(story: Story, event: Event) -> bool:
    match event["type"]:
        case "error" | "response.interrupt.accepted" | "response.steer.accepted":
            return True
        case "response.created":
            return not story.lives[event["response"]["id"]].succeeds
        case "response.steer.failed":
            refused = "id" not in event["steer"]
            return refused and story.steers[event["steer"]["input"]].client is not None
    return False
