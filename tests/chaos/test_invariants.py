"""A history as it should be passes; each way of breaking it is caught, by the invariant it breaks.

The history: alice asks on two lanes of a socket, steers an answer into its successor, is handed
another steer back, has a third wait for the output of a call, and reads a background answer twice.
bob asks for something of his own and, in vain, for something of hers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chaos.contexts import words_of
from chaos.history import Called, Calm, Entry, Event, Joined, Left, Saw, Sent, Started, load, save
from chaos.invariants import INVARIANTS, check

from tests.chaos.telling import Telling, as_it_should_be, receipt

Break = Callable[[list[Entry]], None]


def test_a_history_as_it_should_be_passes_and_survives_being_kept(tmp_path: Path) -> None:
    history = as_it_should_be()
    assert check(history) == []
    save(tmp_path / "history.jsonl", history)
    assert load(tmp_path / "history.jsonl") == history


# -- ways to find and change what is there --------------------------------------------------------


def _index(history: list[Entry], kind: type[Any], **wanted: Any) -> int:
    for index, entry in enumerate(history):
        if isinstance(entry, kind) and all(getattr(entry, k) == v for k, v in wanted.items()):
            return index
    raise LookupError(wanted)


def _seen(history: list[Entry], what: str, name: str) -> int:
    """Where the event of this type is that mentions this name."""
    return next(
        index
        for index, entry in enumerate(history)
        if isinstance(entry, Saw) and entry.event["type"] == what and name in str(entry.event)
    )


def _again(history: list[Entry], index: int) -> None:
    history.insert(index + 1, copy.deepcopy(history[index]))


def _event(history: list[Entry], index: int) -> Event:
    entry = history[index]
    assert isinstance(entry, Saw)
    return entry.event


def _got(history: list[Entry], path: str) -> int:
    found = [i for i, e in enumerate(history) if isinstance(e, Called) and e.path.endswith(path)]
    return found[-1]


def _answer(history: list[Entry], path: str, status: int, answer: Any) -> None:
    index = _got(history, path)
    old = history[index]
    assert isinstance(old, Called)
    history[index] = Called(old.begin, old.end, old.owner, "GET", old.path, None, status, answer)


# -- ways to break it -----------------------------------------------------------------------------


def a_request_is_never_answered(history: list[Entry]) -> None:
    del history[_seen(history, "error", "invalid_json")]


def a_request_is_answered_twice(history: list[Entry]) -> None:
    _again(history, _seen(history, "error", "invalid_json"))


def an_answer_is_a_fault(history: list[Entry]) -> None:
    _answer(history, "resp_5", 500, "Internal Server Error")


def a_turn_fails_by_a_fault(history: list[Entry]) -> None:
    end = _event(history, _seen(history, "response.completed", "resp_4"))["response"]
    end["error"] = {"code": "server_error", "message": "An internal error ended this turn."}


def what_was_kept_is_gone(history: list[Entry]) -> None:
    _answer(history, "resp_4", 404, {"error": {}})


def what_was_kept_still_runs(history: list[Entry]) -> None:
    _answer(history, "resp_4", 200, {"id": "resp_4", "status": "in_progress"})


def what_was_deleted_is_there(history: list[Entry]) -> None:
    end = _event(history, _seen(history, "response.completed", "resp_5"))["response"]
    _answer(history, "resp_5", 200, end)


def what_was_deleted_is_continued(history: list[Entry]) -> None:
    created = _event(history, _seen(history, "response.created", "resp_1"))
    deleted = _index(history, Called, method="DELETE")
    gone = history.pop(deleted)
    assert isinstance(gone, Called)
    early = Called(0.0, 0.001, "alice", "DELETE", "/v1/responses/resp_0", None, 200, {})
    history.insert(1, early)
    history[1:1] = [
        Joined(0.0, "z", "alice"),
        Saw(0.0, "z", copy.deepcopy(created)),
        Left(0.0, "z"),
    ]
    first = _event(history, 2)["response"]
    first |= {"id": "resp_0", "metadata": {"tag": "t0"}, "store": False}
    created["response"]["previous_response_id"] = "resp_0"


def a_turn_never_ends(history: list[Entry]) -> None:
    del history[_seen(history, "response.completed", "resp_4")]


def it_ended_in_two_ways(history: list[Entry]) -> None:
    entry = history[_got(history, "resp_4")]
    assert isinstance(entry, Called)
    entry = copy.deepcopy(entry)
    entry.answer["output"][0]["content"][0]["text"] += "!"
    history[_got(history, "resp_4")] = entry


def it_runs_again_after_its_end(history: list[Entry]) -> None:
    what_was_kept_still_runs(history)


def a_number_is_left_out(history: list[Entry]) -> None:
    del history[_seen(history, "response.output_text.delta", "msg_resp_4")]


def an_event_comes_twice(history: list[Entry]) -> None:
    _again(history, _seen(history, "response.output_text.delta", "msg_resp_4"))


def the_text_is_not_what_was_said(history: list[Entry]) -> None:
    _event(history, _seen(history, "response.output_text.delta", "msg_resp_4"))["delta"] += "?"


def the_output_is_not_what_was_done(history: list[Entry]) -> None:
    del _event(history, _seen(history, "response.completed", "resp_3"))["response"]["output"][1]


def a_replay_tells_it_differently(history: list[Entry]) -> None:
    index = _index(history, Joined, client="r") + 1
    history[index] = copy.deepcopy(history[index])
    _event(history, index)["delta"] += "!"


def a_replay_leaves_something_out(history: list[Entry]) -> None:
    del history[_index(history, Joined, client="r") + 2]


def _with_key(history: list[Entry], tag: str, key: str) -> None:
    for entry in history:
        event = entry.event if isinstance(entry, Sent) else None
        if isinstance(event, dict) and event.get("metadata") == {"tag": tag}:
            event["idempotency_key"] = key


def one_key_serves_two_requests(history: list[Entry]) -> None:
    for tag in ("t3", "t4"):
        _with_key(history, tag, "k")


def a_request_with_a_key_runs_twice(history: list[Entry]) -> None:
    _with_key(history, "t4", "k")
    tell = Telling()
    tell.note(Joined, "c", "bob")
    tell.create("c", "t4", "Quick")
    tell.turn("c", "resp_6", "t4", "Quick")
    _with_key(tell.history, "t4", "k")
    before = _index(history, Calm)
    history[before:before] = tell.history


def a_key_is_refused_for_another_reason(history: list[Entry]) -> None:
    _with_key(history, "t4", "k")
    body = {"input": "Other", "metadata": {"tag": "t9"}, "idempotency_key": "k"}
    error = {"error": {"code": "invalid_request"}}
    history.append(Called(9, 9.1, "bob", "POST", "/v1/responses", body, 400, error))


def a_steer_is_accepted_twice(history: list[Entry]) -> None:
    _again(history, _seen(history, "response.steer.accepted", "steer_1"))


def a_steer_is_applied_and_handed_back(history: list[Entry]) -> None:
    failed = receipt("failed", "resp_1", id="steer_1", input="Rather in French")
    history.insert(_seen(history, "response.completed", "resp_2"), Saw(0.5, "a", failed))


def a_steer_is_handed_back_twice(history: list[Entry]) -> None:
    _again(history, _seen(history, "response.steer.failed", "Too late"))


def a_steer_is_lost(history: list[Entry]) -> None:
    """Taken, and its successor never came."""
    begin = _seen(history, "response.created", "resp_2")
    end = _seen(history, "response.completed", "resp_2")
    del history[begin : end + 1]
    for path in ("resp_2", "resp_2/input_items?limit=100&order=asc"):
        del history[_got(history, path)]


def a_pending_steer_is_lost(history: list[Entry]) -> None:
    del history[_seen(history, "response.steer.pending", "steer_2")]


def two_run_on_one_lane(history: list[Entry]) -> None:
    end = _seen(history, "response.incomplete", "resp_1")
    history.insert(_seen(history, "response.created", "resp_2") + 1, history.pop(end))


def an_event_belongs_to_nobody(history: list[Entry]) -> None:
    index = _seen(history, "response.completed", "resp_2")
    stray = Saw(1, "a", {"type": "response.output_text.delta", "sequence_number": 9, "delta": "x"})
    history.insert(index + 1, stray)


def an_event_comes_on_another_lane(history: list[Entry]) -> None:
    _event(history, _seen(history, "response.output_text.done", "msg_resp_3"))["stream_id"] = "y"


def a_successor_follows_another(history: list[Entry]) -> None:
    created = _event(history, _seen(history, "response.created", "resp_2"))
    created["response"] = created["response"] | {"previous_response_id": None}


def the_past_was_not_shown(history: list[Entry]) -> None:
    """The successor's engine saw the steer alone."""
    item = {"type": "message", "role": "user", "content": "Rather in French"}
    said = f"shown {words_of([item])[0]}\n"
    delta = _seen(history, "response.output_text.delta", "msg_resp_2")
    _event(history, delta)["delta"] = said
    del history[delta + 1]


