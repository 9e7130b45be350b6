"""What faults may do to a history, and what not: each told in a few entries."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from chaos.contexts import Contexts, word_of
from chaos.history import (
    Called,
    Calm,
    Entry,
    Event,
    Joined,
    Left,
    Process,
    Saw,
    Sent,
    Started,
    Struck,
    Table,
    Worked,
)
from chaos.invariants import check
from chaos.story import Story
from msgspec.structs import replace

from tests.chaos.telling import Telling, receipt

CUT = 3
"""So many events were seen before the fault."""


def _names(history: list[Entry]) -> set[str]:
    return {violation.invariant for violation in check(history)}


def _row(turn: Event, inputs: list[str]) -> Event:
    items = [{"type": "message", "role": "user", "content": text} for text in inputs]
    return {
        "id": turn["id"],
        "owner": "alice",
        "previous_id": turn["previous_response_id"],
        "status": turn["status"],
        "response": turn,
        "input": items,
        "holder": None,
    }


def told_again(change: Callable[[list[Event]], None] = lambda _: None) -> list[Entry]:
    """alice's gateway is killed under her turn; she comes back, resumes and reads the rest, as
    ``change`` leaves it."""
    tell = Telling()
    tell.note(Started)
    tell.note(Joined, "a", "alice")
    tell.create("a", "t1", "First")
    tell.turn("a", "resp_1", "t1", "First", output="Well, then.")
    seen = [entry for entry in tell.history if isinstance(entry, Saw)]
    rest = [copy.deepcopy(entry.event) for entry in seen[CUT:]]
    history = tell.history[: tell.history.index(seen[CUT])]
    history += [Left(1, "a", "closed"), Struck(1, 2, "kill", "gateway")]
    history.append(Joined(3, "b", "alice"))
    resume = {"type": "response.resume", "response_id": "resp_1", "starting_after": CUT - 1}
    history.append(Sent(3, "b", resume))
    change(rest)
    history += [Saw(3.5, "b", event) for event in rest]
    history.append(Calm(4, {}, ("g2",)))
    end = rest[-1]["response"]
    history.append(Called(5, 5.1, "alice", "GET", "/v1/responses/resp_1", None, 200, end))
    history.append(Table(6, "turns", [_row(end, ["First"])]))
    return history


def test_who_comes_back_and_reads_the_rest_sees_nothing_wrong() -> None:
    assert check(told_again()) == []


def test_a_resume_that_begins_too_late_has_left_something_out() -> None:
    def begin_after(rest: list[Event]) -> None:
        del rest[0]

    assert "I3 one text" in _names(told_again(begin_after))


def test_a_resume_that_begins_too_early_says_something_twice() -> None:
    def begin_before(rest: list[Event]) -> None:
        rest.insert(0, rest[0] | {"sequence_number": CUT - 1})

    assert "I3 one text" in _names(told_again(begin_before))


def test_who_comes_back_for_what_follows_an_end_is_told_that_again_and_nothing_else() -> None:
    def of_the_end(came: int) -> list[Entry]:
        """Of a client that had seen all of it; how many of its last events come."""
        history = told_again()
        events = [entry.event for entry in history if isinstance(entry, Saw)]
        after = events[-1]["sequence_number"]
        resume = {"type": "response.resume", "response_id": "resp_1", "starting_after": after}
        again = [Saw(3.7, "c", copy.deepcopy(event)) for event in events[-came:]]
        at = next(n for n, entry in enumerate(history) if isinstance(entry, Calm))
        back: list[Entry] = [Joined(3.6, "c", "alice"), Sent(3.6, "c", resume)]
        return [*history[:at], *back, *again, *history[at:]]

    assert check(of_the_end(1)) == []
    assert "I3 one text" in _names(of_the_end(2))


def test_an_end_is_known_to_all_who_ask_unless_it_says_that_it_is_not_stored() -> None:
    def asked_elsewhere(*, stored: bool) -> list[Entry]:
        """Before it is on record, though it was told."""
        history = told_again(lambda rest: rest[-1]["response"].update(store=stored))
        opened = next(entry.event["response"] for entry in history if isinstance(entry, Saw))
        at = next(n for n, entry in enumerate(history) if isinstance(entry, Calm))
        call = Called(3.7, 3.8, "alice", "GET", "/v1/responses/resp_1", None, 200, opened)
        return [*history[:at], call, *history[at:]]

    assert check(asked_elsewhere(stored=False)) == []
    assert "I2 one end" in _names(asked_elsewhere(stored=True))


def test_a_resumed_text_that_is_not_the_output_is_found() -> None:
    def other_words(rest: list[Event]) -> None:
        for event in rest:
            if event["type"] == "response.output_text.done":
                event["text"] += "?"

    assert "I3 one text" in _names(told_again(other_words))


def _jump_to(number: int) -> Callable[[list[Event]], None]:
    def change(rest: list[Event]) -> None:
        for offset, event in enumerate(rest):
            event["sequence_number"] = number + offset

    return change


def test_a_jump_is_declared_by_its_number() -> None:
    assert check(told_again(_jump_to(1_000_000))) == []
    assert check(told_again(_jump_to(3_000_000))) == []
    assert "I3 one text" in _names(told_again(_jump_to(1_000_001)))
    assert "I3 one text" in _names(told_again(_jump_to(77)))


def test_a_turn_that_died_with_its_gateway_is_not_kept() -> None:
    history = told_again()
    last = next(i for i, entry in enumerate(history) if isinstance(entry, Joined) and i > 5)
    history = [*history[:last], Calm(4, {}, ("g2",))]
    path = "/v1/responses/resp_1"
    history.append(Called(5, 5.1, "alice", "GET", path, None, 404, {"error": {}}))
    history.append(Table(6, "turns", []))
    found = check(history)
    assert {violation.invariant for violation in found} == {"I1 kept"}
    assert all("resp_1" in violation.about for violation in found)


def test_a_call_that_never_came_back_proves_nothing() -> None:
    history = told_again()
    path = "/v1/responses/resp_1"
    for method in ("GET", "DELETE"):
        without = [*history, Called(5.5, None, "alice", method, path)]
        assert check(without) == []


def test_a_turn_asked_for_over_http_is_accepted_when_it_is_answered() -> None:
    body = {"input": "Go", "background": True, "metadata": {"tag": "t1"}}
    queued = {"id": "resp_1", "status": "queued", "metadata": {"tag": "t1"}, "store": True}
    queued["previous_response_id"] = None
    path = "/v1/responses/resp_1"
    history: list[Entry] = [
        Called(1, 2, "alice", "POST", "/v1/responses", body, 200, queued),
        Struck(3, 4, "kill", "gateway"),
        Calm(5, {}),
        Called(6, 7, "alice", "GET", path, None, 404, {"error": {}}),
    ]
    assert _names(history) == {"I1 kept"}
    unanswered = replace(history[0], end=None, status=None, answer=None)
    assert check([unanswered, *history[1:]]) == []


def test_who_loses_a_turn_to_another_stream_need_not_see_its_end() -> None:
    history = told_again()
    left = next(i for i, entry in enumerate(history) if isinstance(entry, Left))
    moved = {"type": "error", "status": 409, "error": {"code": "resumed_elsewhere"}}
    history[left] = Saw(1, "a", moved)
    assert "I2 one end" not in _names(history)
    history[left] = Saw(1, "a", moved | {"error": {"code": "other"}})
    assert "I2 one end" in _names(history)


def test_a_replay_may_tell_the_lane_that_its_events_were_said_on() -> None:
    tell = Telling()
    tell.note(Joined, "a", "alice")
    tell.create("a", "t1", "First", lane="c")
    tell.turn("a", "resp_1", "t1", "First", lane="c")
    said = [entry.event for entry in tell.history if isinstance(entry, Saw)]
    for name, after in (("r", None), ("s", 2)):
        tell.note(Joined, name, "alice", "resp_1", after)
        for event in said[0 if after is None else after + 1 :]:
            tell.note(Saw, name, event)
        tell.note(Left, name)
    assert check(tell.history) == []
    del tell.history[-3]
    assert _names(tell.history) == {"I3 one text"}


# -- steers of clients that were cut off ----------------------------------------------------------


def steered(*orders: Event, applied: bool, accepted: bool = True) -> list[Entry]:
    """alice steers and is cut off at once; what became of it is on record only."""
    tell = Telling()
    tell.note(Started)
    tell.note(Joined, "a", "alice")
    tell.create("a", "t1", "First")

    def steer() -> None:
        tell.steer("a", "resp_1", "In French")
        if accepted:
            tell.see("a", **receipt("accepted", "resp_1", id="steer_1"))

    tell.turn("a", "resp_1", "t1", "First", steered=steer)
    tell.note(Left, "a", "closed")
    tell.history.append(Struck(tell.at(), tell.at(), "kill", "gateway"))
    tell.note(Calm, {})
    tell.look("alice", "resp_1")
    end = next(
        entry.answer
        for entry in tell.history
        if isinstance(entry, Called) and entry.path.endswith("resp_1")
    )
    rows = [_row(end, ["First"])]
    if applied:
        rows.append(_row(end | {"id": "resp_2", "previous_response_id": "resp_1"}, ["In French"]))
    tell.note(Table, "turns", rows)
    if orders:
        tell.note(Table, "orders", list(orders))
    return tell.history


ORDER = {"id": "steer_1", "turn_id": "resp_1", "kind": "steer", "applied_by": None}


def test_a_steer_that_was_applied_unseen_is_on_record() -> None:
    assert check(steered(applied=True)) == []
    order = ORDER | {"state": "applied", "applied_by": "resp_2"}
    assert check(steered(order, applied=True)) == []


def test_a_steer_that_was_accepted_and_is_nowhere_is_lost() -> None:
    assert _names(steered(applied=False)) == {"I5 steers"}


def test_a_steer_whose_acceptance_nobody_saw_may_be_lost() -> None:
    assert check(steered(applied=False, accepted=False)) == []


@pytest.mark.parametrize("state", ["returned", "pending"])
def test_a_steer_that_the_record_accounts_for_is_not_lost(state: str) -> None:
    assert check(steered(ORDER | {"state": state}, applied=False)) == []


def test_a_steer_that_is_said_to_be_applied_by_nobody_is_found() -> None:
    order = ORDER | {"state": "applied", "applied_by": "resp_9"}
    assert "I5 steers" in _names(steered(order, applied=True))


# -- ghosts ---------------------------------------------------------------------------------------


def test_an_open_turn_is_no_ghost_while_its_holder_lives() -> None:
    history = told_again()
    table = history.pop()
    assert isinstance(table, Table)
    history.insert(0, Process(0, "gateway", "g2", True))
    for holder, found in (("g2", set[str]()), ("g1", {"I8 no ghosts"})):
        row = table.rows[0] | {"status": None, "response": None, "holder": holder}
        assert _names([*history, replace(table, rows=[row])]) == found


# -- what engines go on from ----------------------------------------------------------------------


def _unread(said: str, *, looked: bool) -> list[Entry]:
    """Nobody reads on when the gateway is back, and an engine goes on from these words; whether
    somebody looks at the end that it came to."""
    history = told_again()
    shown = next(e.event["delta"] for e in history if isinstance(e, Saw) and "delta" in e.event)
    whole = [entry for entry in history if isinstance(entry, Saw)][-1].event["response"]
    text = whole["output"][0]["content"][0]["text"]
    assert text.startswith(shown)
    known = text[: len(shown)] if said == "as seen" else text[:-5] if said == "more" else said
    words = tuple(text.partition("\n")[0].split()[1:])
    kept = [e for e in history if getattr(e, "client", "") != "b" and not isinstance(e, Table)]
    if not looked:
        kept = [e for e in kept if not isinstance(e, Called)]
    return [*kept, Worked(3, "e", "g2", "resp_1", "began", 2, words, known)]


@pytest.mark.parametrize("looked", [True, False])
@pytest.mark.parametrize("said", ["as seen", "more"])
def test_an_engine_may_go_on_from_more_than_anybody_has_seen(said: str, *, looked: bool) -> None:
    assert "I7 context" not in _names(_unread(said, looked=looked))


@pytest.mark.parametrize("looked", [True, False])
def test_an_engine_may_not_go_on_from_other_words_than_were_seen(*, looked: bool) -> None:
    assert "I7 context" in _names(_unread("shown nothing of it", looked=looked))


def test_what_a_passing_turn_was_asked_is_known_from_its_engine_if_it_does_not_recite_it() -> None:
    tell = Telling()
    tell.note(Started)
    tell.note(Joined, "a", "alice")
    tell.create("a", "t1", "First")
    tell.turn("a", "resp_1", "t1", "First")
    for entry in tell.history:
        if isinstance(entry, Saw):
            entry.event.get("response", {})["store"] = False
            if "delta" in entry.event:
                entry.event["delta"] = entry.event["delta"].replace("shown", "well,")
    assert Contexts(Story(tell.history)).inputs == {"resp_1": None}
    words = (word_of("user", "First"),)
    tell.note(Worked, "e", "g1", "resp_1", "began", 1, words)
    assert Contexts(Story(tell.history)).inputs == {"resp_1": words}


def _passing(*silent: int, repeats: str = "") -> list[Entry]:
    """A conversation of six turns, of which the fourth and the sixth are kept. ``silent`` ones do
    not tell what they were shown; ``repeats`` is asked in the last once more."""
    tell = Telling()
    tell.note(Started)
    tell.note(Joined, "a", "alice")

    def steer() -> None:
        tell.steer("a", "resp_1", "Steer")
        tell.see("a", **receipt("accepted", "resp_1", id="steer_1"))

    def turn(number: int, tag: str, *inputs: str) -> None:
        tell.turn(
            "a",
            f"resp_{number}",
            tag,
            *inputs,
            after=f"resp_{number - 1}" if number > 1 else None,
            passing=number not in (4, 6),
            silent=number in silent,
            steered=steer if number == 1 else None,
        )

    tell.create("a", "t1", "First")
    turn(1, "t1", "First")
    turn(2, "t1", "Steer")
    for number, text in enumerate(("Third", "Fourth", "Fifth", "Sixth"), 3):
        tell.create("a", f"t{number}", text)
        turn(number, f"t{number}", *([repeats] if repeats and number == 6 else []), text)
    tell.note(Calm, {"vivace_turns_running": 0.0})
    tell.look("alice", "resp_4")
    tell.look("alice", "resp_6")
    return tell.history


@pytest.mark.parametrize("silent", [(), (3,), (3, 5), (1,), (1, 3, 5)])
def test_what_is_kept_behind_passing_turns_applies_no_steer_again(silent: tuple[int, ...]) -> None:
    assert check(_passing(*silent)) == []
    assert _names(_passing(*silent, repeats="Steer")) >= {"I5 steers"}


def test_what_is_kept_behind_a_passing_turn_and_nobody_saw_applies_no_steer_again() -> None:
    history = _passing()
    second = next(
        entry.event["response"]
        for entry in history
        if isinstance(entry, Saw) and entry.event.get("response", {}).get("id") == "resp_2"
    )
    unseen = second | {"id": "resp_9", "previous_response_id": "resp_2", "status": "completed"}
    contexts = Contexts(Story(history))
    fourth = next(e.answer["data"] for e in history if isinstance(e, Called) and "_4/in" in e.path)
    row = _row(unseen, []) | {"input": fourth[:4]}  # up to the end of the second
    assert contexts.applied() == Contexts(Story([*history, Table(9, "turns", [row])])).applied()


def test_what_passing_turns_were_asked_is_known_from_what_is_kept_behind_them() -> None:
    inputs = Contexts(Story(_passing(3, 5))).inputs
    assert inputs["resp_3"] is inputs["resp_5"] is None
    assert inputs["resp_4"] == _asked("Third", "Fourth")
    assert inputs["resp_6"] == _asked("Fifth", "Sixth")


def test_what_follows_an_end_that_was_not_stored_has_only_its_own_on_record() -> None:
    tell = Telling()
    tell.note(Started)
    tell.note(Joined, "a", "alice")
    rows = []
    for number in (1, 2, 3, 4):
        text, name = f"Text {number}", f"resp_{number}"
        tell.create("a", f"t{number}", text)
        after = f"resp_{number - 1}" if number > 1 else None
        silent, passing = number == 1, number == 2
        tell.turn("a", name, f"t{number}", text, after=after, silent=silent, passing=passing)
        last = tell.history[-1]
        assert isinstance(last, Saw)
        if number > 1:  # the first was deleted, and told nobody what it was asked
            rows.append(_row(last.event["response"], [text]))
    story = Story([*tell.history, Table(9, "turns", rows)])
    contexts = Contexts(story)
    assert contexts.inputs["resp_3"] == _asked("Text 3")
    assert contexts.past_of(story.lives["resp_4"]) is None


def _asked(*texts: str) -> tuple[str, ...]:
    return tuple(word_of("user", text) for text in texts)
