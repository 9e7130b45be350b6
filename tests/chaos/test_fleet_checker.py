"""What several gateways add to what must hold: who may lose what, and which runs count."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from chaos.fleet.recovery import pauses
from chaos.history import (
    Calm,
    Entry,
    Joined,
    Loses,
    Lost,
    Printed,
    Saw,
    Sent,
    Started,
    Struck,
    Table,
)
from chaos.invariants import check, lost
from chaos.story import Story
from chaos.tale import tale
from chaos.verdict import Word, judge
from msgspec.structs import replace

from tests.chaos.telling import Telling


def told(
    *,
    end: dict[str, Any] | None = None,
    epoch: int = 1,
    loses: Loses = "gateway",
    turns: tuple[str, ...] | None = ("resp_1",),
    model: str = "m",
) -> list[Entry]:
    """One turn at one of two gateways, from 0.03 on, that a fault hits at 0.045."""
    tell = Telling()
    tell.note(Started, {}, 2)
    tell.note(Joined, "a", "alice")
    tell.create("a", "t1", "First")
    tell.turn("a", "resp_1", "t1", "First")
    response = tell._ended["resp_1"]
    response |= end or {}
    if end and end.get("status") == "failed":
        last = tell.history[-1]
        assert isinstance(last, Saw)
        last.event["type"] = "response.failed"
    tell.history.append(Struck(0.045, 0.05, "kill", "gateway-1", turns, loses))
    tell.note(Calm, {})
    tell.look("alice", "resp_1")
    row = {
        "id": "resp_1",
        "owner": "alice",
        "previous_id": None,
        "status": response["status"],
        "response": response,
        "input": tell._inputs["resp_1"],
        "epoch": epoch,
    }
    tell.note(Table, "turns", [row])
    return tell.history


LOST = {"status": "failed", "error": {"code": "lost_midway", "message": "It is lost."}}
DIED = {"status": "failed", "error": {"code": "engine_died", "message": "It died."}}


def whats(history: Sequence[Entry]) -> list[str]:
    return [violation.what for violation in check(history)]


def test_what_went_well_is_well() -> None:
    assert judge(told()).word is Word.HOLDS


def test_no_turn_fails_because_an_engine_died_where_there_is_another() -> None:
    [what] = whats(told(end=DIED))
    assert what == "resp_1 failed: engine_died"
    alone = told(end=DIED)
    alone[0] = Started(0)
    assert whats(alone) == []


@pytest.mark.parametrize(
    ("loses", "turns", "may"),
    [
        ("both", ("resp_1",), True),
        ("both", ("resp_2",), False),
        ("gateway", ("resp_1",), False),
        ("node", ("resp_1",), False),
    ],
)
def test_only_gateway_and_node_together_lose_a_turn(
    monkeypatch: pytest.MonkeyPatch, loses: Loses, turns: tuple[str, ...], may: bool
) -> None:
    monkeypatch.setattr(lost, "_JUST_BEFORE", 0.0)
    assert (whats(told(end=LOST, epoch=2, loses=loses, turns=turns)) == []) is may


def test_a_fault_that_met_open_turns_in_another_state_proves_nothing() -> None:
    verdict = judge(told(turns=("resp_2",)))
    assert verdict.word is Word.UNKNOWN
    assert verdict.doubts == ["kill of gateway-1 hit no open turn"]
    assert verdict.open == {"kill of gateway-1": 1}


def test_who_is_told_that_its_turn_is_elsewhere_was_not_answered_once_more() -> None:
    history = told()
    calm = next(index for index, entry in enumerate(history) if isinstance(entry, Calm))
    moved = {"type": "error", "status": 409, "error": {"code": "resumed_elsewhere"}}
    history.insert(calm, Saw(0.2, "a", moved))
    assert whats(history) == []
    other = copy.deepcopy(moved)
    other["error"] = {"code": "server_error"}
    history[calm] = Saw(0.2, "a", other)
    assert "said 1 things and got 2 answers" in whats(history)[0]


def _many(count: int, losses: int) -> list[Entry]:
    tell = Telling()
    tell.note(Started, {"narrow": 4}, 2)
    tell.note(Joined, "a", "alice")
    for number in range(count):
        tell.create("a", f"t{number}", f"Do {number}")
        sent = tell.history[-1]
        assert isinstance(sent, Sent)
        assert isinstance(sent.event, dict)
        sent.event["model"] = "narrow"
        tell.turn("a", f"resp_{number}", f"t{number}", f"Do {number}")
    for _ in range(losses):
        tell.note(Struck, None, "kill-valkey", "valkey", None, "limits")
    return tell.history


def test_a_loss_of_what_gateways_count_in_lets_one_limit_more_through() -> None:
    assert whats(_many(5, 0)) == []
    assert "turns of narrow through" in whats(_many(6, 0))[0]
    assert whats(_many(9, 1)) == []
    assert "turns of narrow through" in whats(_many(10, 1))[0]
    assert whats([*_many(7, 0), Lost(9, "p1")]) == []
    assert "turns of narrow through" in whats([*_many(8, 0), Lost(9, "p1")])[0]


def test_words_in_what_gateways_count_in_are_found() -> None:
    history = [*told(), Printed(1, "valkey", '"EVALSHA" "First"')]
    assert whats(history) == ["valkey logged words of a client"]


# -- how long an answer paused --------------------------------------------------------------------

RESUME = {"type": "response.resume", "response_id": "resp_1", "starting_after": 1}


def _word(at: float, client: str, number: int, text: str) -> Saw:
    event = {
        "type": "response.output_text.delta",
        "sequence_number": number,
        "item_id": "msg_1",
        "output_index": 0,
        "delta": text,
    }
    return Saw(at, client, event)


def _paused(loses: Loses, *after: Entry) -> list[float]:
    return pauses(Story([*_history(loses), *after]))


def _history(loses: Loses) -> list[Entry]:
    response = {
        "id": "resp_1",
        "metadata": {"tag": "t"},
        "previous_response_id": None,
        "store": True,
    }
    created = {"type": "response.created", "sequence_number": 0, "response": response}
    return [
        Started(0, gateways=2),
        Joined(0, "a", "alice"),
        Saw(1, "a", created),
        _word(2, "a", 1, " m1.0@n1.a1"),
        Struck(3, 4, "kill", "x", ("resp_1",), loses),
    ]


def test_a_pause_ends_with_the_first_word_of_another_node() -> None:
    late = _word(3.1, "a", 2, " m1.1@n1.a1")  # it was on its way
    assert _paused("node", late, _word(3.6, "a", 3, " m1.2@n2.a2")) == [pytest.approx(0.6)]
    assert _paused("node", late) == []


@pytest.mark.parametrize(
    ("reads", "met"),
    [
        pytest.param(
            [Joined(2.5, "b", "alice", "resp_1", 1)], [], id="along, and is told at its end"
        ),
        pytest.param(
            [Joined(2.5, "b", "alice", "resp_1", 0), _word(2.6, "b", 1, " m1.0@n1.a1")],
            [pytest.approx(6)],
            id="along",
        ),
        pytest.param(
            [Joined(2.5, "b", "alice"), Sent(2.5, "b", RESUME)], [pytest.approx(6)], id="on"
        ),
    ],
)
def test_a_pause_is_met_by_who_is_told_as_the_words_come(
    reads: list[Entry], met: list[float]
) -> None:
    *before, fault = _history("node")
    history = [*before, *reads, fault]
    after = [_word(9, "b", 2, " m1.1@n1.a1"), _word(9, "b", 3, " m1.2@n2.a2")]
    assert pauses(Story([*history, *after])) == met


def test_a_pause_ends_with_the_first_word_at_another_gateway() -> None:
    back = (Joined(3.2, "b", "alice"), Sent(3.2, "b", RESUME))
    assert _paused("gateway", *back, _word(3.5, "b", 2, " m1.1@n1.a1")) == [pytest.approx(0.5)]
    assert _paused("gateway", _word(3.1, "a", 2, " m1.1@n1.a1")) == []
    assert _paused("limits", *back, _word(3.5, "b", 2, " m1.1@n1.a1")) == []


# -- what is told of one id -----------------------------------------------------------------------


def test_a_tale_has_what_all_say_of_one_response_in_its_order() -> None:
    history = [
        replace(entry, wall=1_000_000.0) if isinstance(entry, Started) else entry
        for entry in told()
    ]
    lines = tale(history, "resp_1").splitlines()
    assert any("response.created" in line for line in lines)
    assert any("deltas" in line for line in lines)
    assert any("Struck" in line for line in lines)
    assert any("table turns" in line for line in lines)
    stamp = datetime.fromtimestamp(1_000_000.044, UTC).astimezone().strftime("%F %T,044")
    log = Printed(9, "gateway-1 serve.log", f"{stamp} INFO vivace.turns turn=resp_1\nother\n")
    with_log = tale([*history, log], "resp_1").splitlines()
    [place] = [index for index, line in enumerate(with_log) if "gateway-1 serve.log" in line]
    assert "response.created" in "".join(with_log[:place])
    assert "response.completed" in "".join(with_log[place:])
    assert "other" not in "".join(with_log)