def something_else_was_asked(history: list[Entry]) -> None:
    index = _index(history, Sent, client="b")
    entry = history[index]
    assert isinstance(entry, Sent)
    assert isinstance(entry.event, dict)
    entry.event["input"] = "Not what the engine saw"


def something_still_runs(history: list[Entry]) -> None:
    history[_index(history, Calm)] = Calm(9, {"vivace_turns_running": 1.0})


def a_limit_is_passed(history: list[Entry]) -> None:
    history[0] = Started(0, {"m": 1})
    for index, text in enumerate(("one", "two", "three")):
        tell = Telling()
        tell.create("b", f"n{index}", text)
        tell.turn("b", f"resp_n{index}", f"n{index}", text)
        before = _index(history, Calm)
        history[before:before] = tell.history


def somebody_reads_what_is_not_his(history: list[Entry]) -> None:
    index = _index(history, Called, owner="bob", path="/v1/responses/resp_1")
    end = _event(history, _seen(history, "response.incomplete", "resp_1"))["response"]
    history[index] = Called(8, 8.1, "bob", "GET", "/v1/responses/resp_1", None, 200, end)


def somebody_continues_what_is_not_his(history: list[Entry]) -> None:
    created = _event(history, _seen(history, "response.created", "resp_4"))
    created["response"] = created["response"] | {"previous_response_id": "resp_1"}


