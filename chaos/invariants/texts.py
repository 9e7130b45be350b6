"""I3: a number means one event, whoever reads it; deltas joined are the text, and the output."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise

from chaos.history import Event
from chaos.invariants.found import Found
from chaos.lives import JUMP, TERMINAL, Life, Reading
from chaos.story import Story

__all__ = ["gapless", "one_text"]

_DONE = {
    "response.output_text.done": "text",
    "response.reasoning_text.done": "text",
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}


def one_text(story: Story) -> Found:
    for life in story.lives.values():
        for reading in life.readings:
            yield from _in_order(reading)
        yield from _alike(life.readings)
        for events in _whole(life):
            yield from _as_it_grew(life, events)
    for reading in story.strays:
        yield from _in_order(reading)
    strays: dict[str, list[Reading]] = defaultdict(list)
    for reading in story.strays:
        strays[reading.id].append(reading)
    for readings in strays.values():
        yield from _alike(readings)


def gapless(events: Sequence[Event], after: int | None = None) -> bool:
    return not list(_gaps(events, after))


def _gaps(events: Sequence[Event], after: int | None) -> Iterable[tuple[int, int]]:
    """Where numbers do not go up by one: what came, and before that. A jump is declared by its
    number, and never to the same place twice. Who comes back for what follows an end is told that
    end again, and nothing else."""
    if after is not None and [each["type"] in TERMINAL for each in events] == [True]:
        after = min(after, events[0]["sequence_number"] - 1)
    numbers = chain([-1 if after is None else after], (each["sequence_number"] for each in events))
    for before, number in pairwise(numbers):
        jumps = number % JUMP == 0 and 0 < number // JUMP > before // JUMP
        if number != before + 1 and not jumps:
            yield before, number


def _in_order(reading: Reading) -> Found:
    for before, number in _gaps(reading.events, reading.after):
        what = f"{reading.client}: event {number} of {reading.id} came after {before}"
        yield what, (reading.client, reading.id)


def _alike(readings: Sequence[Reading]) -> Found:
    """Whoever reads it sees what all others saw, byte for byte."""
    known: dict[int, tuple[str, str]] = {}
    for reading in readings:
        for event in reading.events:
            number, told = event["sequence_number"], _bytes(event)
            first, client = known.setdefault(number, (told, reading.client))
            if first != told:
                what = f"number {number} of {reading.id} is another event than {client} saw"
                yield f"{reading.client}: {what}", (reading.client, reading.id)


def _bytes(event: Event) -> str:
    return json.dumps({name: value for name, value in event.items() if name != "stream_id"})


def _whole(life: Life) -> Iterable[Sequence[Event]]:
    """What can be held against the output: the events from first to last, if all were seen. Of a
    tail that was lost some may have read more, so there only whole readings count."""
    if not life.jumped:
        return [life.events] if gapless(life.events) else []
    return [
        reading.events
        for reading in life.readings
        if reading.ended and reading.after is None and gapless(reading.events)
    ]


def _as_it_grew(life: Life, events: Sequence[Event]) -> Found:
    """Deltas joined are the text of each item; the items are the output."""
    joined: Counter[str] = Counter()
    grown: dict[str, list[str]] = defaultdict(list)
    items: list[Event] = []
    for event in events:
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
