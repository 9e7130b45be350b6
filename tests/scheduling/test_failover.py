"""What becomes of a turn that its engine failed."""

from __future__ import annotations

import pytest

from vivace.errors import (
    CannotContinue,
    EngineAbsent,
    EngineBusy,
    EngineDied,
    EngineDrained,
    EngineError,
    EngineFull,
    EngineRefused,
    EngineSilent,
    GaveUp,
)
from vivace.scheduling.failover import Failover

DIED = EngineDied("gone")


def after(turn: Failover, error: EngineError, engine: str, *, spoke: bool) -> set[str] | None:
    avoided = turn.after(error, engine, spoke=spoke, begun=spoke)
    return None if avoided is None else set(avoided)


@pytest.mark.parametrize(
    ("error", "before", "within"),
    [
        (DIED, True, True),
        (EngineAbsent("not there"), True, True),
        (EngineError("down", blame="always"), True, True),
        (EngineError("failed"), True, False),  # it may be the turn's own fault
        (EngineBusy("busy"), True, False),
        (EngineDrained("drained"), True, True),
        (EngineRefused("no"), False, False),
    ],
)
def test_a_turn_moves_where_another_engine_may_help(
    error: EngineError, before: bool, within: bool
) -> None:
    assert (after(Failover(), error, "a", spoke=False) == {"a"}) == before
    assert (after(Failover(), error, "a", spoke=True) == {"a"}) == within


def test_engines_that_failed_a_turn_do_not_get_it_again() -> None:
    turn = Failover()
    assert after(turn, EngineError("no"), "a", spoke=False) == {"a"}
    assert after(turn, EngineBusy("later"), "b", spoke=False) == {"a", "b"}
    assert after(turn, CannotContinue("another vocabulary"), "c", spoke=False) == {"a", "b", "c"}


def test_an_engine_that_died_in_mid_answer_may_have_it_again_when_it_is_back() -> None:
    turn = Failover()
    assert after(turn, DIED, "a", spoke=True) == {"a"}
    assert after(turn, DIED, "b", spoke=True) == {"b"}


@pytest.mark.parametrize("spoke", [False, True])
def test_a_silent_engine_may_have_it_again_if_nobody_else_can(spoke: bool) -> None:
    turn = Failover()
    assert after(turn, EngineError("no"), "a", spoke=False) == {"a"}
    assert after(turn, EngineSilent("quiet"), "b", spoke=spoke) == {"a"}


def test_the_third_death_is_the_last() -> None:
    turn = Failover()
    after(turn, DIED, "a", spoke=False)
    assert not turn.is_last()
    after(turn, EngineSilent("quiet"), "b", spoke=True)
    assert turn.is_last()
    with pytest.raises(GaveUp) as gave_up:
        after(turn, DIED, "c", spoke=True)
    assert gave_up.value.code == "gave_up"
    assert not gave_up.value.elsewhere


def test_engines_that_were_not_there_did_not_die_of_the_turn() -> None:
    turn = Failover()
    for name in "abcdef":
        assert after(turn, EngineAbsent("not there"), name, spoke=False) is not None


def test_an_engine_that_is_drained_has_not_failed_and_may_have_the_turn_again() -> None:
    turn = Failover()
    for _ in range(10):
        assert after(turn, EngineDrained("drained"), "a", spoke=True) == {"a"}
    assert turn.failed == frozenset()
    assert not turn.is_last()


def test_what_two_engines_are_too_full_for_is_not_shown_to_a_third() -> None:
    turn, full = Failover(), EngineFull("full", code="queue_full", seconds=3)
    assert after(turn, full, "a", spoke=False) == {"a"}
    assert after(turn, full, "b", spoke=False) is None