def somebody_sees_an_event_of_another(history: list[Entry]) -> None:
    end = copy.deepcopy(history[_seen(history, "response.completed", "resp_2")])
    assert isinstance(end, Saw)
    history.insert(_index(history, Calm), Saw(end.at, "b", end.event))


WAYS: dict[str, list[Break]] = {
    "I0 answered": [
        a_request_is_never_answered,
        a_request_is_answered_twice,
        an_answer_is_a_fault,
        a_turn_fails_by_a_fault,
    ],
    "I1 kept": [
        what_was_kept_is_gone,
        what_was_kept_still_runs,
        what_was_deleted_is_there,
        what_was_deleted_is_continued,
    ],
    "I2 one end": [a_turn_never_ends, it_ended_in_two_ways, it_runs_again_after_its_end],
    "I3 one text": [
        a_number_is_left_out,
        an_event_comes_twice,
        the_text_is_not_what_was_said,
        the_output_is_not_what_was_done,
        a_replay_tells_it_differently,
        a_replay_leaves_something_out,
    ],
    "I4 once per key": [
        one_key_serves_two_requests,
        a_request_with_a_key_runs_twice,
        a_key_is_refused_for_another_reason,
    ],
    "I5 steers": [
        a_steer_is_accepted_twice,
        a_steer_is_applied_and_handed_back,
        a_steer_is_handed_back_twice,
        a_steer_is_lost,
        a_pending_steer_is_lost,
    ],
    "I6 order": [
        two_run_on_one_lane,
        an_event_belongs_to_nobody,
        an_event_comes_on_another_lane,
        a_successor_follows_another,
    ],
    "I7 context": [the_past_was_not_shown, something_else_was_asked],
    "I8 no ghosts": [something_still_runs],
    "I9 limits": [a_limit_is_passed],
    "I10 owners": [
        somebody_reads_what_is_not_his,
        somebody_continues_what_is_not_his,
        somebody_sees_an_event_of_another,
    ],
}


@pytest.mark.parametrize(
    ("invariant", "way"),
    [(name, way) for name, ways in WAYS.items() for way in ways],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_what_is_wrong_is_caught(invariant: str, way: Break) -> None:
    history = copy.deepcopy(as_it_should_be())
    way(history)
    assert invariant in {violation.invariant for violation in check(history)}


def test_every_invariant_can_be_broken() -> None:
    assert set(WAYS) == set(INVARIANTS)
