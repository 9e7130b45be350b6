"""Ways in which a fleet goes wrong, done to the history of one that did not.

Each changes what clients, engines or tables would show of one defect, somewhere by chance; those
that find nothing to change in a history say so by returning False.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from chaos.history import Called, Calm, Entry, Event, Printed, Process, Saw, Sent, Table, Worked
from chaos.lives import TERMINAL
from msgspec.structs import replace

__all__ = ["DEFECTS", "Defect"]

Defect = Callable[[list[Entry], random.Random], bool]


# -- finding and changing -------------------------------------------------------------------------


def _places(history: list[Entry], kind: type[Any], fits: Callable[[Any], bool]) -> list[int]:
    return [i for i, entry in enumerate(history) if isinstance(entry, kind) and fits(entry)]


def _saw(history: list[Entry], *kinds: str) -> list[int]:
    return _places(history, Saw, lambda entry: entry.event["type"] in kinds)


def _peek(history: list[Entry], index: int) -> Event:
    entry = history[index]
    assert isinstance(entry, Saw)
    return entry.event


def _begun(history: list[Entry]) -> dict[str, Event]:
    """The responses that clients saw begin, by their ids."""
    created = (_peek(history, i)["response"] for i in _saw(history, "response.created"))
    return {response["id"]: response for response in created}


def _ended(history: list[Entry]) -> dict[str, Event]:
    """And those that they saw end."""
    ends = (_peek(history, i)["response"] for i in _saw(history, *TERMINAL))
    return {response["id"]: response for response in ends}


def _event(history: list[Entry], index: int) -> Event:
    """Of its own, to be changed."""
    entry = history[index]
    assert isinstance(entry, Saw)
    history[index] = copy.deepcopy(entry)
    changed = history[index]
    assert isinstance(changed, Saw)
    return changed.event


def _rows(history: list[Entry], name: str) -> list[Event]:
    [index] = _places(history, Table, lambda entry: entry.name == name)
    history[index] = copy.deepcopy(history[index])
    table = history[index]
    assert isinstance(table, Table)
    return table.rows


def _calm(history: list[Entry]) -> Calm:
    [index] = _places(history, Calm, lambda _: True)
    calm = history[index]
    assert isinstance(calm, Calm)
    return calm


def _last_look(history: list[Entry], dice: random.Random, **change: Any) -> bool:
    at = _calm(history).at
    seen = _begun(history)
    found = _places(
        history,
        Called,
        lambda call: call.begin > at and call.status == 200 and call.path.split("/")[-1] in seen,
    )
    if not found:
        return False
    index = dice.choice(found)
    history[index] = replace(history[index], **change)
    return True


# -- I1, I2 ---------------------------------------------------------------------------------------


def it_is_gone(history: list[Entry], dice: random.Random) -> bool:
    return _last_look(history, dice, status=404, answer={"error": {}})


def it_never_ends(history: list[Entry], dice: random.Random) -> bool:
    return _last_look(history, dice, answer={"id": "x", "status": "in_progress"})


def it_is_not_on_record(history: list[Entry], dice: random.Random) -> bool:
    seen = _begun(history)
    rows = _rows(history, "turns")
    found = [row for row in rows if row["id"] in seen]
    if found:
        rows.remove(dice.choice(found))
    return bool(found)


def it_is_there_after_its_deletion(history: list[Entry], dice: random.Random) -> bool:
    calls = _places(history, Called, lambda call: call.status == 404)
    if not calls:
        return False
    index = dice.choice(calls)
    history[index] = replace(history[index], status=200, answer={"id": "x", "status": "completed"})
    return True


def it_ends_in_two_ways(history: list[Entry], dice: random.Random) -> bool:
    kept = {row["id"] for row in _rows(history, "turns")}
    ends = [i for i in _saw(history, *TERMINAL) if _peek(history, i)["response"]["id"] in kept]
    if not ends:
        return False  # or nobody saw it but once
    response = _event(history, dice.choice(ends))["response"]
    match dice.choice(["status", "usage", "output"]):
        case "status":
            response["status"] = "failed"
        case "usage":
            response["usage"] = {"tokens": 4711}
        case _:
            response["output"] = []
    return True


def the_table_tells_another_end(history: list[Entry], dice: random.Random) -> bool:
    looked = [call.path for call in history if isinstance(call, Called) and call.status == 200]
    rows = [row for row in _rows(history, "turns") if f"/v1/responses/{row['id']}" in looked]
    if rows:
        dice.choice(rows)["response"]["status"] = "failed"
    return bool(rows)


# -- I3 -------------------------------------------------------------------------------------------


def _delta(history: list[Entry], dice: random.Random) -> int | None:
    """One of an answer that somebody read to its end."""
    ended = {response["output"][0]["id"] for response in _ended(history).values()}
    found = [
        index
        for index in _saw(history, "response.output_text.delta")
        if _peek(history, index)["item_id"] in ended
    ]
    return dice.choice(found) if found else None


def a_byte_is_another(history: list[Entry], dice: random.Random) -> bool:
    index = _delta(history, dice)
    if index is not None:
        _event(history, index)["delta"] += "!"
    return index is not None


def an_event_is_left_out(history: list[Entry], dice: random.Random) -> bool:
    index = _delta(history, dice)
    if index is None:
        return False
    entry = history[index]
    assert isinstance(entry, Saw)
    later = [e for e in history[index + 1 :] if isinstance(e, Saw) and e.client == entry.client]
    if not any("item_id" in e.event for e in later[:1]):
        return False  # the last that it saw; nobody could tell
    del history[index]
    return True


def an_event_comes_twice(history: list[Entry], dice: random.Random) -> bool:
    index = _delta(history, dice)
    if index is not None:
        history.insert(index, copy.deepcopy(history[index]))
    return index is not None


def ids_are_made_anew(history: list[Entry], dice: random.Random) -> bool:
    """A replay that does not say the ids it said before."""
    index = _delta(history, dice)
    if index is None:
        return False
    event = _peek(history, index)
    number, item = event["sequence_number"], event["item_id"]
    others = _places(
        history,
        Saw,
        lambda e: e.event.get("item_id") == item and e.event["sequence_number"] == number,
    )
    if len(others) < 2:
        return False
    _event(history, index)["item_id"] = "msg_random"
    return True


# -- I4, I5 ---------------------------------------------------------------------------------------


def a_key_gives_two_turns(history: list[Entry], dice: random.Random) -> bool:
    """The second was never seen, but it ran and is on record."""
    keyed = {
        entry.event["metadata"]["tag"]
        for entry in history
        if isinstance(entry, Sent)
        and isinstance(entry.event, dict)
        and "idempotency_key" in entry.event
    }
    rows = _rows(history, "turns")
    ids = {row["id"] for row in rows}
    found = [
        row
        for row in rows
        if row["response"]["metadata"]["tag"] in keyed and row["previous_id"] not in ids
    ]
    if found:
        rows.append(copy.deepcopy(dice.choice(found)) | {"id": "resp_again"})
    return bool(found)


def a_key_is_on_record_twice(history: list[Entry], dice: random.Random) -> bool:
    rows = _rows(history, "once")
    if rows:
        rows.append(dice.choice(rows) | {"turn_id": "resp_again"})
    return bool(rows)


def a_steer_comes_back_and_is_applied(history: list[Entry], dice: random.Random) -> bool:
    applied = {row["id"] for row in _rows(history, "orders") if row["state"] == "applied"}
    found = [
        index
        for index in _saw(history, "response.steer.accepted")
        if _peek(history, index)["steer"]["id"] in applied
    ]
    if not found:
        return False
    index = dice.choice(found)
    sent, accepted = history[index - 1], history[index]
    assert isinstance(sent, Sent)
    assert isinstance(accepted, Saw)
    assert isinstance(sent.event, dict)
    steer = accepted.event["steer"] | {"input": sent.event["input"]}
    failed = {"type": "response.steer.failed", "steer": steer}
    history.insert(index + 1, Saw(accepted.at, accepted.client, failed))
    return True


def a_steer_comes_back_twice(history: list[Entry], dice: random.Random) -> bool:
    found = _saw(history, "response.steer.failed")
    if found:
        index = dice.choice(found)
        history.insert(index, copy.deepcopy(history[index]))
    return bool(found)


def a_steer_stays_open(history: list[Entry], dice: random.Random) -> bool:
    rows = _rows(history, "orders")
    if rows:
        dice.choice(rows)["state"] = "accepted"
    return bool(rows)


def a_steer_is_applied_twice(history: list[Entry], dice: random.Random) -> bool:
    """By a successor that nobody saw, made by another gateway."""
    heirs = {row.get("applied_by") for row in _rows(history, "orders")}
    rows = _rows(history, "turns")
    found = [row for row in rows if row["id"] in heirs]
    if found:
        rows.append(copy.deepcopy(dice.choice(found)) | {"id": "resp_again"})
    return bool(found)


# -- I6, I7 ---------------------------------------------------------------------------------------


def a_successor_begins_too_early(history: list[Entry], dice: random.Random) -> bool:
    """Before the last event of the one that was steered."""
    found = [
        index
        for index in _saw(history, "response.incomplete")
        if (nxt := _next_of(history, index)) is not None
        and _peek(history, nxt)["type"] == "response.created"
    ]
    if not found:
        return False
    index = dice.choice(found)
    later = _next_of(history, index)
    assert later is not None
    history.insert(index, history.pop(later))
    return True


def _next_of(history: list[Entry], index: int) -> int | None:
    """The next event that the same stream saw."""
    seen = history[index]
    assert isinstance(seen, Saw)
    for later in range(index + 1, len(history)):
        entry = history[later]
        if isinstance(entry, Saw) and entry.client == seen.client:
            return later
    return None


def an_engine_is_shown_something_else(history: list[Entry], dice: random.Random) -> bool:
    seen = _begun(history)
    kept = {row["id"] for row in _rows(history, "turns")}
    found = _places(
        history, Worked, lambda w: w.what == "began" and w.response in seen.keys() & kept
    )
    works = {i: work for i in found if isinstance(work := history[i], Worked)}
    found = [i for i, work in works.items() if _knows_past(seen, work.response)]
    if not found:
        return False
    index = dice.choice(found)
    work = works[index]
    shown = dice.choice([work.shown[:-1], (*work.shown, work.shown[-1]), ("user-0",)])
    history[index] = replace(work, shown=shown)
    return True


def _knows_past(seen: dict[str, Event], name: str) -> bool:
    """Whether clients saw all turns before it begin."""
    while (parent := seen[name]["previous_response_id"]) is not None:
        if parent not in seen:
            return False
        name = parent
    return True


def an_engine_goes_on_from_elsewhere(history: list[Entry], dice: random.Random) -> bool:
    ended = _ended(history)
    found = _places(history, Worked, lambda w: bool(w.said) and w.response in ended)
    if not found:
        return False
    index = dice.choice(found)
    history[index] = replace(history[index], said="shown nothing of it")
    return True


def a_word_is_said_twice(history: list[Entry], dice: random.Random) -> bool:
    """Everywhere: all agree on a text that no engine should have made."""
    items = {response["output"][0]["id"] for response in _ended(history).values()}
    deltas = [_peek(history, i) for i in _saw(history, "response.output_text.delta")]
    said = {event["delta"] for event in deltas if event["item_id"] in items}
    marks = sorted(text for text in said if text.startswith(" m"))
    if not marks:
        return False
    mark = dice.choice(marks)
    for index, entry in enumerate(history):
        history[index] = _with(entry, mark, mark + mark)
    return True


def _with(entry: Entry, old: str, new: str) -> Entry:
    def change(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(old, new)
        if isinstance(value, dict):
            return {name: change(each) for name, each in value.items()}
        if isinstance(value, list):
            return [change(each) for each in value]
        return value

    match entry:
        case Saw():
            return replace(entry, event=change(entry.event))
        case Called():
            return replace(entry, answer=change(entry.answer))
        case Table():
            return replace(entry, rows=change(entry.rows))
    return entry


# -- I8, I10 --------------------------------------------------------------------------------------


def a_slot_is_never_given_back(history: list[Entry], dice: random.Random) -> bool:
    [index] = _places(history, Calm, lambda _: True)
    history[index] = replace(history[index], figures={"vivace_turns_running": 1.0})
    return True


def an_engine_never_stops(history: list[Entry], dice: random.Random) -> bool:
    del history[dice.choice(_places(history, Worked, lambda work: work.what == "stopped"))]
    return True


def an_open_turn_has_no_holder(history: list[Entry], dice: random.Random) -> bool:
    rows = _rows(history, "turns")
    gone = {e.incarnation for e in history if isinstance(e, Process) and not e.up}
    if rows:
        holder = dice.choice([None, *sorted(gone)])
        dice.choice(rows).update(status=None, response=None, holder=holder)
    return bool(rows)


def another_sees_it(history: list[Entry], dice: random.Random) -> bool:
    found = _saw(history, "response.created", *TERMINAL)
    if not found:
        return False
    entry = history[dice.choice(found)]
    assert isinstance(entry, Saw)
    other = "bob" if entry.client.startswith("alice") else "alice"
    path = f"/v1/responses/{entry.event['response']['id']}"
    history.append(Called(entry.at, entry.at, other, "GET", path, None, 200, {"status": "queued"}))
    return True


def a_log_has_words(history: list[Entry], dice: random.Random) -> bool:
    [index] = _places(history, Printed, lambda _: True)
    asked = [e.event for e in history if isinstance(e, Sent) and isinstance(e.event, dict)]
    words = [event["input"] for event in asked if "input" in event]
    said = [_event(history, i)["delta"] for i in _saw(history, "response.output_text.delta")]
    words += [text for text in said if text.startswith(" m")]
    history[index] = replace(history[index], text=f"WARNING {dice.choice(words)} is odd")
    return True


DEFECTS: dict[str, list[Defect]] = {
    "I1 kept": [it_is_gone, it_never_ends, it_is_not_on_record, it_is_there_after_its_deletion],
    "I2 one end": [it_ends_in_two_ways, the_table_tells_another_end],
    "I3 one text": [
        a_byte_is_another,
        an_event_is_left_out,
        an_event_comes_twice,
        ids_are_made_anew,
    ],
    "I4 once per key": [a_key_gives_two_turns, a_key_is_on_record_twice],
    "I5 steers": [
        a_steer_comes_back_and_is_applied,
        a_steer_comes_back_twice,
        a_steer_stays_open,
        a_steer_is_applied_twice,
    ],
    "I6 order": [a_successor_begins_too_early],
    "I7 context": [
        an_engine_is_shown_something_else,
        an_engine_goes_on_from_elsewhere,
        a_word_is_said_twice,
    ],
    "I8 no ghosts": [a_slot_is_never_given_back, an_engine_never_stops, an_open_turn_has_no_holder],
    "I10 owners": [another_sees_it, a_log_has_words],
}
