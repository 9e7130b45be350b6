"""How long to wait after a key."""

from __future__ import annotations

from vivace.completion.pace import Pace, Timing


def typing(timing: Timing, answer: float, keys: int = 20, between: float = 0.15) -> Pace:
    """Somebody who has typed so many keys by now."""
    pace = Pace(timing)
    pace.answered(answer)
    for key in range(keys):
        pace.typed(key * between)
    return pace


def test_an_engine_that_is_faster_than_the_person_is_asked_at_once() -> None:
    assert typing("auto", 0.1).delay(10.0, 10.0) <= 0


def test_a_slow_one_is_asked_after_a_moment_that_another_key_does_not_prolong() -> None:
    pace = typing("auto", 2.0)
    first = pace.delay(10.0, 10.0)
    pace.typed(10.1)
    assert 0 < first <= 0.4
    assert pace.delay(10.0, 10.0 + first) <= 0


def test_a_slow_one_is_asked_at_every_key_by_who_wants_it() -> None:
    assert typing("always", 2.0).delay(10.0, 10.0) <= 0


def test_who_wants_it_only_at_pauses_has_every_key_begin_the_wait_anew() -> None:
    pace = typing("pauses", 0.01)
    pace.typed(10.0)
    assert pace.delay(10.0, 10.4) > 0
    pace.typed(10.4)
    assert pace.delay(10.0, 10.8) > 0
    assert pace.delay(10.0, 10.95) <= 0


def test_the_engine_works_ahead_for_whoever_does_not_want_it_to_rest() -> None:
    assert typing("auto", 2.0).works_ahead
    assert not typing("pauses", 0.1).works_ahead


def test_what_follows_a_suggestion_is_wanted_where_it_comes_before_that_was_read() -> None:
    assert typing("auto", 0.5).follows
    assert not typing("auto", 3.0).follows
    assert not typing("pauses", 0.5).follows
    assert not Pace().follows, "nobody knows how fast the engine is"


def test_on_battery_power_only_pauses_count_unless_every_key_is_wanted() -> None:
    here = True
    resting, asking = Pace("auto", lambda: here), Pace("always", lambda: True)
    assert resting.delay(0.0, 0.0) > 0
    assert not resting.works_ahead
    assert asking.delay(0.0, 0.0) <= 0
    here = False
    assert resting.delay(0.0, 0.0) <= 0
    assert resting.works_ahead
