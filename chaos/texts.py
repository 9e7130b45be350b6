"""What a response says, piece by piece, beside what it is said to have said."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from chaos.history import Event
from chaos.story import Life

__all__ = ["told_again", "told_as_it_grew"]

Found = Iterator[tuple[str, tuple[str, ...]]]

_DONE = {
    "response.output_text.done": "text",
    "response.reasoning_text.done": "text",
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}


def told_as_it_grew(life: Life) -> Found:
    """Deltas joined are the text of each item; the items are the output."""
    joined: Counter[str] = Counter()
    grown: dict[str, list[str]] = defaultdict(list)
    items: list[Event] = []
    for event in life.events:
        if event["type"].endswith(".delta"):
            grown[event["item_id"]].append(event["delta"])
        elif event["type"] in _DONE:
            joined[event["item_id"]] += 1
            if "".join(grown[event["item_id"]]) != event[_DONE[event["type"]]]:
                yield f"{life.id}: deltas of {event['item_id']} are not its text", (life.id,)
        elif event["type"] == "response.output_item.done":
            items.append(event["item"])
    if any(count > 1 for count in joined.values()):
        yield f"{life.id}: an item was done twice", (life.id,)
    if life.end is not None and life.end["output"] != items:
        yield f"{life.id}: its output is not the items that were done", (life.id,)


def told_again(life: Life | None, client: str, seen: Sequence[Event]) -> Found:
    """Whoever reads it later sees what its own client saw, from some number on."""
    own = {event["sequence_number"]: _plain(event) for event in life.events} if life else {}
    for before, event in pairwise(seen):
        if event["sequence_number"] != before["sequence_number"] + 1:
            numbers = f"{before['sequence_number']} came {event['sequence_number']}"
            yield f"{client}: after {numbers}", (client,)
    for event in seen:
        number = event["sequence_number"]
        if number in own and own[number] != _plain(event):
            yield f"{client}: number {number} is another event than it was", (client,)


def _plain(event: Event) -> Event:
    return {name: value for name, value in event.items() if name != "stream_id"}
