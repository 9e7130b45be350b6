"""I4: one idempotency key of an owner gives one response, and another body under it none."""

from __future__ import annotations

from collections import defaultdict

from chaos.invariants.found import Found
from chaos.lives import Asked
from chaos.story import Story

__all__ = ["REUSED", "once"]

REUSED = "idempotency_key_reused"


def once(story: Story) -> Found:
    asked: dict[tuple[str, str], list[Asked]] = defaultdict(list)
    for request in story.requests:
        if request.key is not None:
            asked[request.owner, request.key].append(request)
    made = _made(story)
    for (owner, key), requests in asked.items():
        tags = list(dict.fromkeys(request.tag for request in requests))
        for tag in tags:
            if len(made[owner, tag]) > 1:
                ids = tuple(sorted(made[owner, tag]))
                yield f"key {key} of {owner} gave {len(ids)} responses", ids
        ran = [tag for tag in tags if made[owner, tag]]
        if len(ran) > 1:
            ids = tuple(sorted(name for tag in ran for name in made[owner, tag]))
            yield f"key {key} of {owner} was taken for {len(ran)} different requests", ids
        for request in requests:
            if ran and request.tag not in ran and _refused_otherwise(request):
                what = f"another request under key {key} of {owner} was refused as"
                yield f"{what} {request.refused}", (request.tag,)
    yield from _twice_on_record(story)


def _refused_otherwise(request: Asked) -> bool:
    """For good, and not because of the key."""
    final = request.status is not None and 400 <= request.status < 500 and request.status != 429
    return final and request.refused != REUSED


def _made(story: Story) -> dict[tuple[str, str], set[str]]:
    """The responses that a request brought about, by its owner and tag; without successors."""
    made: dict[tuple[str, str], set[str]] = defaultdict(set)
    parents = {name: row["previous_id"] for name, row in story.rows.items()}
    tags = {name: _tag(row) for name, row in story.rows.items()}
    owners = {name: row["owner"] for name, row in story.rows.items()}
    for life in story.lives.values():
        parents[life.id], tags[life.id], owners[life.id] = life.parent, life.tag, life.owner
    for name, tag in tags.items():
        if tag is not None and tags.get(parents[name] or "") != tag:
            made[owners[name], tag].add(name)
    return made


def _tag(row: dict[str, object]) -> str | None:
    response = row.get("response")
    return response["metadata"].get("tag") if isinstance(response, dict) else None


def _twice_on_record(story: Story) -> Found:
    table = story.tables.get("once")
    known: dict[tuple[str, str], str] = {}
    for row in table.rows if table else ():
        first = known.setdefault((row["owner"], row["key"]), row["turn_id"])
        if first != row["turn_id"]:
            yield f"key {row['key']} is on record for two responses", (first, row["turn_id"])
