"""How far a node is that takes no more work."""

from __future__ import annotations

from vivace.node.draining import Draining


def test_what_has_begun_may_stay_for_a_while() -> None:
    drains = Draining(30)
    assert (drains.stage(0), drains.why) == (0, "")
    drains.begin(None, 100)
    assert [drains.stage(now) for now in (100, 129, 130)] == [1, 1, 2]
    assert drains.why == "draining"
    drains.begin(5, 110)
    assert [drains.stage(now) for now in (114, 115)] == [1, 2]
    drains.undo()
    assert drains.stage(1000) == 0


def test_a_process_that_ends_is_not_called_back_and_waits_no_longer_than_it_was_told() -> None:
    drains = Draining(30)
    drains.begin(60, 0)
    drains.for_good(10, 0)
    drains.undo()
    drains.begin(60, 0)
    assert [drains.stage(now) for now in (9, 10)] == [1, 2]
    assert drains.why == "shutting down"
    sooner = Draining(30)
    sooner.begin(1, 0)
    sooner.for_good(10, 0)
    assert sooner.stage(1) == 2
